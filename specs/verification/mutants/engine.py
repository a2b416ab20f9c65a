"""The base of every mutant: a naive implementation of the specification, in which each decision is a method of its own.

It is not the oracle, although that would save half of it. What judges should have no seams for mutants; and mutants of
the judge would share its mistakes, so that the honest base would pass whatever the kit takes for right. Nor does it
share code with the core: core, oracle and engine were written apart, and a mistake must be made twice to go unseen.

Nothing depends on a loop or a clock: work that may
have to wait is a generator, which yields each time a function that tells whether it can go on. Whoever drives the
engine advances what can (`driver.Tasks`), and cancels by throwing `Cancelled` into what waits.
"""
# ruff: noqa: D102 - a method without a docstring does what the clause beside it says

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from toolfold_specs.driver import Phase, Setup

from .rules import Hook, Paths, Refused, Rules, Session

__all__ = ["OPPOSITE", "Cancelled", "Engine", "Hook", "Paths", "Refused", "Rules", "Session", "Work", "shielded"]

T = TypeVar("T")

Work: TypeAlias = Generator[Callable[[], bool], None, T]

OPPOSITE: Mapping[Phase, Phase] = {"on_activate": "on_deactivate", "on_deactivate": "on_activate"}


class Cancelled(BaseException):
    """The request was withdrawn while it waited."""


class HookError(Exception):
    """A hook fails because it was told to."""


class Blocked:
    """A hook that waits until it is released."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook
        self.released = False
        self.fails = False


class Engine(Rules):
    """The rules at work: sessions, their transitions and hooks."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.sessions: dict[str, Session] = {}
        self.scripts: dict[Hook, str] = {}
        self.blocked: list[Blocked] = []
        self.begun: defaultdict[str, list[Hook]] = defaultdict(list)
        """The hooks that began since this was last asked, by session."""
        self.seen: defaultdict[str, Paths] = defaultdict(set)
        """For mutants that remember what they should not."""

    # -- transitions (SPEC 4, 10, 11) ---------------------------------------------------------------------------------

    def session(self, name: str) -> Session:
        """SES-1: the open session of that name, a new one if there is none."""
        if name not in self.sessions:
            self.sessions[name] = Session(name)
        return self.sessions[name]

    def activate(self, session: Session, group: str, within: bool = False) -> Work[bool]:
        """Activate a group; the result is whether anything changed."""
        return self.transition(session, [group], [], within=within)

    def deactivate(self, session: Session, group: str, force: bool = False) -> Work[bool]:
        """Deactivate a group; the result is whether anything changed."""
        return self.transition(session, [], [group], force)

    def transition(
        self,
        session: Session,
        activate: Iterable[str],
        deactivate: Iterable[str],
        force: bool = False,
        within: bool = False,
    ) -> Work[bool]:
        """Make a transition, which a hook asks for if `within`; the result is whether anything changed."""
        self.refuse_reentry(within)
        return self.in_turn(session, self.decide(session, activate, deactivate, force), within)

    def refuse_reentry(self, within: bool) -> None:  # HOOK-7
        if within:
            raise Refused("ReentrantTransition")

    def in_turn(self, session: Session, work: Work[Any], within: bool = False) -> Work[Any]:
        """SES-2: one transition at a time, in order of arrival."""
        turn = object()
        session.queue.append(turn)
        try:
            yield lambda: session.queue[0] is turn
            return (yield from work)
        finally:
            session.queue.remove(turn)

    def decide(self, session: Session, activate: Iterable[str], deactivate: Iterable[str], force: bool) -> Work[bool]:
        """Plan a transition when its turn has come, and make it."""
        if session.closed:
            raise Refused("SessionClosed")
        return (yield from self.take(session, self.plan(session, activate, deactivate), force))

    def take(self, session: Session, after: list[str], force: bool) -> Work[bool]:
        """Make a planned transition."""
        before = list(session.active)
        if set(after) == set(before):
            return self.unchanged(session)
        hooks = self.hook_order(set(before) - set(after), set(after) - set(before))
        cancelled = yield from self.run_hooks(session, hooks, force)
        self.commit(session, before, after)
        if cancelled:
            raise Cancelled
        return True

    def unchanged(self, session: Session) -> bool:  # ACT-3
        return False

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:  # ACT-4, ACT-5, NTF-1
        listed = self.names(session)
        session.active = after
        session.notifications += self.notifications(session, listed, before, after)

    def notifications(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        """NTF-1: how many notifications a change is worth; `listed` is what was listed before it."""
        return int(self.names(session) != listed)

    def set_fact(self, session: Session, fact: str, value: bool) -> None:  # NTF-3, SES-5
        listed = self.names(session)
        session.facts[fact] = value
        session.notifications += self.notifications(session, listed, session.active, session.active)

    # -- registration while sessions are open (SPEC REG-3, REG-5, REG-7) ----------------------------------------------

    def register(self, setup: Setup) -> Work[None]:
        """Register and remove what makes the system be another one, or refuse to."""
        other = type(self)(setup)
        self.check_sessions(other)
        for session in self.sessions.values():
            yield from self.deactivate_removed(session, set(self.groups) - set(other.groups))
        self.adopt(other)

    def check_sessions(self, other: Engine) -> None:  # REG-3
        for session in self.sessions.values():
            if any(len(members & set(session.active)) > 1 for members in other.exclusions):
                raise Refused("ExclusionConflict", session=session.name)

    def deactivate_removed(self, session: Session, gone: Paths) -> Work[None]:  # REG-5
        for hook in self.hook_order(gone & set(session.active), set()):
            yield from self.run(session, hook)
        session.active = [path for path in session.active if path not in gone]

    def adopt(self, other: Engine) -> None:  # REG-7
        self.setup, self.groups, self.exclusions, self.tools = other.setup, other.groups, other.exclusions, other.tools

    # -- hooks (SPEC 5) -----------------------------------------------------------------------------------------------

    def hook_order(self, leaving: Paths, entering: Paths) -> list[Hook]:  # HOOK-1, HOOK-3
        first: list[Hook] = [("on_deactivate", path) for path in reversed(self.canonical(leaving))]
        then: list[Hook] = [("on_activate", path) for path in self.canonical(entering)]
        return [hook for hook in first + then if self.has(hook)]

    def has(self, hook: Hook) -> bool:
        """Whether the group has a hook for that phase."""
        return hook[0] in self.groups[hook[1]].hooks

    def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> Work[bool]:
        """Run the hooks of a transition (SPEC HOOK-4); the result is whether a forced one was cancelled meanwhile."""
        succeeded: list[Hook] = []
        cancelled = False
        for hook in hooks:
            try:
                work = self.run(session, hook)
                yield from shielded(work) if cancelled else work
            except (Exception, Cancelled) as error:
                cancelled = cancelled or isinstance(error, Cancelled)
                if self.passes_over(hook[0], force):
                    continue
                yield from self.give_up(session, succeeded, cancelled)
                if cancelled:
                    raise
                raise Refused("HookFailed", group=hook[1], phase=hook[0], cause=cause(error)) from error
            succeeded.append(hook)
        return cancelled

    def run(self, session: Session, hook: Hook) -> Work[None]:
        """Run one hook, which does as it was told."""
        self.begun[session.name].append(hook)
        yield lambda: True  # as a hook would that does something: here it can be cancelled
        match self.scripts.get(hook):
            case "fail":
                raise HookError
            case "ask":
                yield from self.activate(session, self.first_sibling(hook[1]), within=True)
            case "block":
                yield from self.block(hook)
            case _:
                pass

    def block(self, hook: Hook) -> Work[None]:
        """Wait until the hook is released."""
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

    def passes_over(self, phase: Phase, force: bool) -> bool:
        """HOOK-8: whether the transition goes on although a hook failed."""
        return force and phase == "on_deactivate"

    def give_up(self, session: Session, succeeded: list[Hook], cancelled: bool) -> Work[None]:  # HOOK-6
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
        """HOOK-5: go on, so that it never hides the cause."""

    def list_closed(self, session: Session) -> str | None:
        """SES-3: the error with which a session that has ended refuses to list."""
        return "SessionClosed" if session.closed else None

    # -- the end of a session (SPEC HOOK-9, SES-3) --------------------------------------------------------------------

    def end(self, session: Session) -> Work[None]:
        """End a session when its turn has come, whatever is cancelled or fails meanwhile."""
        failed = yield from shielded(self.in_turn(session, self.close(session)))
        if failed:
            raise Refused("HookFailed", group=failed[0], phase="on_deactivate")

    def close(self, session: Session) -> Work[list[str]]:
        """Tear a session down; the result is the groups whose hooks failed."""
        failed = yield from self.tear_down(session)
        self.forget(session)
        return failed

    def tear_down(self, session: Session) -> Work[list[str]]:  # HOOK-9
        failed: list[str] = []
        for hook in self.hook_order(set(session.active), set()):
            try:
                yield from self.run(session, hook)
            except Exception:
                failed.append(hook[1])
        return failed

    def forget(self, session: Session) -> None:  # SES-3
        session.active = []
        session.closed = True
        self.sessions.pop(session.name, None)


def cause(error: BaseException) -> str:
    """The name of what a hook failed with."""
    return error.error if isinstance(error, Refused) else type(error).__name__


def shielded(work: Work[T]) -> Work[T]:
    """Do the work out of the reach of cancellation."""
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
