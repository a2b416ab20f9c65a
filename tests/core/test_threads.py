"""Plain functions run in worker threads, so that none delays others, unless they are set to run on the event loop.

What they ask of their session from there works as it does on the loop (SPEC CALL-5, SAF-2, HOOK-6, INT-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextvars import Context as Variables
from contextvars import ContextVar
from threading import Event, get_ident
from typing import Any

import anyio
import pytest

from tests.core.support import WAIT
from toolfold import (
    Context,
    GroupNotFound,
    HookContext,
    InvalidDefinition,
    ReentrantTransition,
    ToolSet,
    Visibility,
)
from toolfold._session.events import PredicateFailed

ANYTHING = {"type": "object"}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def one_thread() -> AsyncGenerator[None]:
    """Let handlers have one worker thread at a time."""
    limiter = anyio.to_thread.current_default_thread_limiter()
    before, limiter.total_tokens = limiter.total_tokens, 1
    yield
    limiter.total_tokens = before


# Where functions run


class Where:
    """Handlers and hooks that record the thread in which they ran."""

    def __init__(self) -> None:
        self.threads: list[int] = []

    def plain(self) -> str:
        self.threads.append(get_ident())
        return "done"

    async def asynchronous(self) -> str:
        return self.plain()

    def take(self) -> int:
        (thread,) = self.threads
        self.threads.clear()
        return thread


async def every_kind(tools: ToolSet, where: Where, function: Callable[..., Any], **options: Any) -> list[int]:
    """Register a function as every kind of component, use each, and return the threads that it ran in."""
    tools.register("tool", function, **options)
    tools.register("raw", function, input_schema=ANYTHING, **options)
    tools.register_prompt("prompt", function, **options)
    tools.register_resource("file:///a", function, **options)
    tools.register_resource_template("file:///b/{name}", lambda values: function(), **options)
    tools.register_group("group", on_activate=function, **options)
    ran: list[int] = []
    async with tools.open_session() as session:
        for use in (
            lambda: session.call("tool"),
            lambda: session.call("raw"),
            lambda: session.get_prompt("prompt"),
            lambda: session.read("file:///a"),
            lambda: session.read("file:///b/c"),
            lambda: session.activate("group"),
        ):
            await use()
            ran.append(where.take())
    return ran


@pytest.mark.spec("SAF-2", "REG-9", "HOOK-1")
@pytest.mark.parametrize(
    ("settings", "options", "away"),
    [
        ({}, {}, True),
        ({"run_in_thread": False}, {}, False),
        ({}, {"run_in_thread": False}, False),
        ({"run_in_thread": False}, {"run_in_thread": True}, True),
    ],
)
async def test_plain_functions_run_in_worker_threads_unless_that_is_disabled(
    settings: dict[str, Any], options: dict[str, Any], away: bool
) -> None:
    where = Where()
    ran = await every_kind(ToolSet("t", **settings), where, where.plain, **options)
    assert [thread != get_ident() for thread in ran] == [away] * 6


@pytest.mark.spec("SAF-2")
@pytest.mark.parametrize("options", [{}, {"run_in_thread": True}])
async def test_async_functions_always_run_on_the_event_loop(options: dict[str, Any]) -> None:
    where = Where()
    ran = await every_kind(ToolSet("t"), where, where.asynchronous, **options)
    assert ran == [get_ident()] * 6


async def test_a_plain_function_that_returns_an_awaitable_has_it_awaited_on_the_event_loop() -> None:
    where, tools = Where(), ToolSet("t")
    tools.register("t", lambda: where.asynchronous(), input_schema=ANYTHING)
    assert (await tools.call_tool("t")).text == "done"
    assert where.take() == get_ident()


@pytest.mark.spec("CAT-1")
async def test_handlers_of_the_library_run_on_the_event_loop() -> None:
    where, tools = Where(), ToolSet("t")
    tools.register("t", lambda: "done", visibility=Visibility.when(lambda view: bool(where.plain())))
    tools.register_catalog_tool()
    assert not (await tools.call_tool("catalog")).is_error
    assert where.take() == get_ident()


async def test_a_thread_sees_the_context_variables_of_the_call() -> None:
    variable: ContextVar[str] = ContextVar("variable")
    tools = ToolSet("t")
    tools.register("t", lambda: variable.get())
    variable.set("seen")
    assert (await tools.call_tool("t")).text == "seen"


# Delaying nothing else


@pytest.mark.spec("SAF-2")
async def test_a_handler_that_blocks_does_not_delay_other_requests() -> None:
    blocked, release = Event(), Event()

    def block() -> str:
        blocked.set()
        return "released" if release.wait(WAIT) else "timed out"

    tools, answers = ToolSet("t"), list[str]()
    tools.register("block", block)
    tools.register("ping", lambda: "pong")

    async def call(name: str) -> None:
        answers.append((await tools.call_tool(name)).text)

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(call, "block")
            await anyio.to_thread.run_sync(blocked.wait, WAIT)
            await call("ping")
            release.set()
    assert answers == ["pong", "released"]


@pytest.mark.spec("SAF-2", "SES-2")
async def test_a_hook_that_blocks_delays_only_the_transitions_of_its_own_session() -> None:
    blocked, release = Event(), Event()

    def block(context: HookContext) -> None:
        if context.session.id == "blocked":
            blocked.set()
            assert release.wait(WAIT)

    tools = ToolSet("t")
    tools.register_group("a", on_activate=block)
    async with tools.open_session(identity="blocked") as session, tools.open_session() as other:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as group:
                group.start_soon(session.activate, "a")
                await anyio.to_thread.run_sync(blocked.wait, WAIT)
                assert await other.activate("a")
                assert session.active == ()
                release.set()
        assert session.active == ("a",)


@pytest.mark.spec("SAF-2")
async def test_a_caller_that_is_cancelled_returns_at_once_and_the_thread_does_no_harm() -> None:
    blocked, release, finished = Event(), Event(), Event()

    def block(context: Context) -> None:
        blocked.set()
        release.wait(WAIT)
        try:
            context.facts.get("n")
        finally:
            finished.set()

    tools = ToolSet("t")
    tools.register("block", block)
    tools.register("ping", lambda: "pong")
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(tools.call_tool, "block")
            await anyio.to_thread.run_sync(blocked.wait, WAIT)
            group.cancel_scope.cancel()
        assert (await tools.call_tool("ping")).text == "pong"
        release.set()
        await anyio.to_thread.run_sync(finished.wait, WAIT)
        assert (await tools.call_tool("ping")).text == "pong"


@pytest.mark.spec("SAF-2", "HOOK-1")
async def test_handlers_that_occupy_all_threads_may_open_groups_whose_hooks_need_one(one_thread: None) -> None:
    ran: list[str] = []
    tools = ToolSet("t")
    tools.register_group("a", on_activate=lambda: ran.append("+a"))
    tools.register("inner", lambda: ran.append("inner"), input_schema=ANYTHING)

    def work(values: dict[str, Any], context: Context) -> bool:
        opened = anyio.from_thread.run(context.activate, "a")
        anyio.from_thread.run(context.session.call, "inner")
        return opened

    tools.register("work", work, input_schema=ANYTHING)
    with anyio.fail_after(WAIT):
        assert (await tools.call_tool("work")).text == "true"
    assert ran == ["+a", "inner"]


# What a handler may do from its thread


@pytest.mark.spec("CALL-5", "SES-5", "NTF-3")
@pytest.mark.parametrize("settings", [{}, {"run_in_thread": False}])
async def test_a_handler_reads_and_changes_its_session_and_listeners_are_notified_on_the_event_loop(
    settings: dict[str, Any],
) -> None:
    tools, received = ToolSet("t", control="none", **settings), list[tuple[str, int]]()
    tools.register_group("a")
    tools.register("guarded", lambda: "done", visibility=Visibility.when(lambda view: view.facts.get("n") == 1))
    tools.register("broken", lambda: "done", visibility=Visibility.when(lambda view: bool(1 / 0)))

    def work(context: Context) -> list[Any]:
        session = context.session
        before = [list(session.list_tools().names), context.is_group_active("a")]
        remove = session.on_list_changed(lambda kinds: received.append(("own listener", get_ident())))
        context.set_fact("n", 1)
        remove()
        tools.register("new", lambda: "new")
        tools.notify_list_changed()
        return [*before, list(session.list_tools().names), dict(context.facts), tools.default_session.id]

    tools.register("work", work)
    tools.observe(lambda event: received.append((type(event).__name__, get_ident())))
    async with tools.open_session() as session:
        session.on_list_changed(lambda kinds: received.append(("listener", get_ident())))
        result = await session.call("work")
        assert result.text == ('[["work"], false, ["guarded", "new", "work"], {"n": 1}, "t-default"]')
        assert (await session.call("new")).text == "new"
    assert {thread for _, thread in received} == {get_ident()}
    names = [name for name, _ in received]
    assert names == [
        "SessionOpened",
        PredicateFailed.__name__,
        "listener",
        "own listener",
        "listener",
        "ListsAnnounced",
        "SessionOpened",
        "SessionEnded",
    ]


@pytest.mark.spec("CALL-5", "ERR-2")
async def test_what_is_raised_on_the_event_loop_reaches_the_handler_in_its_thread() -> None:
    def work(context: Context) -> str:
        with pytest.raises(InvalidDefinition):
            context.set_fact("n", object())
        with pytest.raises(GroupNotFound):
            anyio.from_thread.run(context.activate, "nothing")
        return "refused"

    tools = ToolSet("t")
    tools.register("work", work)
    assert (await tools.call_tool("work")).text == "refused"


async def test_a_handler_may_run_an_event_loop_of_its_own_with_tools_of_its_own() -> None:
    inner = ToolSet("inner")
    inner.register_group("a", on_activate=lambda: None)

    def remember(context: Context) -> None:
        context.set_fact("thread", get_ident())

    async def remember_here(context: Context) -> None:
        context.set_fact("here", get_ident())

    inner.register("remember", remember, group="a")
    inner.register("remember_here", remember_here)

    async def work() -> list[bool]:
        async with inner.open_session(active=["a"]) as session:
            await session.call("a.remember")
            await session.call("remember_here")
            return [session.facts["here"] == get_ident(), session.facts["thread"] != get_ident()]

    tools = ToolSet("t")
    tools.register("work", lambda: anyio.run(work))
    with anyio.fail_after(WAIT):
        assert (await tools.call_tool("work")).text == "[true, true]"


@pytest.mark.spec("INT-4")
async def test_a_change_from_another_event_loop_while_a_hook_runs_is_refused_with_what_to_do_instead() -> None:
    tools, began, proceed = ToolSet("shared"), anyio.Event(), anyio.Event()

    async def open_slowly() -> None:
        began.set()
        await proceed.wait()

    async def close() -> None:
        await session.deactivate("slow")

    tools.register_group("slow", on_activate=open_slowly)
    async with tools.open_session() as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.activate, "slow")
        await began.wait()
        with pytest.raises(ReentrantTransition, match=r"Share one loop among threads: start_blocking_portal\(\)"):
            await anyio.to_thread.run_sync(lambda: Variables().run(lambda: anyio.run(close)))
        proceed.set()
