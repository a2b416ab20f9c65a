"""Mutants of hooks (SPEC 5)."""
# ruff: noqa: D101, D102, D103 - the table below says what is wrong with each

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any

from .engine import OPPOSITE, Cancelled, Engine, Hook, Paths, Refused, Session, Work
from .mutant import Mutant, Right, refuse, schedules, then, vectors


def shuffled(right: Right[list[Hook]], self: Engine, paths: Iterable[str]) -> list[Hook]:
    hooks = right()
    Random(len(self.begun)).shuffle(hooks)
    return sorted(hooks, key=lambda hook: -hook[1].count("."))


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
    before = session.active
    session.active = [path for path in before if ("on_deactivate", path) not in hooks]
    session.active += [path for phase, path in hooks if phase == "on_activate"]
    try:
        return (yield from right())
    finally:
        session.active = before


class CommitsInBetween(Engine):
    def hook_order(self, deactivated: Paths, activated: Paths) -> list[Hook]:
        self.seen["deactivated"] = deactivated
        return super().hook_order(deactivated, activated)

    def run(self, session: Session, hook: Hook) -> Work[None]:
        before = session.active
        if hook[0] == "on_activate":
            session.active = [path for path in before if path not in self.seen["deactivated"]]
        try:
            yield from super().run(session, hook)
        finally:
            session.active = before


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

    def serialized(self, session: Session, work: Work[Any], within: bool = False) -> Work[Any]:
        return work if within else super().serialized(session, work)


def force_stops_at_failure(
    right: Right[Work[bool]], self: Engine, session: Session, hooks: list[Hook], force: bool
) -> Work[bool]:
    with suppress(Exception):
        for hook in hooks if force else ():
            yield from self.run(session, hook)
    return (yield from Engine.run_hooks(self, session, [] if force else hooks, force))


def end_stops_at_failure(right: Right[Work[list[str]]], self: Engine, session: Session) -> Work[list[str]]:
    for hook in self.teardown_hooks(session.active):
        try:
            yield from self.run(session, hook)
        except Exception:
            return [hook[1]]
    return []


def end_in_order(right: Right[Work[list[str]]], self: Engine, session: Session) -> Work[list[str]]:
    for hook in self.teardown_hooks(session.active)[::-1]:
        with suppress(Exception):
            yield from self.run(session, hook)
    return []


MUTANTS: tuple[Mutant, ...] = (
    vectors("runs no hooks for a transition that activates several groups", "HOOK-1")(
        Engine.hook_order, lambda right, self, deactivated, activated: [] if len(activated) > 1 else right()
    ),
    vectors("runs no hooks of displaced groups", "HOOK-1")(
        Engine.hook_order,
        lambda right, self, deactivated, activated: self.setup_hooks(activated) if activated else right(),
    ),
    vectors("runs the hook of a deactivated group but not of its descendants", "HOOK-1")(
        Engine.teardown_hooks,
        lambda right, self, paths: Engine.teardown_hooks(
            self, [path for path in paths if set(self.ancestors(path)).isdisjoint(paths)]
        ),
    ),
    schedules("commits before the hooks run, and reverts if one fails", "HOOK-2")(Engine.run_hooks, commits_first),
    schedules("commits deactivations before the activation hooks run", "HOOK-2").being(CommitsInBetween),
    vectors("runs activation hooks before deactivation hooks", "HOOK-3")(
        Engine.hook_order, lambda right, self, deactivated, activated: sorted(right(), key=lambda hook: hook[0])
    ),
    vectors("runs deactivation hooks of parents before those of children", "HOOK-3")(
        Engine.teardown_hooks, lambda right, self, paths: right()[::-1]
    ),
    vectors("runs activation hooks of children before those of parents", "HOOK-3")(
        Engine.setup_hooks, lambda right, self, paths: right()[::-1]
    ),
    vectors("runs deactivation hooks of siblings in canonical order", "HOOK-3")(
        Engine.teardown_hooks,
        lambda right, self, paths: sorted(right(), key=lambda hook: (-hook[1].count("."), hook[1])),
    ),
    vectors("runs deactivation hooks of siblings in any order", "HOOK-3")(Engine.teardown_hooks, shuffled),
    vectors("runs the hooks of an activated group's ancestors again", "HOOK-3")(
        Engine.setup_hooks,
        lambda right, self, paths: Engine.setup_hooks(
            self, {one for path in paths for one in (path, *self.ancestors(path))}
        ),
    ),
    vectors("runs the hooks of a group that is active already", "ACT-3")(Engine.activate, hooks_of_nothing),
    vectors("reports a failed hook but commits", "HOOK-4")(Engine.take, changed_although_failed),
    vectors("commits the deactivations when an activation hook fails", "HOOK-4")(Engine.undo, partly_changed),
    vectors("ignores failed hooks", "HOOK-4")(Engine.ignores_failure, lambda right, self, phase, force: True),
    vectors("runs the remaining hooks after one has failed", "HOOK-4")(Engine.run_hooks, goes_on_after_failure),
    vectors("names the requested group as the one whose hook failed", "HOOK-4")(Engine.activate, wrong_group_named),
    vectors("names the wrong phase of a failed hook", "HOOK-4")(Engine.run_hooks, wrong_phase_named),
    vectors("notifies of a transition that was rolled back", "NTF-1")(Engine.undo, notifies_of_rollback),
    vectors("compensates no hooks", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, [])
    ),
    vectors("compensates hooks in the order in which they ran", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, succeeded[::-1])
    ),
    vectors("compensates only the last hook", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, succeeded[-1:])
    ),
    vectors("compensates at most four hooks", "HOOK-5")(
        Engine.undo, lambda right, self, session, succeeded: Engine.undo(self, session, succeeded[-4:])
    ),
    vectors("compensates only activation hooks", "HOOK-5")(
        Engine.undo,
        lambda right, self, session, succeeded: Engine.undo(
            self, session, [hook for hook in succeeded if hook[0] == "on_activate"]
        ),
    ),
    vectors("compensates the failed hook too", "HOOK-5", also=["HOOK-4"])(Engine.run_hooks, undoes_the_failed),
    vectors("compensates a hook by running it again", "HOOK-5")(Engine.compensation, lambda right, self, hook: hook),
    vectors("ignores a group's own `on_rollback`", "HOOK-5")(
        Engine.compensation, lambda right, self, hook: (OPPOSITE[hook[0]], hook[1])
    ),
    vectors("reports a failed compensation instead of its cause", "HOOK-4")(
        Engine.compensation_failed, lambda right, self: refuse("HookFailed", group="", phase="on_rollback")
    ),
    schedules("commits a cancelled transition", "HOOK-6")(Engine.take, commits_cancelled),
    schedules("compensates nothing when a transition is cancelled", "HOOK-6")(
        Engine.roll_back,
        lambda right, self, session, succeeded, cancelled: Engine.roll_back(
            self, session, [] if cancelled else succeeded, cancelled
        ),
    ),
    schedules("does not shield compensation from cancellation", "HOOK-6", budget=1500)(
        Engine.roll_back, undoing_is_cancelled
    ),
    schedules("does not shield compensation from a second cancellation", "HOOK-6", budget=6000)(
        Engine.roll_back, lambda right, self, session, succeeded, cancelled: self.undo(session, succeeded)
    ),
    schedules("ignores cancellation", "HOOK-6")(Engine.run, swallows_cancellation),
    vectors("deadlocks on a hook that asks for a transition", "HOOK-7")(
        Engine.refuse_reentry, lambda right, self, within: None
    ),
    vectors("refuses a hook's request with another error", "HOOK-7")(
        Engine.refuse_reentry, lambda right, self, within: refuse("SessionClosed") if within else None
    ),
    vectors("allows transitions from within hooks", "HOOK-7").being(AllowsReentry),
    schedules("lets hooks of two sessions wait for one another", "HOOK-7")(
        Engine.refuse_crossing, lambda right, self, session, other: None
    ),
    vectors("forgives activation hooks that fail under force", "HOOK-8")(
        Engine.ignores_failure, lambda right, self, phase, force: force
    ),
    schedules("does not shield the rollback of a failure from cancellation", "HOOK-6", budget=6000)(
        Engine.roll_back,
        lambda right, self, session, succeeded, cancelled: (
            Engine.roll_back(self, session, succeeded, cancelled) if cancelled else self.undo(session, succeeded)
        ),
    ),
    vectors("ignores `force`", "HOOK-8")(Engine.ignores_failure, lambda right, self, phase, force: False),
    vectors("runs no hooks of a forced deactivation", "HOOK-8")(
        Engine.run_hooks,
        lambda right, self, session, hooks, force: Engine.run_hooks(self, session, [] if force else hooks, force),
    ),
    vectors("stops a forced deactivation's hooks at the first failure", "HOOK-8")(
        Engine.run_hooks, force_stops_at_failure
    ),
    vectors("ends a session without running its hooks", "HOOK-9")(
        Engine.tear_down, lambda right, self, session: then((), [])
    ),
    vectors("stops the hooks of an ending session at the first failure", "HOOK-9")(
        Engine.tear_down, end_stops_at_failure
    ),
    vectors("hides failed hooks of an ending session", "HOOK-9")(
        Engine.tear_down, lambda right, self, session: then(right(), [])
    ),
    vectors("runs the hooks of an ending session from the roots down", "HOOK-9")(Engine.tear_down, end_in_order),
)
