"""Hooks that block a thread, which can't be stopped: cancellation waits for them, and a time-out abandons them."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event
from typing import Any

import anyio
import pytest

from tests.core.cancelling import Cancel, Cancelled, Steer, ways
from tests.core.support import WAIT, settle
from toolfold import HookContext, HookFailed, HookTimeout, ToolSet
from toolfold._session.events import Committed


class Blocking:
    """Hooks that record that they ran; one of them blocks its thread until it is released."""

    def __init__(self, blocking: str) -> None:
        self.lines: list[str] = []
        self.blocking = blocking
        self.blocked, self.release, self.finished = Event(), Event(), Event()

    def hook(self, sign: str) -> Callable[[HookContext], None]:
        def run(context: HookContext) -> None:
            line = f"{'undo ' if context.undoes else ''}{sign}{context.group}"
            self.lines.append(line)
            if line == self.blocking:
                self.blocked.set()
                assert self.release.wait(WAIT)
                self.finished.set()

        return run

    def tools(self, *paths: str, **settings: Any) -> ToolSet:
        tools = ToolSet("t", **settings)
        for path in paths:
            tools.register_group(path, on_activate=self.hook("+"), on_deactivate=self.hook("-"))
        return tools

    @property
    def cancelling(self) -> Steer:
        """Cancel the request while the hook blocks; then release the hook."""

        async def steer(cancel: Cancel) -> None:
            await anyio.to_thread.run_sync(self.blocked.wait, WAIT)
            cancel()
            await settle()
            assert self.lines[-1] == self.blocking
            self.release.set()

        return steer


@pytest.mark.spec("HOOK-6", "SAF-5")
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_hook_that_blocks_is_abandoned_after_its_timeout_and_finishes_in_its_thread(anyio_backend: str) -> None:
    hooks = Blocking("+b")
    tools = hooks.tools("a", "b", hook_timeout=0.5)
    async with tools.open_session() as session:
        with anyio.fail_after(WAIT):
            with pytest.raises(HookFailed) as raised:
                await session.transition(activate=["a", "b"])
            assert isinstance(raised.value.__cause__, HookTimeout)
            assert hooks.lines == ["+a", "+b", "undo -a"]
            hooks.release.set()
            await anyio.to_thread.run_sync(hooks.finished.wait, WAIT)
            assert hooks.lines == ["+a", "+b", "undo -a"]
            assert await session.activate("a")


@pytest.mark.spec("HOOK-6", "HOOK-5")
@ways
@pytest.mark.parametrize(
    ("line", "ran"), [("+a", ["+a", "undo -a"]), ("+b", ["+a", "+b", "undo -b", "undo -a"])], ids=["first", "second"]
)
async def test_a_transition_cancelled_while_a_hook_blocks_is_undone_together_with_that_hook(
    line: str, ran: list[str], cancelled: Cancelled, anyio_backend: str
) -> None:
    hooks = Blocking(line)
    async with hooks.tools("a", "b").open_session() as session:
        with anyio.fail_after(WAIT):
            await cancelled(lambda: session.transition(activate=["a", "b"]), hooks.cancelling)
        assert hooks.lines == ran
        assert session.active == ()


@pytest.mark.spec("HOOK-8", "HOOK-6")
@ways
async def test_a_forced_deactivation_cancelled_while_a_hook_blocks_completes(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    hooks, received = Blocking("-a.x"), list[Any]()
    tools = hooks.tools("a", "a.x")
    async with tools.open_session(active=["a", "a.x"]) as session:
        hooks.lines.clear()
        tools.observe(received.append)
        with anyio.fail_after(WAIT):
            await cancelled(lambda: session.deactivate("a", force=True), hooks.cancelling)
        assert hooks.lines == ["-a.x", "-a"]
        assert session.active == ()
        assert [type(event) for event in received] == [Committed]


@pytest.mark.spec("HOOK-9", "HOOK-6")
@ways
async def test_a_session_whose_close_is_cancelled_while_a_hook_blocks_still_closes(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    hooks = Blocking("-a.x")
    session = await hooks.tools("a", "a.x").open_session(active=["a", "a.x"]).start()
    hooks.lines.clear()
    with anyio.fail_after(WAIT):
        await cancelled(session.close, hooks.cancelling)
    assert hooks.lines == ["-a.x", "-a"]
    assert not session.is_open
