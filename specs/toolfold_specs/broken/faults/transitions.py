"""Faults of transitions (SPEC 4)."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ...driver import Group
from ..fault import Broken
from ..rules import Refused, Session


class CreatesGroups(Broken):
    """Makes a group that does not exist when it is asked for."""

    clauses = ("ACT-1",)

    def check_known(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.groups.setdefault(path, Group(path))


class IgnoresUnknown(Broken):
    """Says that all is well where a group does not exist."""

    clauses = ("ACT-1",)

    def plan(self, session: Session, activate: Iterable[str], deactivate: Iterable[str]) -> list[str]:
        known = [[path for path in paths if path in self.groups] for paths in (activate, deactivate)]
        return super().plan(session, *known)


class UnknownIsLocked(Broken):
    """Takes a group that does not exist for one with an inactive parent."""

    clauses = ("ACT-1",)

    def check_known(self, paths: Iterable[str]) -> None:
        try:
            super().check_known(paths)
        except Refused:
            raise Refused("ParentInactive", missing="root") from None


class RootIsActive(Broken):
    """Takes the root for a group that is active."""

    clauses = ("INV-3",)
    layer = "vectors"

    def plan(self, session: Session, activate: Iterable[str], deactivate: Iterable[str]) -> list[str]:
        named = [[path for path in paths if path] for paths in (activate, deactivate)]
        return super().plan(session, *named)


class NearestAncestor(Broken):
    """Names the nearest inactive ancestor, not the topmost."""

    clauses = ("ACT-2",)

    def check_ancestors(self, now: set[str], path: str) -> None:
        for ancestor in reversed(self.ancestors(path)):
            if ancestor not in now:
                raise Refused("ParentInactive", missing=ancestor)


class OpensAncestors(Broken):
    """Activates the ancestors of a group with it."""

    clauses = ("ACT-2",)

    def activated(self, now: set[str], path: str) -> set[str]:
        for ancestor in self.ancestors(path):
            now = super().activated(now, ancestor)
        return super().activated(now, path)


class NeedsNoParent(Broken):
    """Activates a group within an inactive one."""

    clauses = ("ACT-2",)

    def check_ancestors(self, now: set[str], path: str) -> None:
        pass


class NeedsTheRootOnly(Broken):
    """Activates a group if the topmost of those that it is in is active."""

    clauses = ("ACT-2",)

    def check_ancestors(self, now: set[str], path: str) -> None:
        super().check_ancestors(now | set(self.ancestors(path)[1:]), path)


class LockedIsUnknown(Broken):
    """Says that a group with an inactive parent does not exist."""

    clauses = ("ACT-2",)

    def check_ancestors(self, now: set[str], path: str) -> None:
        if not set(self.ancestors(path)) <= now:
            raise Refused("GroupNotFound", group=path)


class LockedIsUnchanged(Broken):
    """Says that nothing changed where a parent is inactive, and not that it is refused."""

    clauses = ("ACT-2",)

    def activated(self, now: set[str], path: str) -> set[str]:
        return super().activated(now, path) if set(self.ancestors(path)) <= now else now


class SaysChangedAlways(Broken):
    """Says that something changed where nothing did."""

    clauses = ("ACT-3",)

    def unchanged(self, session: Session) -> bool:
        return True


class RefusesTheSame(Broken):
    """Refuses to activate what is active."""

    clauses = ("ACT-3",)

    def unchanged(self, session: Session) -> bool:
        raise Refused("DuplicateName")


class Toggles(Broken):
    """Deactivates an active group that is activated again."""

    clauses = ("ACT-3",)

    def activated(self, now: set[str], path: str) -> set[str]:
        return now - self.subtree(path) if path in now else super().activated(now, path)


class AlwaysDenies(Broken):
    """Refuses every activation, so that no invariant is ever broken."""

    clauses = ("ACT-4",)

    def activated(self, now: set[str], path: str) -> set[str]:
        raise Refused("QuotaExceeded")


class PretendsToActivate(Broken):
    """Says that a group is active, and leaves it as it is."""

    clauses = ("ACT-4",)

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        entered = set(after) - set(before)
        super().commit(session, before, before if entered else after)


class SaysUnchanged(Broken):
    """Says that an activation changed nothing."""

    clauses = ("ACT-4",)

    async def activate(self, session: Session, path: str) -> bool:
        await super().activate(session, path)
        return False


class RefusesDisplacement(Broken):
    """Refuses an activation that would displace a group."""

    clauses = ("ACT-4",)

    def activated(self, now: set[str], path: str) -> set[str]:
        after = super().activated(now, path)
        if not now <= after:
            raise Refused("ExclusionConflict")
        return after


class PretendsToDeactivate(Broken):
    """Says that a group was deactivated, and leaves it active."""

    clauses = ("ACT-5",)

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        if set(after) - set(before):
            super().commit(session, before, after)


class RefusesWithChildren(Broken):
    """Refuses to deactivate a group that contains an active one."""

    clauses = ("ACT-5",)

    def deactivated(self, now: set[str], path: str) -> set[str]:
        if path in now and self.subtree(path) & now != {path}:
            raise Refused("ExclusionConflict")
        return super().deactivated(now, path)


class SaysNotDeactivated(Broken):
    """Says that a deactivation changed nothing."""

    clauses = ("ACT-5",)

    async def deactivate(self, session: Session, path: str, force: bool = False) -> bool:
        await super().deactivate(session, path, force)
        return False


class DropsEverything(Broken):
    """Deactivates everything but its ancestors when a group is activated."""

    clauses = ("ACT-6",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        return now - set(self.ancestors(path))


class DropsSiblings(Broken):
    """Deactivates the siblings of a deactivated group too."""

    clauses = ("ACT-6",)

    def deactivated(self, now: set[str], path: str) -> set[str]:
        siblings = {other for other in now if other.rpartition(".")[0] == path.rpartition(".")[0]}
        return now - {below for other in siblings for below in self.subtree(other)} if path in now else now


class ClosesEmptyParents(Broken):
    """Deactivates a parent with the last group in it."""

    clauses = ("ACT-6",)

    def deactivated(self, now: set[str], path: str) -> set[str]:
        after = super().deactivated(now, path)
        parent = path.rpartition(".")[0]
        return after - {parent} if path in now and self.subtree(parent) & after == {parent} else after


class TransitiveExclusion(Broken):
    """Displaces the partners of a partner too."""

    clauses = ("ACT-7",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        further = {other for partner in self.partners(path) for other in self.partners(partner)}
        kept = {path, *self.ancestors(path)}
        return (
            super().displaced(now, path) | {below for other in further - kept for below in self.subtree(other)} - kept
        )


class InheritedExclusion(Broken):
    """Displaces the partners of the groups that an activated group is in, and of those that it contains."""

    clauses = ("ACT-7",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        family = [*self.ancestors(path), *self.subtree(path)]
        return {path for member in family for path in super(InheritedExclusion, self).displaced(now, member)} - set(
            self.ancestors(path)
        )


class DisplacesTheParent(Broken):
    """Displaces the parent of a displaced group too."""

    clauses = ("ACT-7",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        own = {path, *self.ancestors(path)}
        parents = {parent for partner in self.partners(path) & now if (parent := partner.rpartition(".")[0])} - own
        return super().displaced(now, path) | {below for parent in parents for below in self.subtree(parent)}


class BringsChildrenBack(Broken):
    """Activates with a group the groups in it that were active when it was last."""

    clauses = ("ACT-8",)

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        entered = set(after) - set(before)
        session.memory |= set(before) - set(after)
        back = {path for path in session.memory if entered & set(self.ancestors(path))}
        back = {path for path in back if set(self.ancestors(path)) <= back | set(after)}
        session.memory -= back
        super().commit(session, before, after + self.canonical(back - set(after)))


class Step(Broken):
    """What is wrong here shows in steps of several groups."""

    clauses = ("ACT-9",)
    layer: ClassVar[str] = "vectors"


class ActivatesFirst(Step):
    """Activates before it deactivates."""

    def plan(self, session: Session, activate: Iterable[str], deactivate: Iterable[str]) -> list[str]:
        between = super().plan(session, activate, ())
        after = set(between)
        self.check_known(deactivate)
        for path in deactivate:
            after = self.deactivated(after, path)
        return [path for path in between if path in after]


class GivenOrder(Step):
    """Activates in the order in which it is asked, so that a child before its parent is refused."""

    def activation_order(self, paths: Iterable[str]) -> list[str]:
        return list(paths)


class NotAtomic(Step):
    """Keeps what was done of a step until it was refused."""

    also = ("NTF-1",)

    async def transition(
        self, session: Session, activate: Iterable[str] = (), deactivate: Iterable[str] = (), force: bool = False
    ) -> bool:
        changed = [await super(NotAtomic, self).transition(session, (), [path], force) for path in deactivate]
        changed += [await super(NotAtomic, self).transition(session, [path]) for path in self.canonical(activate)]
        return any(changed)


class LastActivationWins(Step):
    """Lets a later activation of a step displace an earlier one."""

    def check_conflict(self, wanted: set[str], now: set[str]) -> None:
        pass


class OneActivationOnly(Step):
    """Takes the first activation of a step only."""

    def activation_order(self, paths: Iterable[str]) -> list[str]:
        return super().activation_order(paths)[:1]


class Limit(Broken):
    """What is wrong here shows where the number of active groups is limited."""

    clauses = ("ACT-10",)
    layer: ClassVar[str] = "vectors"


class NoLimit(Limit):
    """Knows no limit on active groups."""

    def within_limit(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        return after


class LimitPlusOne(Limit):
    """Lets one group more be active than the limit says."""

    def within_limit(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        return after if len(after) - 1 == self.setup.max_active else super().within_limit(after, before, wanted)


class LimitBeforeExclusion(Limit):
    """Counts the groups that the step displaces."""

    def within_limit(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        limit = self.setup.max_active
        if limit is not None and not self.setup.evict_oldest and len({*after, *before}) > limit and after != before:
            raise Refused("QuotaExceeded")
        return super().within_limit(after, before, wanted)


class NeverEvicts(Limit):
    """Refuses at the limit although the oldest is to be evicted."""

    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        return []


class EvictsNewest(Limit):
    """Evicts the group that was activated last."""

    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        return super().evictable(after, before, wanted)[::-1]


class EvictsByName(Limit):
    """Evicts the first group by name, not the oldest."""

    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        return self.canonical(super().evictable(after, before, wanted))


class EvictsPinned(Limit):
    """Evicts a pinned group."""

    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        kept = wanted | {ancestor for path in wanted for ancestor in self.ancestors(path)}
        return [path for path in after if path not in kept] if self.setup.evict_oldest else []


class EvictsAncestors(Limit):
    """Evicts what the activated group is in, and the group with it."""

    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        usual = super().evictable(after, before, wanted)
        return [path for path in after if path in before and path not in self.setup.pinned] if usual else usual


class EvictsOneOnly(Limit):
    """Leaves active what is in the evicted group."""

    def within_limit(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        right = super().within_limit(after, before, wanted)
        return right + [path for path in after if "." in path and path not in right]
