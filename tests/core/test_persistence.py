"""Persistence (SPEC 12): a session is dumped as a small JSON value, and restored as far as the catalog allows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolfold import (
    ConfigError,
    HandleInvalid,
    HookContext,
    Profile,
    SessionClosed,
    Snapshot,
    ToolSet,
    TransitionRequest,
)
from toolfold._session.state import Saved


def office(**options: Any) -> ToolSet:
    tools = ToolSet("office", **options)
    tools.register_group("mail")
    tools.register_group("drafts", parent="mail")
    tools.register_group("calendar")
    tools.register_profile(Profile(name="clerk", available=("mail",)))
    return tools


def through_json(data: Any) -> Any:
    return json.loads(json.dumps(data))


async def dump_of(tools: ToolSet, *groups: str, **facts: Any) -> Any:
    async with tools.open_session() as session:
        for path in groups:
            await session.activate(path)
        for name, value in facts.items():
            session.set_fact(name, value)
        return through_json(session.dump())


# -- the same catalog -------------------------------------------------------------------------------------------------


@pytest.mark.spec("PER-1")
@pytest.mark.parametrize("groups", [(), ("calendar",), ("mail", "calendar", "mail.drafts")])
async def test_a_restored_session_has_the_same_state(groups: tuple[str, ...]) -> None:
    tools = office()
    facts = {"n": None, "b": True, "i": 1, "f": 1.5, "t": "é", "l": ("a", (1, False)), "e": ()}
    async with tools.open_session() as session:
        await session.transition(activate=groups)
        for name, value in facts.items():
            session.set_fact(name, value)
        data = through_json(session.dump())
        async with tools.restore_session(data) as restored:
            assert restored.snapshot is session.snapshot
            assert restored.discarded == ()
            assert restored.dump() == data


@pytest.mark.spec("PER-1")
async def test_a_dump_is_small_and_names_groups_by_their_paths() -> None:
    assert await dump_of(office(), "mail", "mail.drafts", vip=True) == {
        "version": 1,
        "tools": "office",
        "active": ["mail", "mail.drafts"],
        "facts": {"vip": True},
    }


@pytest.mark.spec("PER-1", "ACT-10")
async def test_the_order_of_activation_is_stored_where_a_quota_needs_it() -> None:
    tools = office(max_active=2, evict="oldest")
    data = await dump_of(tools, "mail", "calendar")
    assert data["active"] == ["mail", "calendar"]
    async with tools.restore_session(data) as session:
        assert session.snapshot.configuration.oldest_first == ("mail", "calendar")
        await session.deactivate("mail")
        await session.activate("mail")
        again = through_json(session.dump())
    async with tools.restore_session(again) as session:
        await session.activate("mail.drafts")
        assert session.active == ("mail", "mail.drafts")


@pytest.mark.spec("PER-1", "PRO-1")
async def test_a_session_under_a_profile_is_restored_under_it() -> None:
    tools = office()
    async with tools.open_session("clerk", active=["mail"]) as session:
        data = through_json(session.dump())
    async with tools.restore_session(data) as session:
        assert [info.name for info in session.list_groups()] == ["mail"]
        assert session.active == ("mail",)
    gone = ToolSet("office")
    with pytest.raises(ConfigError, match="clerk"):
        gone.restore_session(data)


@pytest.mark.spec("SES-3")
async def test_a_session_that_has_ended_has_no_state_to_dump() -> None:
    session = office().open_session()
    with pytest.raises(SessionClosed):
        session.dump()
    await session.start()
    await session.close()
    with pytest.raises(SessionClosed):
        session.dump()


# -- another catalog --------------------------------------------------------------------------------------------------


@pytest.mark.spec("PER-2")
async def test_what_the_catalog_no_longer_allows_is_discarded_and_reported() -> None:
    data = await dump_of(office(), "mail", "mail.drafts", "calendar", seen=1)
    changed = ToolSet("office")
    changed.register_group("calendar")
    changed.register_group("drafts")
    session = changed.restore_session(data)
    assert session.discarded == ("mail", "mail.drafts")
    async with session:
        assert session.active == ("calendar",)
        assert session.facts == {"seen": 1}
        assert session.discarded == ("mail", "mail.drafts")


@pytest.mark.spec("PER-2", "ACT-10")
async def test_a_smaller_quota_applies_from_the_next_activation() -> None:
    data = await dump_of(office(max_active=3, evict="oldest"), "calendar", "mail")
    async with office(max_active=1, evict="oldest").restore_session(data) as session:
        assert session.active == ("calendar", "mail")
        await session.deactivate("mail")
        await session.activate("mail")
        assert list(session.active) == ["mail"]


@pytest.mark.spec("PER-2", "REG-7")
async def test_a_group_that_is_unregistered_before_the_session_opens_is_discarded_then() -> None:
    tools = office()
    session = tools.restore_session(await dump_of(tools, "mail", "calendar"))
    assert not session.discarded
    await tools.unregister_group("calendar")
    async with session:
        assert session.active == ("mail",)
        assert session.discarded == ("calendar",)


# -- transient groups -------------------------------------------------------------------------------------------------


def gated() -> ToolSet:
    tools = ToolSet("office")
    tools.register_group("gate", transient=True)
    tools.register_group("inner", parent="gate")
    tools.register_group("mail")
    tools.register_exclusion("gate", "mail")
    tools.register_group("calendar")
    return tools


@pytest.mark.spec("PER-4")
async def test_transient_groups_and_their_descendants_are_not_dumped() -> None:
    """Document B, progressive disclosure: the flag is not persisted."""
    tools = gated()
    tools.register_group("later", transient=True)
    data = await dump_of(tools, "gate", "gate.inner", "calendar", "later")
    assert data["active"] == ["calendar"]
    async with tools.restore_session(data) as session:
        assert session.active == ("calendar",)
        assert session.discarded == ()


@pytest.mark.spec("PER-4", "PER-2")
async def test_a_group_that_became_transient_is_discarded_and_displaces_nothing() -> None:
    data = {**await dump_of(gated()), "active": ["gate", "gate.inner", "mail"]}
    async with gated().restore_session(data) as session:
        assert session.active == ("mail",)
        assert session.discarded == ("gate", "gate.inner")


# -- hooks ------------------------------------------------------------------------------------------------------------


def hooked(ran: list[str], failing: str = "") -> ToolSet:
    tools = ToolSet("office")

    def hook(context: HookContext) -> None:
        ran.append(f"{context.phase} {context.group} {context.facts.get('user')}")
        if f"{context.phase} {context.group}" == failing:
            raise RuntimeError("no")

    for path in ("a", "a.b", "c"):
        tools.register_group(path, on_activate=hook, on_deactivate=hook)
    return tools


@pytest.mark.spec("HOOK-1", "HOOK-3", "PER-1")
async def test_a_restored_session_sets_its_groups_up_again_in_canonical_order() -> None:
    data = await dump_of(hooked([]), "c", "a", "a.b", user="ada")
    ran: list[str] = []
    async with hooked(ran).restore_session(data):
        assert ran == ["on_activate a ada", "on_activate a.b ada", "on_activate c ada"]
        ran.clear()
    assert ran == ["on_deactivate c ada", "on_deactivate a.b ada", "on_deactivate a ada"]


# -- data that is no dump ---------------------------------------------------------------------------------------------


def deep(levels: int) -> list[Any]:
    """Return lists within one another."""
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


GOOD: dict[str, Any] = {"version": 1, "tools": "office", "active": ["mail"], "facts": {"a": 1}}


@pytest.mark.spec("PER-1", "ERR-2")
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (None, "no JSON object"),
        ("{}", "no JSON object"),
        ([], "no JSON object"),
        ({}, "version is None"),
        ({**GOOD, "version": 2}, "version is 2"),
        ({**GOOD, "version": True}, "version is True"),
        ({**GOOD, "tools": "other"}, "'other'"),
        ({**GOOD, "active": "mail"}, "no list"),
        ({**GOOD, "active": ["mail", 1]}, "no list"),
        ({**GOOD, "active": None}, "no list"),
        ({**GOOD, "facts": None}, "facts"),
        ({**GOOD, "facts": {"a": {"b": 1}}}, "'a'"),
        ({**GOOD, "facts": {"a": deep(5_000)}}, "nested too deeply"),
        ({**GOOD, "facts": {"a": float("nan")}}, "'a'"),
        ({**GOOD, "facts": {1: 1}}, "fact 1"),
        ({**GOOD, "profile": 1}, "profile"),
    ],
)
async def test_data_that_is_no_dump_is_refused_and_nothing_is_opened(data: Any, problem: str) -> None:
    tools = office()
    with pytest.raises(HandleInvalid, match=problem):
        tools.restore_session(data)
    assert tools.sessions == ()


@pytest.mark.spec("PER-2")
def test_a_group_named_twice_is_restored_and_reported_once() -> None:
    saved = Saved(("mail", "gone", "mail", "gone"), {})
    catalog = office().catalog
    assert saved.restored(catalog)[1] == ("gone",)
    assert saved.snapshot(catalog) is Snapshot.of(catalog).after(TransitionRequest("mail"))
