"""The base of every mutant: a naive implementation of the specification, with a method for each decision.

It is not derived from the oracle, although that would halve it: mutants of the oracle would share its mistakes, and the
correct base would pass whatever the kit considers right. Nor does it share code with the core. Core, oracle and engine
were written independently, so a mistake goes unnoticed only if it is made twice.

Nothing depends on an event loop or a clock. Work that may block is a generator that yields functions, each of which
says whether the work can continue. `driver.Tasks` advances what can, and cancels by throwing `Cancelled` into the rest.
"""
# ruff: noqa: D102 - a method without a docstring implements the clause beside it

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from attrs import field, frozen

from toolfold_specs.driver import Phase, Setup

from .rules import Hook, Paths, Refused, Rules, Session

__all__ = ["OPPOSITE", "Cancelled", "Engine", "Hook", "Paths", "Refused", "Request", "Session", "Work", "shielded"]

T = TypeVar("T")

Work: TypeAlias = Generator[Callable[[], bool], None, T]

OPPOSITE: Mapping[Phase, Phase] = {"on_activate": "on_deactivate", "on_deactivate": "on_activate"}


class Cancelled(BaseException):
    """The request was cancelled while it was blocked."""


class HookError(Exception):
    """A hook fails as scripted."""


@frozen
class Request:
    """A requested transition."""

    activate: Iterable[str] = ()
    deactivate: Iterable[str] = ()
    force: bool = False
    within: bool = field(default=False, kw_only=True)
    """Whether a hook of the same session makes the request."""


class Blocked:
    """A hook that is blocked until it is released."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.released = False
        self.fails = False


class Engine(Rules):
    """The rules in operation: sessions, their transitions and hooks."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.sessions: dict[str, Session] = {}
        self.scripts: dict[Hook, str] = {}
        self.blocked: list[Blocked] = []
        self.begun: defaultdict[str, list[Hook]] = defaultdict(list)
        """The hooks that began since the last answer, by session."""
        self.seen: defaultdict[str, Paths] = defaultdict(set)
        """State of mutants that remember what they should not."""

    # -- transitions (SPEC 4, 10, 11) ----------------------------------------------------------------------------------

    def session(self, name: str) -> Session:
        """SES-1: the open session of that name, or a new one."""
        if name not in self.sessions:
            self.sessions[name] = Session(name)
            self.sessions[name].active = self.canonical(self.setup.pinned)  # FND-4
        return self.sessions[name]

    def activate(self, session: Session, group: str, within: bool = False) -> Work[bool]:
        """Activate a group; the result is whether anything changed."""
        return self.transition(session, Request([group], within=within))

    def deactivate(self, session: Session, group: str, force: bool = False) -> Work[bool]:
        """Deactivate a group; the result is whether anything changed."""
        return self.transition(session, Request((), [group], force))

    def transition(self, session: Session, request: Request) -> Work[bool]:
        """Make a transition; the result is whether anything changed."""
        self.refuse_reentry(request.within)
        return self.serialized(session, self.decide(session, request), request.within)

    def refuse_reentry(self, within: bool) -> None:  # HOOK-7
        if within:
            raise Refused("ReentrantTransition")

    def serialized(self, session: Session, work: Work[Any], within: bool = False) -> Work[Any]:
        """SES-2: one transition at a time, in order of arrival."""
        place, queue = object(), session.queue
        queue.append(place)
        try:
            yield lambda: queue[0] is place
            return (yield from work)
        finally:
            queue.remove(place)

    def decide(self, session: Session, request: Request) -> Work[bool]:
        """Plan a transition and make it, once it is first in the queue."""
        if session.closed:
            raise Refused("SessionClosed")
        yield from self.recover(session)
        return (yield from self.take(session, self.plan(session, request.activate, request.deactivate), request.force))

    def take(self, session: Session, after: list[str], force: bool) -> Work[bool]:
        """Make a planned transition."""
        before = list(session.active)
        if set(after) == set(before):
            return self.unchanged(session)
        hooks = self.hook_order(set(before) - set(after), set(after) - set(before))
        cancelled = yield from self.run_hooks(session, hooks, force)
        session.intent = []
        self.commit(session, before, after)
        if cancelled:
            raise Cancelled
        return True

    # -- processes that stop (SPEC STO-2, STO-3) ----------------------------------------------------------------------

    def fail_over(self) -> None:
        """Stop what is under way, for another process to go on."""
        for session in self.sessions.values():
            session.fence += 1
            session.abandoned, session.intent, session.queue = session.intent, [], []

    def recover(self, session: Session) -> Work[None]:  # STO-3
        """Undo what a stopped process has begun."""
        abandoned, session.abandoned = session.abandoned, []
        if abandoned:
            yield from shielded(self.undo(session, abandoned))

    def check_lease(self, session: Session, fence: int) -> None:  # STO-2
        if session.fence != fence:
            raise Refused("LeaseLost")

    def unchanged(self, session: Session) -> bool:  # ACT-3
        return False

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:  # ACT-4, ACT-5, NTF-1
        listed = self.names(session)
        session.active = self.caught_up(session, after)
        session.notifications += self.notifications(session, listed, before, after)

    def caught_up(self, session: Session, after: list[str]) -> list[str]:
        """FND-3: what a transition leads to, in the order of use since it was planned."""
        known = session.active if self.setup.evict_idlest else []
        return [path for path in dict.fromkeys((*known, *after)) if path in after]

    def notifications(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        """NTF-1: the number of notifications for a change; `listed` is the list before it."""
        return int(self.names(session) != listed)

    def set_fact(self, session: Session, fact: str, value: bool) -> None:  # NTF-3, SES-5
        listed = self.names(session)
        session.facts[fact] = value
        session.notifications += self.notifications(session, listed, session.active, session.active)

    # -- registration while sessions are open (SPEC REG-3, REG-5, REG-7) ----------------------------------------------

    def register(self, setup: Setup) -> Work[None]:
        """Register and remove what makes the system be another one, or refuse to."""
        other = type(self)(setup)
        yield self.may_change
        self.check_sessions(other)
        for session in self.sessions.values():
            yield from self.deactivate_removed(session, set(self.groups) - set(other.groups))
        self.adopt(other)

    def may_change(self) -> bool:  # REG-3, REG-5
        """Whether no transition is under way that was planned for the present system."""
        return not any(session.queue for session in self.sessions.values())

    def check_sessions(self, other: Engine) -> None:  # REG-3
        for session in self.sessions.values():
            if any(len(members & set(session.active)) > 1 for members in other.exclusions):
                raise Refused("ExclusionConflict", session=session.name)

    def deactivate_removed(self, session: Session, gone: Paths) -> Work[None]:  # REG-5
        for hook in self.teardown_hooks(gone & set(session.active)):
            yield from self.run(session, hook)
        session.active = [path for path in session.active if path not in gone]

    def adopt(self, other: Engine) -> None:  # REG-7
        self.setup, self.groups, self.exclusions, self.tools = other.setup, other.groups, other.exclusions, other.tools
        for session in self.sessions.values():  # FND-4
            session.active = list(dict.fromkeys((*self.canonical(self.setup.pinned), *session.active)))

    # -- hooks (SPEC 5) -----------------------------------------------------------------------------------------------

    def hook_order(self, deactivated: Paths, activated: Paths) -> list[Hook]:  # HOOK-1, HOOK-3
        return self.teardown_hooks(deactivated) + self.setup_hooks(activated)

    def teardown_hooks(self, paths: Iterable[str]) -> list[Hook]:  # HOOK-3
        hooks: list[Hook] = [("on_deactivate", path) for path in self.canonical(paths)[::-1]]
        return [hook for hook in hooks if self.has(hook)]

    def setup_hooks(self, paths: Iterable[str]) -> list[Hook]:  # HOOK-3
        hooks: list[Hook] = [("on_activate", path) for path in self.canonical(paths)]
        return [hook for hook in hooks if self.has(hook)]

    def has(self, hook: Hook) -> bool:
        """Whether the group has a hook for that phase."""
        return hook[0] in self.groups[hook[1]].hooks

    def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> Work[bool]:
        """Run the hooks of a transition (SPEC HOOK-4); the result is whether a forced one was cancelled."""
        succeeded: list[Hook] = []
        cancelled, fence = False, session.fence
        for hook in hooks:
            session.intent = [*succeeded, hook]
            try:
                work = self.run(session, hook)
                yield from shielded(work) if cancelled else work
            except (Exception, Cancelled) as error:
                cancelled = cancelled or isinstance(error, Cancelled)
                if self.ignores_failure(hook[0], force):
                    continue
                yield from self.roll_back(session, succeeded, cancelled)
                if cancelled:
                    raise
                raise Refused("HookFailed", group=hook[1], phase=hook[0], cause=cause(error)) from error
            self.check_lease(session, fence)
            succeeded.append(hook)
        return cancelled

    def run(self, session: Session, hook: Hook) -> Work[None]:
        """Run one hook as scripted."""
        self.begun[session.name].append(hook)
        yield lambda: True  # a point at which it can be cancelled
        match self.scripts.get(hook):
            case "fail":
                raise HookError
            case str(outcome) if outcome.startswith("ask"):
                name = outcome.removeprefix("ask").strip()
                yield from self.ask(session, self.session(name) if name else session, self.first_sibling(hook[1]))
            case "block":
                yield from self.block(hook)
            case _:
                pass

    def ask(self, session: Session, other: Session, path: str) -> Work[None]:
        """Activate a group from within a hook of a session, in that or another one."""
        self.refuse_crossing(session, other)
        session.asks = other
        try:
            yield from self.activate(other, path, within=other is session)
        finally:
            session.asks = None

    def refuse_crossing(self, session: Session, other: Session) -> None:  # HOOK-7
        """Refuse to wait for a session whose hook waits for this one."""
        if other is not session and other.asks is session:
            raise Refused("ReentrantTransition")

    def block(self, hook: Hook) -> Work[None]:
        """Block until the hook is released."""
        blocked = Blocked(hook)
        self.blocked.append(blocked)
        try:
            yield lambda: blocked.released
        finally:
            self.blocked.remove(blocked)
        if blocked.fails:
            raise HookError

    def first_sibling(self, path: str) -> str:
        """The first other group with the same parent; the group itself if there is none."""
        siblings = [other for other in self.groups if other.rpartition(".")[0] == path.rpartition(".")[0]]
        return next((other for other in self.canonical(siblings) if other != path), path)

    def ignores_failure(self, phase: Phase, force: bool) -> bool:
        """HOOK-8: whether the transition continues after a hook has failed."""
        return force and phase == "on_deactivate"

    def roll_back(self, session: Session, succeeded: list[Hook], cancelled: bool) -> Work[None]:  # HOOK-6
        session.intent = []
        yield from shielded(self.undo(session, succeeded))

    def undo(self, session: Session, succeeded: list[Hook]) -> Work[None]:  # HOOK-5
        for hook in reversed(succeeded):
            compensation = self.compensation(hook)
            if self.has(compensation):
                try:
                    yield from self.run(session, compensation)
                except Exception:
                    self.compensation_failed()

    def compensation(self, hook: Hook) -> Hook:
        """HOOK-5: the hook that undoes another."""
        phase, path = hook
        return ("on_rollback" if self.has(("on_rollback", path)) else OPPOSITE[phase]), path

    def compensation_failed(self) -> None:
        """HOOK-5: continue, so that the cause is never hidden."""

    def list_closed(self, session: Session) -> str | None:
        """SES-3: the error with which an ended session refuses to list."""
        return "SessionClosed" if session.closed else None

    # -- the end of a session (SPEC HOOK-9, SES-3) --------------------------------------------------------------------

    def end(self, session: Session) -> Work[None]:
        """End a session once it is first in the queue, whatever is cancelled or fails."""
        failed = yield from shielded(self.serialized(session, self.close(session)))
        if failed:
            raise Refused("HookFailed", group=failed[0], phase="on_deactivate")

    def close(self, session: Session) -> Work[list[str]]:
        """Tear a session down; the result is the groups whose hooks failed."""
        failed = yield from self.tear_down(session)
        self.forget(session)
        return failed

    def tear_down(self, session: Session) -> Work[list[str]]:  # HOOK-9
        failed: list[str] = []
        for hook in self.teardown_hooks(session.active):
            try:
                yield from self.run(session, hook)
            except Exception:
                failed.append(hook[1])
        return failed

    def forget(self, session: Session) -> None:  # SES-3
        session.active = self.canonical(self.setup.pinned)  # as a new one of its name begins: FND-4
        session.closed = True
        self.sessions.pop(session.name, None)


def cause(error: BaseException) -> str:
    """The name of the error that a hook raised."""
    return error.error if isinstance(error, Refused) else type(error).__name__


def shielded(work: Work[T]) -> Work[T]:
    """Do the work, shielded from cancellation."""
    while True:
        try:
            can_go_on = next(work)
        except StopIteration as ended:
            result: T = ended.value
            return result
        while not can_go_on():
            try:
                yield can_go_on
            except Cancelled:
                continue
