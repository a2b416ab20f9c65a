"""Whatever users' code raises, of any class, fails the request that called it and nothing else (SPEC SAF-2, CALL-3).

What comes from outside of that code (a cancellation, Ctrl-C, the end of the coroutine) is passed on as ever.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.core.cancelling import Cancel, Cancelled, ways
from tests.core.support import WAIT
from toolfold import Context, HookFailed, Mode, Modes, Session, ToolNotFound, ToolSet, View, Visibility
from toolfold._session.events import NotificationFailed, PredicateFailed

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The event loops that the core runs under (SPEC INT-4)."""
    return str(request.param)


class Panic(BaseException):
    """An exception such as extension modules in other languages raise."""


def leave() -> None:
    sys.exit(3)


def fail_with(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def in_a_group() -> None:
    raise BaseExceptionGroup("several", [SystemExit(3), Panic()])


RAISING: dict[str, Callable[[], None]] = {
    "exit": leave,
    "panic": fail_with(Panic("secret")),
    "interrupt": fail_with(KeyboardInterrupt()),
    "generator": fail_with(GeneratorExit()),
    "cancelled": fail_with(asyncio.CancelledError()),
    "group": in_a_group,
}
raising = pytest.mark.parametrize("fail", RAISING.values(), ids=RAISING.keys())


def at_once(fail: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        fail()

    return run


def later(fail: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def run() -> None:
        await checkpoint()
        fail()

    return run


kinds = pytest.mark.parametrize("kind", [lambda fail: fail, at_once, later], ids=["sync", "at once", "later"])


# Failures of users' code


@pytest.mark.spec("SAF-2", "CALL-3")
@raising
@kinds
async def test_whatever_a_handler_raises_is_an_error_result_that_is_logged(
    kind: Callable[[Any], Any], fail: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    tools = ToolSet("t")
    tools.register("t", kind(fail))
    result = await tools.call_tool("t")
    assert result.is_error
    assert result.text == "t failed with an internal error; its operator can find it in the log."
    (record,) = (record for record in caplog.records if record.levelno >= logging.ERROR)
    assert record.exc_info
    await checkpoint()


@pytest.mark.spec("SAF-2", "HOOK-4", "HOOK-5")
@raising
@kinds
async def test_whatever_a_hook_raises_rolls_its_transition_back(
    kind: Callable[[Any], Any], fail: Callable[[], None]
) -> None:
    ran: list[str] = []
    tools = ToolSet("t")
    tools.register_group("a", on_activate=partial(ran.append, "+a"), on_deactivate=partial(ran.append, "-a"))
    tools.register_group("b", on_activate=kind(fail))
    async with tools.open_session() as session:
        with pytest.raises(HookFailed) as raised:
            await session.transition(activate=["a", "b"])
        assert (raised.value.group, raised.value.__cause__ is not None) == ("b", True)
        assert (ran, session.active) == (["+a", "-a"], ())
        await checkpoint()
        assert await session.activate("a")


@pytest.mark.spec("SAF-2", "HOOK-5")
@raising
async def test_whatever_a_hook_raises_while_it_undoes_is_attached_and_the_rest_is_undone(
    fail: Callable[[], None],
) -> None:
    ran: list[str] = []
    tools = ToolSet("t")
    tools.register_group("a", on_activate=lambda: None, on_deactivate=lambda: ran.append("-a"))
    tools.register_group("b", on_activate=lambda: None, on_rollback=later(fail))
    tools.register_group("c", on_activate=fail_with(RuntimeError()))
    async with tools.open_session() as session:
        with pytest.raises(HookFailed) as raised:
            await session.transition(activate=["a", "b", "c"])
    assert len(raised.value.compensation) == 1
    assert ran == ["-a"]


@pytest.mark.spec("SAF-2", "HOOK-9")
@raising
async def test_whatever_a_hook_raises_at_the_end_of_a_session_is_reported_with_it(fail: Callable[[], None]) -> None:
    tools = ToolSet("t")
    tools.register_group("a", on_deactivate=later(fail))
    session = await tools.open_session(active=["a"]).start()
    with pytest.raises(ExceptionGroup) as raised:
        await session.close()
    assert [type(error) for error in raised.value.exceptions] == [HookFailed]
    assert not session.is_open


@pytest.mark.spec("SAF-2", "VIS-4", "MOD-2")
@raising
async def test_whatever_a_predicate_a_count_or_the_reader_of_the_state_raises_affects_only_what_uses_it(
    fail: Callable[[], None],
) -> None:
    def predicate(view: View) -> bool:
        fail()
        return True

    def count(view: View) -> int:
        fail()
        return 1

    def read() -> None:
        fail()

    tools, received = ToolSet("t", state=read), list[Any]()
    tools.observe(received.append)
    modes = Modes("what", {"one": Mode(available=predicate), "two": Mode(count=count)})
    schema = {"type": "object", "properties": {"what": {"type": "string"}}}
    tools.register("composite", lambda: "done", input_schema=schema, modes=modes)
    tools.register("guarded", lambda: "done", visibility=Visibility.when(predicate))
    tools.register("reading", lambda: "done", visibility=Visibility.when(lambda view: view.state is None))
    tools.register("free", lambda: "done")
    assert tools.list_tools().names == ("composite", "free")
    assert tools.list_tools().tools[0].definition["_meta"] == {"available_modes": ["two"], "data_counts": {}}
    for name in ("guarded", "reading"):
        with pytest.raises(ToolNotFound):
            await tools.call_tool(name)
    failed = [(event.name, event.mode) for event in received if isinstance(event, PredicateFailed)]
    assert sorted(failed, key=str) == [("composite", "one"), ("composite", "two"), ("guarded", None), ("reading", None)]


@pytest.mark.spec("SAF-2", "NTF-2")
@raising
async def test_whatever_an_observer_or_a_listener_raises_is_contained(fail: Callable[[], None]) -> None:
    tools, received = ToolSet("t"), list[Any]()
    tools.register_group("a")
    tools.observe(lambda event: fail())
    tools.trace(lambda event: fail())
    tools.observe(received.append)
    async with tools.open_session() as session:
        session.on_list_changed(lambda kinds: fail())
        tools.register("t", lambda: "done", group="a")
        assert await session.activate("a")
        assert [type(event) for event in received if isinstance(event, NotificationFailed)] == [NotificationFailed]


@pytest.mark.spec("SAF-2")
@on_asyncio
async def test_a_handler_that_awaits_a_cancelled_task_has_failed() -> None:
    async def other() -> None:
        await anyio.sleep_forever()

    async def handler() -> None:
        task = asyncio.ensure_future(other())
        await checkpoint()
        task.cancel()
        await task

    tools = ToolSet("t")
    tools.register("t", handler)
    assert (await tools.call_tool("t")).is_error


# Exceptions from outside


Asking = Callable[[Session], Awaitable[Any]]
ASKING: dict[str, Asking] = {
    "call": lambda session: session.call("t"),
    "transition": lambda session: session.activate("a"),
}
asking = pytest.mark.parametrize("ask", ASKING.values(), ids=ASKING.keys())


def waiting(wait: Callable[[], Awaitable[None]]) -> ToolSet:
    tools = ToolSet("t")
    tools.register("t", wait)
    tools.register_group("a", on_activate=wait)
    return tools


@pytest.mark.spec("SAF-2", "HOOK-6")
@asking
@ways
async def test_the_cancellation_of_a_request_is_not_swallowed(
    ask: Asking, cancelled: Cancelled, anyio_backend: str
) -> None:
    started = anyio.Event()

    async def wait() -> None:
        started.set()
        await anyio.sleep_forever()

    async def steer(cancel: Cancel) -> None:
        await started.wait()
        cancel()

    async with waiting(wait).open_session() as session:
        with anyio.fail_after(WAIT):
            await cancelled(lambda: ask(session), steer)


@pytest.mark.spec("SAF-2")
@asking
@on_asyncio
async def test_a_coroutine_of_a_request_can_be_closed_while_it_waits(ask: Asking) -> None:
    closed: list[str] = []

    class Pause:
        def __await__(self) -> Generator[None]:
            try:
                yield
            finally:
                closed.append("handler")

    async def wait() -> None:
        await Pause()

    tools = waiting(wait)

    async def request() -> None:
        await ask(tools.default_session)
        closed.append("not reached")

    coroutine = request()
    assert coroutine.send(None) is None
    coroutine.close()
    assert closed == ["handler"]


async def asked(ask: Asking, tools: ToolSet) -> None:
    await ask(tools.default_session)


def interrupted() -> None:
    signal.raise_signal(signal.SIGINT)


async def interrupted_as_if_from_outside() -> None:
    interrupted()


@pytest.mark.spec("SAF-2")
@asking
def test_ctrl_c_while_a_handler_or_a_hook_runs_ends_the_program(ask: Asking) -> None:
    tools = waiting(interrupted_as_if_from_outside)
    loop = asyncio.new_event_loop()  # run without `asyncio.run`, Ctrl-C is Python's own handler's
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(ask(tools.default_session))
        loop.run_until_complete(tools.default_session.close())
    finally:
        loop.close()


@pytest.mark.spec("SAF-2")
@asking
def test_the_second_ctrl_c_under_asyncio_run_ends_the_program(ask: Asking) -> None:
    async def twice() -> None:
        interrupted()  # asks the main task to end
        interrupted()  # is raised here

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(asked(ask, waiting(twice)))


@pytest.mark.spec("SAF-2")
@asking
def test_what_the_programs_own_signal_handler_raises_ends_the_program(ask: Asking) -> None:
    async def interrupt() -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
    try:
        with pytest.raises(SystemExit, match="5"):
            asyncio.run(asked(ask, waiting(interrupt)))
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.spec("SAF-2", "CALL-5")
async def test_a_session_is_usable_after_a_handler_exits() -> None:
    async def handler(context: Context) -> None:
        context.set_fact("n", 1)
        leave()

    tools = ToolSet("t")
    tools.register("t", handler)
    assert (await tools.call_tool("t")).is_error
    assert dict(tools.default_session.facts) == {"n": 1}
