"""A hook that asks for a change of state (SPEC HOOK-7): refused at once by its own session, never a deadlock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from contextvars import copy_context
from threading import Thread
from typing import Any

import anyio
import pytest
from anyio.from_thread import start_blocking_portal
from anyio.lowlevel import current_token

from tests.core.support import WAIT, Journal, desk, opened, settle, while_blocked
from toolfold import HookContext, HookFailed, HookTimeout, ReentrantTransition, Session

ASKING: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "activate": lambda session: session.activate("c"),
    "deactivate": lambda session: session.deactivate("c"),
    "unchanged": lambda session: session.deactivate("b"),
    "transition": lambda session: session.transition(activate=["c"]),
    "close": lambda session: session.close(),
    "set_fact": lambda session: set_fact(session),
}


async def set_fact(session: Session) -> None:
    session.set_fact("f", 1)


@pytest.mark.spec("HOOK-7", "SES-5")
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
@pytest.mark.parametrize("meanwhile", ["b", None], ids=["during another transition", "when idle"])
async def test_a_task_that_outlives_its_hook_may_ask_later(meanwhile: str | None) -> None:
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
        if meanwhile is None:
            go.set()
        else:
            async with while_blocked(journal.block("+b"), session.activate(meanwhile)):
                go.set()
                await settle()
                assert not tasks[0].done()
        assert await tasks[0]
    assert session.active == ("a" if meanwhile is None else "b", "c")


# Hooks that ask each other's sessions


both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.mark.spec("HOOK-7", "SES-1", "INT-4")
@both_loops
@pytest.mark.parametrize("number", [2, 3, 4])
async def test_hooks_that_ask_each_others_sessions_in_a_cycle_are_refused_where_it_closes(
    number: int, anyio_backend: str
) -> None:
    journals = [Journal() for _ in range(number)]
    sessions = [await opened(journal) for journal in journals]
    refused: list[str] = []

    def asks(other: Session) -> Callable[[HookContext], Awaitable[Any]]:
        async def ask(context: HookContext) -> None:
            at_work.append(context.session)
            while len(at_work) < number:
                await settle(1)
            try:
                await other.activate("c")
            except ReentrantTransition as error:
                refused.append(error.session)
                raise

        return ask

    at_work: list[Session] = []
    for position, journal in enumerate(journals):
        journal.acting["+a"] = asks(sessions[(position + 1) % number])
    answers: list[bool | HookFailed] = []

    async def run(session: Session) -> None:
        try:
            answers.append(await session.activate("a"))
        except HookFailed as error:
            answers.append(error)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            for session in sessions:
                group.start_soon(run, session)
    assert len(refused) == 1
    (failed,) = (answer for answer in answers if isinstance(answer, HookFailed))
    assert isinstance(failed.__cause__, ReentrantTransition)
    assert failed.reason == "It asked its own session for a change, or another one that waits for it."
    assert sorted("a" in session.active for session in sessions) == [False, *[True] * (number - 1)]


@pytest.mark.spec("HOOK-7", "SES-2")
@both_loops
async def test_a_cycle_that_closes_through_another_session_is_refused(anyio_backend: str) -> None:
    """The hook of the first asks a second, whose hook asks the third; a hook of the third asks the first."""
    journals = [Journal() for _ in range(3)]
    first, second, third = [await opened(journal) for journal in journals]
    block = journals[2].block("+a")
    journals[0].acting["+a"] = lambda context: second.activate("a")
    journals[1].acting["+a"] = lambda context: third.activate("c")
    refused: list[ReentrantTransition] = []

    async def ask_first() -> None:
        with anyio.fail_after(WAIT):
            await third.activate("a")

    async def ask_back() -> None:
        with pytest.raises(ReentrantTransition) as raised:
            await first.activate("c")
        refused.append(raised.value)

    async def wait_and_ask_back(context: HookContext) -> None:
        await block.release.wait()
        await ask_back()

    journals[2].acting["+a"] = wait_and_ask_back
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(ask_first)
            while not journals[2].lines:
                await settle(1)
            group.start_soon(first.activate, "a")
            while "+a" not in journals[1].lines:
                await settle(1)
            await settle()
            block.release.set()
    assert [error.session for error in refused] == [first.id]
    assert (first.active, second.active, third.active) == (("a",), ("a",), ("a", "c"))


@pytest.mark.spec("HOOK-7", "SES-2")
@both_loops
async def test_a_hook_may_wait_for_a_session_that_does_not_wait_for_it(anyio_backend: str) -> None:
    inner, outer = Journal(), Journal()
    first, second = await opened(outer), await opened(inner)
    block = inner.block("+b")
    outer.acting["+a"] = lambda context: second.activate("c")
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(second.activate, "b")
            await block.arrived.wait()
            group.start_soon(first.activate, "a")
            await settle()
            group.start_soon(first.activate, "c")  # a request that no hook makes waits like any other
            await settle()
            block.release.set()
    assert (first.active, second.active) == (("a", "c"), ("b", "c"))


@pytest.mark.spec("HOOK-7", "SES-2")
@both_loops
@pytest.mark.parametrize("gives_up", [False, True], ids=["until it came", "until it gave up"])
async def test_a_hook_that_has_waited_for_a_session_is_waited_for_by_a_hook_of_that_one(
    gives_up: bool, anyio_backend: str
) -> None:
    inner, outer = Journal(), Journal()
    first, second = await opened(outer), await opened(inner)
    busy, asked, finish = inner.block("+b"), anyio.Event(), anyio.Event()
    waiting = anyio.CancelScope()

    async def wait_for_the_second(context: HookContext) -> None:
        with waiting:
            await second.activate("c")
        asked.set()
        await finish.wait()

    async def ask_the_first(context: HookContext) -> None:
        assert await first.activate("c")

    outer.acting["+a"], inner.acting["+a"] = wait_for_the_second, ask_the_first
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(second.activate, "b")
            await busy.arrived.wait()
            group.start_soon(first.activate, "a")
            await settle()
            group.start_soon(second.activate, "a")  # queued behind what the hook of the first asked for
            await settle()
            if gives_up:
                waiting.cancel()
                await asked.wait()
            busy.release.set()
            await asked.wait()
            await settle()
            assert "+a" in inner.lines  # and asks, while the hook of the first runs
            finish.set()
    assert (first.active, second.active) == (("a", "c"), ("a",) if gives_up else ("a", "c"))


@pytest.mark.spec("HOOK-7")
@both_loops
async def test_a_transition_leaves_the_context_of_its_caller_as_it_was(anyio_backend: str) -> None:
    journal = Journal()
    session = await opened(journal)
    before = dict(copy_context())
    for _ in range(3):
        assert await session.activate("a")
        journal.fail("+a.x")
        with pytest.raises(HookFailed):
            await session.activate("a.x")
        assert await session.deactivate("a")
    await session.close()
    assert dict(copy_context()) == before


# From other threads


def by_from_thread(session: Session) -> Callable[[], Any]:
    return lambda: anyio.from_thread.run(session.activate, "c")


def by_loop_of_its_own(session: Session) -> Callable[[], Any]:
    def ask() -> None:
        with start_blocking_portal() as portal:
            portal.call(session.activate, "c")

    return ask


def in_plain_thread(function: Callable[[], Any]) -> None:
    """Run a function in a thread without this one's context, and raise what it raises."""
    raised: list[Exception] = []

    def run() -> None:
        try:
            function()
        except Exception as error:
            raised.append(error)

    thread = Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


@pytest.mark.spec("HOOK-7", "INT-4")
@both_loops
@pytest.mark.parametrize(
    "way",
    [
        by_from_thread,
        by_loop_of_its_own,
        lambda session: lambda: in_plain_thread(by_loop_of_its_own(session)),
    ],
    ids=["back to the loop", "loop of its own", "loop of a plain thread"],
)
async def test_a_hook_that_asks_its_own_session_from_another_thread_is_refused_at_once(
    way: Callable[[Session], Callable[[], Any]], anyio_backend: str
) -> None:
    journal = Journal()
    session = await opened(journal, hook_timeout=None)

    async def ask(context: HookContext) -> None:
        await anyio.to_thread.run_sync(way(session))

    journal.acting["+a"] = ask
    with anyio.fail_after(WAIT), pytest.raises(HookFailed) as raised:
        await session.activate("a")
    assert isinstance(raised.value.__cause__, ReentrantTransition)
    assert session.active == ()


@pytest.mark.spec("HOOK-7", "HOOK-6")
@both_loops
async def test_a_hook_that_asks_its_own_session_through_a_plain_thread_is_ended_by_its_timeout(
    anyio_backend: str,
) -> None:
    journal = Journal()
    session = await opened(journal, hook_timeout=0.05)
    token, threads = current_token(), list[Thread]()

    async def ask(context: HookContext) -> None:
        thread = Thread(target=lambda: anyio.from_thread.run(session.activate, "c", token=token))
        threads.append(thread)
        thread.start()
        await anyio.to_thread.run_sync(thread.join, abandon_on_cancel=True)

    journal.acting["+a"] = ask
    with anyio.fail_after(WAIT):
        with pytest.raises(HookFailed) as raised:
            await session.activate("a")
        assert isinstance(raised.value.__cause__, HookTimeout)
        await anyio.to_thread.run_sync(threads[0].join)
    assert session.active == ("c",)  # which waited for the hook's transition
