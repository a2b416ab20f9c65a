"""What handlers and hooks are given of their session (SPEC CALL-5, HOOK-1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from .._view.context import CallContext

if TYPE_CHECKING:
    from .session import Session


class Context(CallContext):
    """What a handler is given beside its arguments (SPEC CALL-5).

    `session` is the session of the call, `name` the full name of the tool. `view` is what the call was checked against,
    with its one reading of the application state; what the handler changes is seen by the next request. What it does
    through this context belongs to the same request (SPEC MOD-3). `request` is whatever the adapter got the call from,
    or `None`; `spell` gives a tool's name as the caller knows it.

    A plain function that runs in a worker thread may use it from there. It calls what is async by
    `anyio.from_thread.run(context.activate, "a")`.
    """

    __slots__ = ()
    session: Session


@frozen(eq=False)
class HookContext:
    """What a hook is given, if it takes an argument: whose session, which group, and why it runs.

    A hook can read its session, and ask other sessions for changes, but not its own: `ReentrantTransition` (SPEC
    HOOK-7). One that is a plain function runs in a worker thread and calls what is async by `anyio.from_thread.run`.
    """

    session: Session
    group: str
    phase: str
    undoes: str | None = None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts."""
        return self.session.facts
