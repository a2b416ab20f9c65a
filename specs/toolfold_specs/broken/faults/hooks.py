"""Faults of hooks and transactions (SPEC 5)."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import ClassVar

import anyio

from ...driver import Phase
from ..engine import OPPOSITE, Engine, Hook
from ..fault import Broken
from ..rules import Refused, Session


class Hooks(Broken):
    """What is wrong here shows in systems with hooks."""

    layer: ClassVar[str] = "vectors"


class NoHooksInSteps(Hooks):
    """Runs no hooks for a step of several groups."""

    clauses = ("HOOK-1",)

    async def activate(self, session: Session, path: str) -> bool:
        return await Engine.transition(self, session, [path])

    async def deactivate(self, session: Session, path: str, force: bool = False) -> bool:
        return await Engine.transition(self, session, deactivate=[path], force=force)

    async def transition(
        self, session: Session, activate: Iterable[str] = (), deactivate: Iterable[str] = (), force: bool = False
    ) -> bool:
        self.run_hook, kept = _nothing, self.run_hook
        try:
            return await super().transition(session, activate, deactivate, force)
        finally:
            self.run_hook = kept


async def _nothing(engine: Engine, session: Session, phase: Phase, group: str) -> None:
    """Stands in for hooks that are not run."""


class DisplacedUnasked(Hooks):
    """Runs no hooks of the groups that an activation displaces."""

    clauses = ("HOOK-1",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order(set() if entering else leaving, entering)


class ChildrenUnasked(Hooks):
    """Runs the hook of a deactivated group, and not those of the groups in it."""

    clauses = ("HOOK-1",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order({path for path in leaving if not set(self.ancestors(path)) & leaving}, entering)


class CommitsFirst(Hooks):
    """Changes the state before the hooks run, and back if one fails."""

    clauses = ("HOOK-2",)
    layer = "schedules"

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        kept = list(session.active)
        left = {path for phase, path in hooks if phase == "on_deactivate"}
        entered = {path for phase, path in hooks if phase == "on_activate"}
        session.active = self.in_order(kept, set(kept) - left | entered)
        try:
            await super().run_hooks(session, hooks, force)
        finally:
            session.active = kept


class CommitsInBetween(Hooks):
    """Lets the leaving groups go as soon as their hooks have run."""

    clauses = ("HOOK-2",)
    layer = "schedules"

    async def run(self, session: Session, phase: Phase, path: str) -> None:
        kept = list(session.active)
        if phase == "on_activate":
            session.active = [other for other in kept if other not in self.leaving]
        try:
            await super().run(session, phase, path)
        finally:
            session.active = kept

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        self.leaving = leaving
        return super().hook_order(leaving, entering)


class SetsUpFirst(Hooks):
    """Sets up what enters before it tears down what leaves."""

    clauses = ("HOOK-3",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order(set(), entering) + super().hook_order(leaving, set())


class ParentsLeaveFirst(Hooks):
    """Tears down a group before the groups in it."""

    clauses = ("HOOK-3",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order(leaving, set())[::-1] + super().hook_order(set(), entering)


class ChildrenEnterFirst(Hooks):
    """Sets up a group after the groups in it."""

    clauses = ("HOOK-3",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order(leaving, set()) + super().hook_order(set(), entering)[::-1]


class SiblingsInOrder(Hooks):
    """Tears down descendants first, but siblings in canonical order, not in its reverse."""

    clauses = ("HOOK-3",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        down = sorted(super().hook_order(leaving, set()), key=lambda hook: (-hook[1].count("."), hook[1]))
        return down + super().hook_order(set(), entering)


class ParentsAgain(Hooks):
    """Runs the hooks of the groups that an entering one is in, though they do not change."""

    clauses = ("HOOK-3",)

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order(leaving, {above for path in entering for above in [path, *self.ancestors(path)]})


class HooksOfNothing(Hooks):
    """Runs the hooks of an active group that is activated again."""

    clauses = ("ACT-3",)

    async def activate(self, session: Session, path: str) -> bool:
        changed = await super().activate(session, path)
        if not changed and self.has(("on_activate", path)):
            await self.run(session, "on_activate", path)
        return changed


class ChangedAlthoughFailed(Hooks):
    """Reports a failed hook, and changes the state all the same."""

    clauses = ("HOOK-4",)

    async def transition(
        self, session: Session, activate: Iterable[str] = (), deactivate: Iterable[str] = (), force: bool = False
    ) -> bool:
        try:
            return await super().transition(session, activate, deactivate, force)
        except Refused as refused:
            if refused.error == "HookFailed":
                session.active = self.plan(session, activate, deactivate)
            raise


class PartlyChanged(Hooks):
    """Keeps what had been torn down when a hook that sets up fails."""

    clauses = ("HOOK-4",)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        gone = {path for phase, path in succeeded if phase == "on_deactivate"}
        await super().undo(session, succeeded)
        session.active = [path for path in session.active if path not in gone]


class SwallowsFailures(Hooks):
    """Takes a failed hook for one that went well."""

    clauses = ("HOOK-4",)

    def passes_over(self, phase: Phase, force: bool) -> bool:
        return True


class GoesOnAfterFailure(Hooks):
    """Runs the remaining hooks although one failed, and fails then."""

    clauses = ("HOOK-4",)

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        try:
            await super().run_hooks(session, hooks, force)
        except Refused as refused:
            failed = (refused.detail["phase"], refused.detail["group"])
            for hook in hooks[hooks.index(failed) + 1 :]:
                await self.run(session, *hook)
            raise


class WrongGroupNamed(Hooks):
    """Names the group that was asked for as the one whose hook failed."""

    clauses = ("HOOK-4",)

    async def activate(self, session: Session, path: str) -> bool:
        try:
            return await super().activate(session, path)
        except Refused as refused:
            if "group" in refused.detail:
                refused.detail["group"] = path
            raise


class WrongPhaseNamed(Hooks):
    """Names the other phase of the group whose hook failed."""

    clauses = ("HOOK-4",)

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        try:
            await super().run_hooks(session, hooks, force)
        except Refused as refused:
            phase: Phase = refused.detail["phase"]
            refused.detail["phase"] = OPPOSITE[phase]
            raise


class NotifiesOfRollback(Hooks):
    """Tells of a changed list although a failed hook has left it as it was."""

    clauses = ("NTF-1",)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        await super().undo(session, succeeded)
        session.notices += 1


class UndoesNothing(Hooks):
    """Leaves the hooks that had succeeded as they are when one fails."""

    clauses = ("HOOK-5",)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        pass


class UndoesInOrder(Hooks):
    """Undoes hooks in the order in which they ran."""

    clauses = ("HOOK-5",)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        await super().undo(session, succeeded[::-1])


class UndoesTheLastOnly(Hooks):
    """Undoes the last hook that had succeeded, and no other."""

    clauses = ("HOOK-5",)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        await super().undo(session, succeeded[-1:])


class UndoesSetUpsOnly(Hooks):
    """Undoes what was set up, and not what was torn down."""

    clauses = ("HOOK-5",)

    async def undo(self, session: Session, succeeded: list[Hook]) -> None:
        await super().undo(session, [hook for hook in succeeded if hook[0] == "on_activate"])


class UndoesTheFailed(Hooks):
    """Undoes the hook that failed, too."""

    clauses = ("HOOK-5",)
    also = ("HOOK-4",)

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        try:
            await super().run_hooks(session, hooks, force)
        except Refused as refused:
            await self.undo(session, [(refused.detail["phase"], refused.detail["group"])])
            raise


class RepeatsToUndo(Hooks):
    """Undoes a hook by running the same once more."""

    clauses = ("HOOK-5",)

    def compensation(self, hook: Hook) -> Hook:
        return hook


class NoOwnRollback(Hooks):
    """Undoes by the opposite hook where a group has its own `on_rollback`."""

    clauses = ("HOOK-5",)

    def compensation(self, hook: Hook) -> Hook:
        phase, path = hook
        return OPPOSITE[phase], path


class UndoingHidesTheCause(Hooks):
    """Stops undoing where that fails, and reports that alone."""

    clauses = ("HOOK-4",)

    def compensation_failed(self, session: Session) -> None:
        raise Refused("HookFailed", group="", phase="on_rollback")


class CommitsCancelled(Hooks):
    """Changes the state of a step that was cancelled."""

    clauses = ("HOOK-6",)
    layer = "schedules"

    async def transition(
        self, session: Session, activate: Iterable[str] = (), deactivate: Iterable[str] = (), force: bool = False
    ) -> bool:
        try:
            return await super().transition(session, activate, deactivate, force)
        except anyio.get_cancelled_exc_class():
            session.active = self.plan(session, activate, deactivate)
            raise


class CancelledIsNotUndone(Hooks):
    """Undoes nothing where a step is cancelled."""

    clauses = ("HOOK-6",)
    layer = "schedules"

    async def give_up(self, session: Session, succeeded: list[Hook], cancelled: bool) -> None:
        if not cancelled:
            await super().give_up(session, succeeded, cancelled)


class UndoingIsCancelled(Hooks):
    """Does not shield what undoes a cancelled step, so that it stops where it waits."""

    clauses = ("HOOK-6",)
    layer = "schedules"
    budget = 5000

    async def give_up(self, session: Session, succeeded: list[Hook], cancelled: bool) -> None:
        await self.undo(session, succeeded)


class SwallowsCancellation(Hooks):
    """Goes on with a step that was cancelled as if nothing had happened."""

    clauses = ("HOOK-6",)
    layer = "schedules"

    async def run(self, session: Session, phase: Phase, path: str) -> None:
        with suppress(anyio.get_cancelled_exc_class()):
            await super().run(session, phase, path)


class WaitsForItself(Hooks):
    """Lets a hook wait for the turn that its own step holds: neither ever ends."""

    clauses = ("HOOK-7",)

    def refuse_reentry(self, session: Session) -> None:
        pass


class AllowsReentry(Hooks):
    """Takes a step within a hook of the same session's step."""

    clauses = ("HOOK-7",)

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        if self.within_hook(session):
            yield
        else:
            async with super().turn(session):
                yield


class ForceIsIgnored(Hooks):
    """Fails a forced deactivation whose hook fails."""

    clauses = ("HOOK-8",)

    def passes_over(self, phase: Phase, force: bool) -> bool:
        return False


class ForceSkipsHooks(Hooks):
    """Runs no hooks of a forced deactivation."""

    clauses = ("HOOK-8",)

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        await super().run_hooks(session, [] if force else hooks, force)


class ForceStopsAtFailure(Hooks):
    """Runs no more hooks of a forced deactivation once one has failed."""

    clauses = ("HOOK-8",)

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        with suppress(Exception):
            for hook in hooks if force else ():
                await self.run(session, *hook)
        await super().run_hooks(session, [] if force else hooks, force)


class EndsWithoutHooks(Hooks):
    """Ends a session without its hooks."""

    clauses = ("HOOK-9",)

    async def tear_down(self, session: Session) -> list[str]:
        return []


class EndStopsAtFailure(Hooks):
    """Runs no more hooks at the end of a session once one has failed."""

    clauses = ("HOOK-9",)

    async def tear_down(self, session: Session) -> list[str]:
        for phase, path in self.hook_order(set(session.active), set()):
            try:
                await self.run(session, phase, path)
            except Exception:
                return [path]
        return []


class EndHidesFailures(Hooks):
    """Ends a session as if no hook had failed."""

    clauses = ("HOOK-9",)

    async def tear_down(self, session: Session) -> list[str]:
        await super().tear_down(session)
        return []


class EndInOrder(Hooks):
    """Tears a session down from its roots."""

    clauses = ("HOOK-9",)

    async def tear_down(self, session: Session) -> list[str]:
        self.ending = True
        failed = await super().tear_down(session)
        self.ending = False
        return failed

    ending = False

    def hook_order(self, leaving: set[str], entering: set[str]) -> list[Hook]:
        return super().hook_order(leaving, entering)[:: -1 if self.ending else 1]
