"""A hook that asks for a change of state (SPEC HOOK-7): refused at once by its own session, never a deadlock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import anyio
import pytest

from tests.core.support import WAIT, Journal, desk, opened, settle
from toolfold import HookContext, HookFailed, ReentrantTransition, Session

ASKING: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "activate": lambda session: session.activate("c"),
    "deactivate": lambda session: session.deactivate("c"),
    "unchanged": lambda session: session.deactivate("b"),
    "transition": lambda session: session.transition(activate=["c"]),
    "close": lambda session: session.close(),
}


@pytest.mark.spec("HOOK-7")
@pytest.mark.parametrize("asking", ASKING)
@pytest.mark.parametrize("line", ["+a", "-a", "undo -a"])
async def test_a_hook_that_asks_its_own_session_is_refused_at_once(asking: str, line: str) -> None:
    journal = Journal()
    session = await opened(journal, *(["a"] if line == "-a" else []))
    refused: list[str] = []

    async def ask(context: HookContext) -> None:
        with pytest.raises(ReentrantTransition) as raised:
            await ASKING[asking](context.session)
        refused.append(raised.value.session)

    journal.acting[line] = ask
    if line == "undo -a":
        journal.fail("+a.x")
    with anyio.fail_after(WAIT), pytest.raises(HookFailed) if line == "undo -a" else nullcontext():
        await (session.deactivate("a") if line == "-a" else session.transition(activate=["a", "a.x"]))
    assert refused == [session.id]
    assert session.is_open


@pytest.mark.spec("HOOK-7")
async def test_setting_a_fact_within_a_hook_is_refused() -> None:
    journal = Journal()
    session = await opened(journal)

    async def ask(context: HookContext) -> None:
        context.session.set_fact("f", 1)

    journal.acting["+a"] = ask
    with pytest.raises(HookFailed) as raised:
        await session.activate("a")
    assert isinstance(raised.value.__cause__, ReentrantTransition)
    assert session.facts == {}


@pytest.mark.spec("HOOK-7")
async def test_a_task_started_by_a_hook_or_a_handler_called_by_it_is_refused_as_well() -> None:
    journal = Journal()
    tools = desk(journal)
    tools.register("open", lambda values, context: context.activate("c"), input_schema={"type": "object"})
    session = await tools.open_session().start()
    answers: list[object] = []

    async def attempt() -> None:
        with pytest.raises(ReentrantTransition):
            await session.activate("c")
        answers.append("refused")

    async def ask(context: HookContext) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(attempt)
        await asyncio.create_task(attempt())
        for name in ("c.activate", "open"):
            answers.append((await session.call(name)).is_error)

    journal.acting["+a"] = ask
    with anyio.fail_after(WAIT):
        assert await session.activate("a")
    assert answers == ["refused", "refused", True, True]
    assert session.active == ("a",)


@pytest.mark.spec("HOOK-7", "SES-1")
async def test_a_hook_may_ask_another_session_whose_hook_may_not_ask_the_first() -> None:
    journal, inner = Journal(), Journal()
    session, other = await opened(journal), await opened(inner)
    order: list[str] = []

    async def ask_other(context: HookContext) -> None:
        assert await other.activate("a")
        order.append("other done")

    async def ask_back(context: HookContext) -> None:
        for back in (session, other):
            with pytest.raises(ReentrantTransition) as raised:
                await back.activate("c")
            assert raised.value.session == back.id
        order.append("refused")

    journal.acting["+a"], inner.acting["+a"] = ask_other, ask_back
    with anyio.fail_after(WAIT):
        assert await session.activate("a")
    assert order == ["refused", "other done"]
    assert session.active == other.active == ("a",)


@pytest.mark.spec("HOOK-7")
async def test_a_task_that_outlives_its_hook_may_ask_later_even_while_another_step_is_under_way() -> None:
    journal = Journal()
    session = await opened(journal)
    tasks: list[asyncio.Task[bool]] = []
    go = anyio.Event()

    async def later() -> bool:
        await go.wait()
        return await session.activate("c")

    async def start(context: HookContext) -> None:
        tasks.append(asyncio.create_task(later()))

    journal.acting["+a"] = start
    with anyio.fail_after(WAIT):
        await session.activate("a")
        park = journal.park("+b")
        second = asyncio.ensure_future(session.activate("b"))
        await park.arrived.wait()
        go.set()
        await settle()
        assert not tasks[0].done()
        park.release.set()
        assert await tasks[0] is await second is True
    assert session.active == ("b", "c")


@pytest.mark.spec("HOOK-7")
async def test_a_task_that_outlives_its_hook_may_ask_once_the_step_is_over() -> None:
    journal = Journal()
    session = await opened(journal)
    over = anyio.Event()
    tasks: list[asyncio.Task[bool]] = []

    async def later() -> bool:
        await over.wait()
        return await session.activate("c")

    async def start(context: HookContext) -> None:
        tasks.append(asyncio.create_task(later()))

    journal.acting["+a"] = start
    with anyio.fail_after(WAIT):
        await session.activate("a")
        over.set()
        assert await tasks[0]
