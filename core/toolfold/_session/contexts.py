"""What handlers and hooks are given of their session (SPEC CALL-5, HOOK-7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import Factory, field, frozen

from .._view.context import CallContext

if TYPE_CHECKING:
    from .session import Session


class Context(CallContext):
    """What a handler is given beside its arguments (SPEC CALL-5).

    `session` is the session of the call, `name` the full name of the tool. `view` is what the call was checked against,
    with its one reading of the application state; the next request sees what the handler changes. What it does
    through this context belongs to the same request (SPEC MOD-3). `request` is what the adapter received the call as,
    or `None`; `to_wire` maps a tool's name to the caller's.

    A plain function that runs in a worker thread may use it from there. It calls what is async by
    `anyio.from_thread.run(context.activate, "a")`.
    """

    __slots__ = ()
    session: Session


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
    fence: int | None = field(default=Factory(lambda context: context.session.fence, takes_self=True))

    @property
    def facts(self) -> Mapping[str, Any]:
        """The session's facts."""
        return self.session.facts
