"""What a handler is given beside its arguments (SPEC CALL-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from attrs import frozen

from .._catalog.rules import View
from .._limits import escaped
from .._names import ToWire
from .._snapshot import Change, Snapshot
from .visibility import RequestView

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


async def no_progress(progress: float, total: float | None, message: str | None) -> None:
    """Discard the report."""


class CallSession(Protocol):
    """What a context needs of the session of a call."""

    @property
    def snapshot(self) -> Snapshot:
        """The present state."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """The facts, read-only."""
        ...

    def is_active(self, path: str) -> bool:
        """Return whether the group is active, or raise `GroupNotFound`."""
        ...

    def set_fact(self, name: str, value: Any, *, view: RequestView | None = None) -> None:
        """Set a fact."""
        ...

    async def transition(
        self,
        activate: Iterable[str] = (),
        deactivate: Iterable[str] = (),
        *,
        force: bool = False,
        view: RequestView | None = None,
    ) -> Change:
        """Deactivate and activate groups as one atomic transition; return what changed."""
        ...


@frozen(eq=False)
class CallContext:
    """A call as the library's own tools see it; see `Context`."""

    session: CallSession
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
