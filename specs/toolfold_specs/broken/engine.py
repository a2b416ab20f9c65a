"""The rules at work: sessions, their turns, hooks and notices, in asyncio.

The engine runs hooks by a function that it is given, and knows nothing of what they do.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from ..driver import Phase, Setup
from .rules import Refused, Rules, Session

Hook = tuple[Phase, str]
RunHook = Callable[["Engine", Session, Phase, str], Awaitable[None]]

OPPOSITE: Mapping[Phase, Phase] = {"on_activate": "on_deactivate", "on_deactivate": "on_activate"}

_inside: ContextVar[tuple[Session, ...]] = ContextVar("inside", default=())
"""The sessions within whose hooks the current task is."""


class Engine(Rules):
    """The naive implementation. Every decision is a method, so that a variant replaces just one."""

    def __init__(self, setup: Setup, run_hook: RunHook) -> None:
        super().__init__(setup)
        self.run_hook = run_hook
        self.sessions: dict[str, Session] = {}

    def session(self, name: str) -> Session:
        """The open session of that name; a new one if there is none (SPEC SES-1)."""
        if name not in self.sessions:
            self.sessions[name] = Session(name)
        return self.sessions[name]

    # -- steps (SPEC 4, 5, 11) ----------------------------------------------------------------------------------------

    async def activate(self, session: Session, path: str) -> bool:
        """Activate a group; whether anything changed."""
        return await self.transition(session, [path])

    async def deactivate(self, session: Session, path: str, force: bool = False) -> bool:
        """Deactivate a group; whether anything changed."""
        return await self.transition(session, deactivate=[path], force=force)

    async def transition(
        self, session: Session, activate: Iterable[str] = (), deactivate: Iterable[str] = (), force: bool = False
    ) -> bool:
        """Take one step; whether anything changed."""
        async with self.turn(session):
            if session.ended:
                raise Refused("SessionClosed")
            return await self.take(session, self.plan(session, tuple(activate), tuple(deactivate)), force)

    async def take(self, session: Session, after: list[str], force: bool) -> bool:
        """Take a planned step; whether anything changed."""
        before = list(session.active)
        if set(after) == set(before):
            return self.unchanged(session)
        leaving, entering = set(before) - set(after), set(after) - set(before)
        await self.run_hooks(session, self.hook_order(leaving, entering), force)
        self.commit(session, before, after)
        await checkpoint_if_cancelled()  # a cancellation that a forced step has passed over goes on now
        return True

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        """One step at a time, in order of arrival (SPEC SES-2)."""
        self.refuse_reentry(session)
        async with session.lock:
            yield

    def refuse_reentry(self, session: Session) -> None:
        """Refuse what a hook asks of its own session (SPEC HOOK-7)."""
        if self.within_hook(session):
            raise Refused("ReentrantTransition")

    def within_hook(self, session: Session) -> bool:
        """Whether the caller is in a hook of the session's own step."""
        return session in _inside.get()

    def unchanged(self, session: Session) -> bool:
        """What a step that changes nothing does: nothing (SPEC ACT-3)."""
        return False

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        """Change the state, and tell the session if its list is another now (SPEC NTF-1)."""
        listed = self.names(session)
        session.active = after
        session.notices += self.notices(session, listed, before, after)

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        """How many notices a change is worth; `listed` is what was listed before (SPEC NTF-1)."""
        return int(self.names(session) != listed)

    def set_fact(self, session: Session, fact: str, value: bool) -> None:
        """Set a fact, and tell the session if its list is another now (SPEC NTF-3)."""
        listed = self.names(session)
        session.facts[fact] = value
        session.notices += self.notices(session, listed, session.active, session.active)

    # -- hooks (SPEC 5) -----------------------------------------------------------------------------------------------

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        """The hooks of a step (SPEC HOOK-3)."""
        first: list[Hook] = [("on_deactivate", path) for path in reversed(self.canonical(leaving))]
        then: list[Hook] = [("on_activate", path) for path in self.canonical(entering)]
        return [hook for hook in first + then if self.has(hook)]

    def has(self, hook: Hook) -> bool:
        """Whether the group has a hook for that."""
        phase, path = hook
        return phase in self.groups[path].hooks

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        """Run the hooks of a step, or undo them and fail (SPEC HOOK-4 to HOOK-6, HOOK-8)."""
        succeeded: list[Hook] = []
        cancelled = False
        for phase, path in hooks:
            try:
                with anyio.CancelScope(shield=cancelled):
                    await self.run(session, phase, path)
            except BaseException as error:
                cancelled = cancelled or not isinstance(error, Exception)
                if self.passes_over(phase, force):
                    continue
                await self.give_up(session, succeeded, cancelled)
                if cancelled:
                    raise
                raise Refused("HookFailed", group=path, phase=phase) from error
            succeeded.append((phase, path))

    async def run(self, session: Session, phase: Phase, path: str) -> None:
        """Run one hook."""
        token = _inside.set((*_inside.get(), session))
        try:
            await self.run_hook(self, session, phase, path)
        finally:
            _inside.reset(token)

    def passes_over(self, phase: Phase, force: bool) -> bool:
        """Whether the step goes on although a hook failed (SPEC HOOK-8)."""
        return force and phase == "on_deactivate"

    async def give_up(self, session: Session, succeeded: list[Hook], cancelled: bool) -> None:
        """Undo what had succeeded, out of the reach of cancellation (SPEC HOOK-6)."""
        with anyio.CancelScope(shield=True):
            await self.undo(session, succeeded)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        """Compensate hooks, in reverse order, whatever fails (SPEC HOOK-5)."""
        for hook in reversed(succeeded):
            compensation = self.compensation(hook)
            if self.has(compensation):
                try:
                    await self.run(session, *compensation)
                except Exception:
                    self.compensation_failed(session)

    def compensation(self, hook: Hook) -> Hook:
        """The hook that undoes another (SPEC HOOK-5)."""
        phase, path = hook
        return ("on_rollback" if self.has(("on_rollback", path)) else OPPOSITE[phase]), path

    def compensation_failed(self, session: Session) -> None:
        """Go on: it never hides the cause (SPEC HOOK-5)."""

    # -- the end of a session (SPEC HOOK-9, SES-3) --------------------------------------------------------------------

    async def end(self, session: Session) -> None:
        """End a session: every hook is attempted, then all failures are reported."""
        failed: list[str] = []
        with anyio.CancelScope(shield=True):
            async with self.turn(session):
                failed += await self.tear_down(session)
                self.forget(session)
        if failed:
            raise Refused("HookFailed", group=failed[0], phase="on_deactivate", groups=failed)

    async def tear_down(self, session: Session) -> list[str]:
        """Run `on_deactivate` of all active groups; return those where it failed."""
        failed: list[str] = []
        for phase, path in self.hook_order(set(session.active), set()):
            try:
                await self.run(session, phase, path)
            except Exception:
                failed.append(path)
        return failed

    def forget(self, session: Session) -> None:
        """Nothing is left of an ended session."""
        session.active = []
        session.ended = True
        self.sessions.pop(session.name, None)

    # -- calling control tools (SPEC 8) -------------------------------------------------------------------------------

    async def call_any(self, session: Session, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """Call a tool of the user or a control tool: text of the result, and whether it is an error."""
        control = self.control(name)
        if control is None:
            return self.call(session, name, arguments)
        verb, path = control
        try:
            changed = await (self.activate(session, path) if verb == "activate" else self.deactivate(session, path))
        except Refused as refused:
            return str(refused), True
        return f"{path}: {'changed' if changed else 'unchanged'}", False
