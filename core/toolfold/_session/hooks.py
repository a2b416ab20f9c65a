"""Running the hooks of one transition: each awaited, bounded in time and logged once, and undone ones shielded.

`HookRunner` is the only place where hooks are awaited (SPEC HOOK-3 to HOOK-6, SAF-3).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable
from typing import Any

import anyio
from anyio.lowlevel import checkpoint_if_cancelled
from attrs import evolve, frozen

from .._limits import quoted
from .._usercode import InThread, is_failure, uninterrupted
from ..errors import HookFailed, HookTimeout, LeaseLost, ToolError
from ..machine.transaction import ABORTED, ROLLING_BACK, HookCall, Transaction
from .journal import Journal
from .observers import log
from .runtime import Runtime

ContextOf = Callable[[str, str, str | None, int | None], Any]
"""Makes the context of a hook from its group, its phase, the phase that it undoes, and the fencing token."""


@frozen
class HookRunner:
    """Runs hooks of one session.

    Attributes:
        session: The name of the session.
        runtime: What the sessions of the tool set share.
        journal: Records the hooks to undo, where the session is in a store.
        context_of: Makes their contexts.
    """

    session: str
    runtime: Runtime
    journal: Journal | None
    context_of: ContextOf

    async def run(
        self, call: HookCall | None, transaction: Transaction, interrupted: BaseException | None, shielded: bool
    ) -> BaseException | None:
        """Run a hook and those that follow it; return the cancellation that arrived, to be raised at the end.

        From then on, and while hooks are undone, every hook finishes, however often the caller is cancelled.
        """
        while call is not None:
            if self.journal is not None:
                await self.journal.intend(transaction)
            attempt = partial(self._attempt, call)
            if shielded or interrupted is not None or transaction.state == ROLLING_BACK:
                ended, cancelled = await uninterrupted(attempt)
            elif isinstance(call.hook, InThread):  # it can't be stopped, so only its end shows whether it failed
                ended, cancelled = await uninterrupted(attempt)
                ended = evolve(ended, interruption=cancelled or await _cancellation())
            else:
                ended, cancelled = await attempt(), None
            interrupted = interrupted or ended.interruption or cancelled
            if ended.error is not None:
                transaction.failed(call, ended.error)
            elif ended.interruption is not None:
                transaction.cancelled(call, ended.interruption)
            else:
                transaction.succeeded(call)
            call = transaction.next()
        if self.journal is not None and transaction.state == ABORTED:
            await self.journal.settle()
        return interrupted

    async def resume(self, call: HookCall) -> None:
        """Run the hook that sets up in this process what a group needs; raises `HookFailed` (SPEC STO-4)."""
        ended = await self._attempt(call)
        if ended.error is not None:
            raise ended.interruption or HookFailed(call.group.path, call.phase, ended.error)

    async def _attempt(self, call: HookCall) -> _Ended:
        """Run a hook and return how it ended; this is the one place that logs failures of hooks (SPEC SAF-3).

        A `ToolError` is a refusal that was foreseen, so where it was raised is not logged.
        """
        try:
            with self.runtime.observers.hook(self.session, call.group.path, call.phase, call.undoes):
                await self._run_hook(call)
        except BaseException as error:
            if isinstance(error, ToolError):
                log.info("session %s: %s refused: %s", self.session, call, quoted(repr(str(error))))
                return _Ended(error)
            if is_failure(error):
                log.error("session %s: %s failed", self.session, call, exc_info=error)
                return _Ended(error)
            if isinstance(error, GeneratorExit):  # nothing can be awaited any more
                raise
            return _Ended(error, error)
        return _Ended()

    async def _run_hook(self, call: HookCall) -> None:
        stopped, timeout, fence = None, self.runtime.hook_timeout, None
        with anyio.move_on_after(timeout) as scope:
            if self.journal is not None:
                self.journal.hook_begins(scope)
                fence = self.journal.fence
            try:
                answer = call.hook(self.context_of(call.group.path, call.phase, call.undoes, fence))
                if isawaitable(answer):
                    await answer
            except anyio.get_cancelled_exc_class() as error:
                stopped = error
                raise
        if scope.cancelled_caught:
            if timeout is None or anyio.current_time() < scope.deadline:
                raise LeaseLost from stopped
            raise HookTimeout(timeout) from stopped  # which says where it was


@frozen
class _Ended:
    """How a hook ended: the error that it raised, and the cancellation that interrupted it."""

    error: BaseException | None = None
    interruption: BaseException | None = None


async def _cancellation() -> BaseException | None:
    """Return the cancellation that arrived while a hook was shielded from it, if there was one."""
    try:
        await checkpoint_if_cancelled()
    except anyio.get_cancelled_exc_class() as error:
        return error
    return None
