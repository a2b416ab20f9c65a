"""Mutants of hooks (SPEC 5)."""
# ruff: noqa: D101, D102, D103 - what is wrong with each stands in the table that it is for

from __future__ import annotations

from contextlib import suppress
from typing import Any

from .engine import OPPOSITE, Cancelled, Engine, Hook, Paths, Refused, Session, Work
from .mutant import Mutant, Right, refuse, schedules, then, vectors


def siblings_in_order(right: Right[list[Hook]], self: Engine, leaving: Paths, entering: Paths) -> list[Hook]:
    down = [hook for hook in right() if hook[0] == "on_deactivate"]
    return [
        *sorted(down, key=lambda hook: (-hook[1].count("."), hook[1])),
        *(hook for hook in right() if hook not in down),
    ]


def hooks_of_nothing(
    right: Right[Work[bool]], self: Engine, session: Session, group: str, within: bool = False
) -> Work[bool]:
    changed = yield from right()
    if not changed and self.has(("on_activate", group)):
        yield from self.run(session, ("on_activate", group))
    return changed


def commits_first(
    right: Right[Work[bool]], self: Engine, session: Session, hooks: list[Hook], force: bool
) -> Work[bool]:
    kept = session.active
    session.active = [path for path in kept if ("on_deactivate", path) not in hooks]
    session.active += [path for phase, path in hooks if phase == "on_activate"]
    try:
        return (yield from right())
    finally:
        session.active = kept


class CommitsInBetween(Engine):
    def hook_order(self, leaving: Paths, entering: Paths) -> list[Hook]:
        self.seen["leaving"] = leaving
        return super().hook_order(leaving, entering)

    def run(self, session: Session, hook: Hook) -> Work[None]:
        kept = session.active
        if hook[0] == "on_activate":
            session.active = [path for path in kept if path not in self.seen["leaving"]]
        try:
            yield from super().run(session, hook)
        finally:
            session.active = kept


def changed_although_failed(
    right: Right[Work[bool]], self: Engine, session: Session, after: list[str], force: bool
) -> Work[bool]:
    try:
        return (yield from right())
    except Refused:
        session.active = after
        raise


def commits_cancelled(
    right: Right[Work[bool]], self: Engine, session: Session, after: list[str], force: bool
) -> Work[bool]:
    try:
        return (yield from right())
    except Cancelled:
        session.active = after
        raise


def partly_changed(right: Right[Work[None]], self: Engine, session: Session, succeeded: list[Hook]) -> Work[None]:
    yield from right()
    session.active = [path for path in session.active if ("on_deactivate", path) not in succeeded]


def notifies_of_rollback(right: Right[Work[None]], self: Engine, session: Session, succeeded: list[Hook]) -> Work[None]:
    yield from right()
    session.notifications += 1


def goes_on_after_failure(
    right: Right[Work[bool]], self: Engine, session: Session, hooks: list[Hook], force: bool
) -> Work[bool]:
    try:
        return (yield from right())
    except Refused as refused:
        for hook in hooks[hooks.index((refused.detail["phase"], refused.detail["group"])) + 1 :]:
            yield from self.run(session, hook)
        raise


def undoes_the_failed(
    right: Right[Work[bool]], self: Engine, session: Session, hooks: list[Hook], force: bool
) -> Work[bool]:
    try:
        return (yield from right())
    except Refused as refused:
        yield from self.undo(session, [(refused.detail["phase"], refused.detail["group"])])
        raise


def wrong_phase_named(
    right: Right[Work[bool]], self: Engine, session: Session, hooks: list[Hook], force: bool
) -> Work[bool]:
    try:
        return (yield from right())
    except Refused as refused:
        refused.detail["phase"] = {**OPPOSITE}[refused.detail["phase"]]
        raise


def wrong_group_named(
    right: Right[Work[bool]], self: Engine, session: Session, group: str, within: bool = False
) -> Work[bool]:
    try:
        return (yield from right())
    except Refused as refused:
        refused.detail |= {"group": group} if refused.error == "HookFailed" else {}
        raise


def undoing_is_cancelled(
    right: Right[Work[None]], self: Engine, session: Session, succeeded: list[Hook], cancelled: bool
) -> Work[None]:
    for can_go_on in self.undo(session, succeeded):
        if cancelled:
            raise Cancelled
        yield can_go_on


def swallows_cancellation(right: Right[Work[None]], self: Engine, session: Session, hook: Hook) -> Work[None]:
    with suppress(Cancelled):
        yield from right()


class AllowsReentry(Engine):
    def refuse_reentry(self, within: bool) -> None:
        pass

    def in_turn(self, session: Session, work: Work[Any], within: bool = False) -> Work[Any]:
        return work if within else super().in_turn(session, work)


def force_stops_at_failure(
    right: Right[Work[bool]], self: Engine, session: Session, hooks: list[Hook], force: bool
) -> Work[bool]:
    with suppress(Exception):
        for hook in hooks if force else ():
            yield from self.run(session, hook)
    return (yield from Engine.run_hooks(self, session, [] if force else hooks, force))


def end_stops_at_failure(right: Right[Work[list[str]]], self: Engine, session: Session) -> Work[list[str]]:
    for hook in self.hook_order(set(session.active), set()):
        try:
            yield from self.run(session, hook)
        except Exception:
            return [hook[1]]
    return []


def end_in_order(right: Right[Work[list[str]]], self: Engine, session: Session) -> Work[list[str]]:
    for hook in reversed(self.hook_order(set(session.active), set())):
        with suppress(Exception):
            yield from self.run(session, hook)
    return []


MUTANTS: tuple[Mutant, ...] = (
    vectors("runs no hooks for a transition that activates several groups", "HOOK-1")(
        Engine.hook_order, lambda right, self, leaving, entering: [] if len(entering) > 1 else right()
    ),
    vectors("runs no hooks of the groups that an activation displaces", "HOOK-1")(
        Engine.hook_order,
        lambda right, self, leaving, entering: Engine.hook_order(self, set() if entering else leaving, entering),
    ),
    vectors("runs the hook of a deactivated group, and not those of its descendants", "HOOK-1")(
        Engine.hook_order,
        lambda right, self, leaving, entering: Engine.hook_order(
            self, {path for path in leaving if not set(self.ancestors(path)) & leaving}, entering
        ),
    ),
    schedules("changes the state before the hooks run, and back if one fails", "HOOK-2")(
        Engine.run_hooks, commits_first
    ),
    schedules("lets the leaving groups go as soon as their hooks have run", "HOOK-2").being(CommitsInBetween),
    vectors("sets up what enters before it tears down what leaves", "HOOK-3")(
        Engine.hook_order, lambda right, self, leaving, entering: sorted(right(), key=lambda hook: hook[0])
    ),
    vectors("tears down a group before the groups in it", "HOOK-3")(
        Engine.hook_order,
        lambda right, self, leaving, entering: (
            Engine.hook_order(self, leaving, set())[::-1] + Engine.hook_order(self, set(), entering)
        ),
    ),
    vectors("sets up a group after the groups in it", "HOOK-3")(
        Engine.hook_order,
        lambda right, self, leaving, entering: (
            Engine.hook_order(self, leaving, set()) + Engine.hook_order(self, set(), entering)[::-1]
        ),
    ),
    vectors("tears down siblings in canonical order, not in its reverse", "HOOK-3")(
        Engine.hook_order, siblings_in_order
    ),
    vectors("runs the hooks of an entering group's ancestors, which do not change", "HOOK-3")(
        Engine.hook_order,
        lambda right, self, leaving, entering: Engine.hook_order(
            self, leaving, entering | {above for path in entering for above in self.ancestors(path)}
        ),
    ),
    vectors("runs the hooks of an active group that is activated again", "ACT-3")(Engine.activate, hooks_of_nothing),
    vectors("reports a failed hook, and changes the state all the same", "HOOK-4")(
        Engine.take, changed_although_failed
    ),
    vectors("keeps what had been torn down when a hook that sets up fails", "HOOK-4")(Engine.undo, partly_changed),
    vectors("takes a failed hook for one that went well", "HOOK-4")(
        Engine.passes_over, lambda right, self, phase, force: True
    ),
    vectors("runs the remaining hooks although one failed, and fails then", "HOOK-4")(
        Engine.run_hooks, goes_on_after_failure
    ),
    vectors("names the group that was asked for as the one whose hook failed", "HOOK-4")(
        Engine.activate, wrong_group_named
    ),
    vectors("names the other phase of the group whose hook failed", "HOOK-4")(Engine.run_hooks, wrong_phase_named),
    vectors("notifies although a failed hook has left the list as it was", "NTF-1")(Engine.undo, notifies_of_rollback),
    vectors("leaves the hooks that had succeeded as they are when one fails", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, [])
    ),
    vectors("undoes hooks in the order in which they ran", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, succeeded[::-1])
    ),
    vectors("undoes the last hook that had succeeded, and no other", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, succeeded[-1:])
    ),
    vectors("undoes what was set up, and not what was torn down", "HOOK-5")(
        Engine.undo,
        lambda right, self, session, succeeded: Engine.undo(
            self, session, [hook for hook in succeeded if hook[0] == "on_activate"]
        ),
    ),
    vectors("undoes the hook that failed, too", "HOOK-5", also=["HOOK-4"])(Engine.run_hooks, undoes_the_failed),
    vectors("undoes a hook by running the same once more", "HOOK-5")(
        Engine.compensation, lambda right, self, hook: hook
    ),
    vectors("undoes by the opposite hook where a group has its own `on_rollback`", "HOOK-5")(
        Engine.compensation, lambda right, self, hook: (OPPOSITE[hook[0]], hook[1])
    ),
    vectors("stops undoing where that fails, and reports that alone", "HOOK-4")(
        Engine.compensation_failed, lambda right, self: refuse("HookFailed", group="", phase="on_rollback")
    ),
    schedules("changes the state of a transition that was cancelled", "HOOK-6")(Engine.take, commits_cancelled),
    schedules("undoes nothing where a transition is cancelled", "HOOK-6")(
        Engine.give_up,
        lambda right, self, session, succeeded, cancelled: Engine.give_up(
            self, session, [] if cancelled else succeeded, cancelled
        ),
    ),
    schedules("does not shield what undoes a cancelled transition", "HOOK-6", budget=1500)(
        Engine.give_up, undoing_is_cancelled
    ),
    schedules("goes on with a transition that was cancelled", "HOOK-6")(Engine.run, swallows_cancellation),
    vectors("lets a hook wait for its own transition: neither ever ends", "HOOK-7")(
        Engine.refuse_reentry, lambda right, self, within: None
    ),
    vectors("makes a transition within a hook of the same session's", "HOOK-7").being(AllowsReentry),
    vectors("fails a forced deactivation whose hook fails", "HOOK-8")(
        Engine.passes_over, lambda right, self, phase, force: False
    ),
    vectors("runs no hooks of a forced deactivation", "HOOK-8")(
        Engine.run_hooks,
        lambda right, self, session, hooks, force: Engine.run_hooks(self, session, [] if force else hooks, force),
    ),
    vectors("runs no more hooks of a forced deactivation once one has failed", "HOOK-8")(
        Engine.run_hooks, force_stops_at_failure
    ),
    vectors("ends a session without its hooks", "HOOK-9")(Engine.tear_down, lambda right, self, session: then((), [])),
    vectors("runs no more hooks at the end of a session once one has failed", "HOOK-9")(
        Engine.tear_down, end_stops_at_failure
    ),
    vectors("ends a session as if no hook had failed", "HOOK-9")(
        Engine.tear_down, lambda right, self, session: then(right(), [])
    ),
    vectors("tears a session down from its roots", "HOOK-9")(Engine.tear_down, end_in_order),
)
