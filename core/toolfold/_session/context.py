"""What handlers and hooks are given of the session that they run in (SPEC CALL-5, HOOK-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from .._catalog.rules import View
from .._limits import escaped
from .._names import ToWire
from .._snapshot import Snapshot
from .._view.calling import Progress, no_progress
from .._view.visibility import RequestView

if TYPE_CHECKING:
    from .session import Session


@frozen(eq=False)
class Context:
    """What a handler is given beside its arguments (SPEC CALL-5).

    `session` is the session of the call, `name` the full name of the tool. `view` is what the call was checked against,
    with its one reading of the application state; the next request sees what the handler changes. What it does
    through this context belongs to the same request (SPEC MOD-3). `request` is what the adapter received the call as,
    or `None`; `to_wire` maps a tool's name to the caller's.

    A plain function that runs in a worker thread may use it from there. It calls what is async by
    `anyio.from_thread.run(context.activate, "a")`.
    """

    session: Session
    name: str
    request_view: RequestView
    request: Any = None
    _progress: Progress = no_progress

    @property
    def snapshot(self) -> Snapshot:
        """The snapshot that the call was checked against."""
        return self.request_view.snapshot

    @property
    def view(self) -> View:
        """What the call was checked against, with its one reading of the application state (SPEC MOD-3)."""
        return self.request_view.seen

    @property
    def to_wire(self) -> ToWire:
        """Maps a tool's name to the one that the caller knows (SPEC NAM-6)."""
        return self.request_view.to_wire

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts, as of now."""
        return self.session.facts

    def set_fact(self, name: str, value: Any) -> None:
        """Set a fact of the session (SPEC SES-5)."""
        self.session.set_fact(name, value, view=self.request_view)

    def is_group_active(self, path: str) -> bool:
        """Return whether the group is active now."""
        return self.session.is_active(path)

    async def activate(self, path: str) -> bool:
        """Activate a group of the session; see `Session.activate`."""
        return bool(await self.session.transition(activate=(path,), view=self.request_view))

    async def deactivate(self, path: str) -> bool:
        """Deactivate a group of the session; see `Session.deactivate`."""
        return bool(await self.session.transition(deactivate=(path,), view=self.request_view))

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report the progress of the call to its caller; does nothing if the caller did not ask for it."""
        await self._progress(progress, total, message if message is None else escaped(message))


@frozen(eq=False)
class HookContext:
    """What a hook is given, if it takes an argument: the session, the group, and the phase.

    A hook can read its session, and ask other sessions for changes, but not its own: `ReentrantTransition` (SPEC
    HOOK-7). One that is a plain function runs in a worker thread and calls what is async by `anyio.from_thread.run`.

    `fence` is the token of the lease under which the hook of a session in a store runs: greater than that of any lease
    that the session had before. A process that is paused within a hook for longer than its lease goes on too late, when
    another one has undone that hook. So an outside system that stores the greatest token it has seen for `session.id`,
    and refuses what comes with a smaller one, is never changed late (SPEC STO-2). It is `None` without a store, and in
    a `resume` hook, which changes nothing but its own process.
    """

    session: Session
    group: str
    phase: str
    undoes: str | None = None
    fence: int | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts."""
        return self.session.facts
