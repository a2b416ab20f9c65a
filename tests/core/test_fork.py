"""SPEC SES-7: a session for a sub-agent, in the state of its parent."""

from __future__ import annotations

import pytest

from toolfold import HookContext, HookFailed, Profile, SessionClosed, ToolSet


def desk(ran: list[str] | None = None) -> ToolSet:
    async def opened(context: HookContext) -> None:
        if ran is not None:
            ran.append(f"{context.session.id} +{context.group}")

    async def closed(context: HookContext) -> None:
        if ran is not None:
            ran.append(f"{context.session.id} -{context.group}")

    tools = ToolSet("desk", max_active=3, evict="oldest")
    for path in ("a", "a.x", "b", "c"):
        tools.register_group(path, on_activate=opened, on_deactivate=closed)
        tools.register("read", lambda: None, group=path)
    tools.register_group("gate", transient=True)
    return tools


@pytest.mark.spec("SES-7")
async def test_a_fork_has_the_groups_facts_profile_and_caller_of_its_session() -> None:
    tools = desk()
    tools.register_profile(Profile(name="few", active=("a",), available=("gate",)))
    async with tools.open_session("few", caller="ann") as session:
        await session.activate("gate")
        session.set_fact("unlocked", True)
        async with session.fork() as child:
            assert child.active == session.active == ("a", "gate")
            assert child.facts == {"unlocked": True}
            assert (child.caller, child.id) == ("ann", "desk-2")
            assert child.list_tools().names == session.list_tools().names
            assert [group.name for group in child.list_groups()] == ["a", "gate"]


@pytest.mark.spec("SES-7")
async def test_the_hooks_of_a_forks_groups_run_when_it_opens_and_ends() -> None:
    ran: list[str] = []
    tools = desk(ran)
    async with tools.open_session(active=["a", "a.x"], identity="parent") as session:
        ran.clear()
        async with session.fork(identity="child"):
            assert ran == ["child +a", "child +a.x"]
            ran.clear()
        assert ran == ["child -a.x", "child -a"]


@pytest.mark.spec("SES-7", "ACT-10")
async def test_a_fork_evicts_in_the_order_of_its_session() -> None:
    tools = desk()
    async with tools.open_session() as session:
        for path in ("c", "a", "b"):
            await session.activate(path)
        async with session.fork() as child:
            await child.activate("gate")
            assert child.active == ("a", "b", "gate")


@pytest.mark.spec("SES-7")
async def test_a_fork_whose_hook_fails_is_closed_and_its_session_is_unchanged() -> None:
    fails = False

    def hook() -> None:
        if fails:
            raise OSError("no more connections")

    tools = ToolSet("desk")
    tools.register_group("a", on_activate=hook)
    async with tools.open_session(active=["a"]) as session:
        fails = True
        with pytest.raises(HookFailed):
            await session.fork().start()
        assert session.active == ("a",)
        assert tools.sessions == (session,)


@pytest.mark.spec("SES-7")
async def test_a_session_that_has_ended_can_not_be_forked() -> None:
    async with desk().open_session() as session:
        pass
    with pytest.raises(SessionClosed):
        session.fork()
