"""What a hook opened is found by the tools of its group, through a slot."""

from __future__ import annotations

import pytest

from toolfold import Context, HookContext, Slot, ToolSet


def desk(log: list[str]) -> ToolSet:
    tools = ToolSet("desk")
    database = Slot[str]("database")

    def open_database(hook: HookContext) -> None:
        database.fill(hook, f"of {hook.session.id}")

    def close_database(hook: HookContext) -> None:
        log.append(database.empty(hook))

    tools.register_group("orders", on_activate=open_database, on_deactivate=close_database)
    tools.register_group("reports")

    @tools.tool(group="orders")
    def look(context: Context) -> str:
        return database.of(context)

    @tools.tool(group="reports")
    def guess(context: Context) -> str:
        return database.of(context)

    return tools


@pytest.mark.spec("CALL-5", "HOOK-1", "SES-1")
async def test_each_session_has_what_its_own_hook_put_there_until_another_hook_takes_it() -> None:
    log: list[str] = []
    tools = desk(log)
    async with tools.open_session(identity="a") as a, tools.open_session(identity="b") as b:
        await a.activate("orders")
        await b.activate("orders")
        assert [(await one.call("orders.look")).text for one in (a, b)] == ["of a", "of b"]
        await a.deactivate("orders")
        assert log == ["of a"]
        assert (await b.call("orders.look")).text == "of b"
    assert log == ["of a", "of b"]


@pytest.mark.spec("DEL-4", "CALL-5")
async def test_a_session_that_inherits_a_group_uses_what_its_owner_has() -> None:
    log: list[str] = []
    tools = desk(log)
    async with tools.open_session(identity="owner", active=["orders"]) as owner:
        async with tools.request_session(owner.snapshot, owner=owner) as heir:
            assert (await heir.call("orders.look")).text == "of owner"
        assert log == []


@pytest.mark.spec("CALL-3")
async def test_an_empty_slot_says_where_it_is_filled(caplog: pytest.LogCaptureFixture) -> None:
    async with desk([]).open_session(identity="a") as session:
        await session.activate("reports")
        assert (await session.call("reports.guess")).is_error
    assert "The slot 'database' of session 'a' is empty" in caplog.text
    assert (
        "Fill it in on_activate of the group whose tools use it, and in resume if sessions are stored." in caplog.text
    )


@pytest.mark.spec("CALL-3")
async def test_where_no_other_process_can_have_filled_a_slot_a_model_is_not_told_to_open_its_group_again() -> None:
    tools, database = ToolSet("desk"), Slot[str]("database")
    tools.register_group("orders", on_activate=lambda: None)

    @tools.tool(group="orders")
    def look(context: Context) -> str:
        return database.of(context)

    async with tools.open_session(active=["orders"]) as session:
        assert "open it again" not in (await session.call("orders.look")).text


@pytest.mark.spec("STO-2", "CALL-5")
async def test_a_slot_that_is_emptied_twice_says_what_the_hook_that_closes_does() -> None:
    database = Slot[str]("database")
    async with desk([]).open_session(identity="a") as session:
        with pytest.raises(LookupError) as caught:
            database.empty(HookContext(session, "orders", "on_deactivate"))
    assert "The slot 'database' of session 'a' is empty: no hook has filled it in this process." in str(caught.value)
    assert "let the hook that closes it pass over this LookupError" in str(caught.value)
