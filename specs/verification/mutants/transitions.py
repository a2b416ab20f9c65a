"""Mutants of transitions (SPEC 4)."""
# ruff: noqa: D101, D102, D103 - the tables below say what is wrong with each

from __future__ import annotations

from collections.abc import Iterable

from attrs import evolve

from toolfold_specs.driver import Group

from .engine import Engine, Paths, Refused, Request, Session, Work
from .mutant import Mutant, Right, exhaustive, refuse, schedules, then, vectors

# -- transitions of one group -----------------------------------------------------------------------------------------


def creates_groups(right: Right[None], self: Engine, paths: Iterable[str]) -> None:
    for path in paths:
        self.groups.setdefault(path, Group(path))


def activates_ancestors(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    for ancestor in [*self.ancestors(path), path]:
        now = Engine.activated(self, now, ancestor)
    return now


def deactivates_siblings(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    siblings = {other for other in now if other.rpartition(".")[0] == path.rpartition(".")[0]}
    return now - {below for other in siblings for below in self.subtree(other)} if path in now else now


def deactivates_empty_parents(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    parent = path.rpartition(".")[0]
    return right() - {parent} if path in now and self.subtree(parent) & right() == {parent} else right()


def displaces_partners_of_partners(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    own = {path, *self.ancestors(path)}
    further = {other for partner in self.partners(path) for other in self.partners(partner)} - own
    return right() | {below for other in further for below in self.subtree(other)} - own


def displaces_partners_of_relatives(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    family = [*self.ancestors(path), *self.subtree(path)]
    return {gone for one in family for gone in Engine.displaced(self, now, one)} - set(self.ancestors(path))


def displaces_parents(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    parents = {partner.rpartition(".")[0] for partner in self.partners(path) & now} - {"", path, *self.ancestors(path)}
    return right() | {below for parent in parents for below in self.subtree(parent)}


def reactivates(right: Right[None], self: Engine, session: Session, before: list[str], after: list[str]) -> None:
    seen = self.seen[session.name]
    seen |= set(before) - set(after)
    back = {path for path in seen if (set(after) - set(before)) & set(self.ancestors(path))}
    back = {path for path in back if set(self.ancestors(path)) <= back | set(after)}
    seen -= back
    Engine.commit(self, session, before, after + self.canonical(back - set(after)))


ONE_GROUP = (
    exhaustive("creates unknown groups", "ACT-1")(Engine.check_known, creates_groups),
    exhaustive("reports unknown groups as locked", "ACT-1")(
        Engine.unknown, lambda right, self, path: Refused("ParentInactive", missing="root")
    ),
    exhaustive("silently ignores unknown groups", "ACT-1")(
        Engine.plan,
        lambda right, self, session, activate, deactivate: Engine.plan(
            self, session, set(activate) & set(self.groups), set(deactivate) & set(self.groups)
        ),
    ),
    vectors("treats the root as an active group", "INV-3")(
        Engine.plan,
        lambda right, self, session, activate, deactivate: Engine.plan(
            self, session, [*filter(None, activate)], [*filter(None, deactivate)]
        ),
    ),
    exhaustive("names the nearest inactive ancestor", "ACT-2", budget=700)(
        Engine.locked, lambda right, self, path, inactive: Refused("ParentInactive", missing=inactive[-1])
    ),
    vectors("names one of the five nearest inactive ancestors", "ACT-2")(
        Engine.locked, lambda right, self, path, inactive: Refused("ParentInactive", missing=inactive[-5:][0])
    ),
    exhaustive("reports locked groups as unknown", "ACT-2")(
        Engine.locked, lambda right, self, path, inactive: Refused("GroupNotFound", group=path)
    ),
    exhaustive("requires no active parent", "ACT-2")(Engine.check_ancestors, lambda right, self, now, path: None),
    exhaustive("requires only the topmost ancestor to be active", "ACT-2", budget=700)(
        Engine.check_ancestors,
        lambda right, self, now, path: Engine.check_ancestors(self, now | set(self.ancestors(path)[1:]), path),
    ),
    exhaustive("activates ancestors with a group", "ACT-2")(Engine.activated, activates_ancestors),
    exhaustive("silently ignores locked groups", "ACT-2")(
        Engine.activated, lambda right, self, now, path: right() if set(self.ancestors(path)) <= now else now
    ),
    exhaustive("reports a change where nothing changed", "ACT-3")(Engine.unchanged, lambda right, self, session: True),
    exhaustive("refuses requests that change nothing", "ACT-3")(
        Engine.unchanged, lambda right, self, session: refuse("DuplicateName")
    ),
    exhaustive("toggles", "ACT-3")(
        Engine.activated, lambda right, self, now, path: now - self.subtree(path) if path in now else right()
    ),
    exhaustive("refuses every activation", "ACT-4")(
        Engine.activated, lambda right, self, now, path: refuse("QuotaExceeded")
    ),
    exhaustive("refuses activations that displace a group", "ACT-4")(
        Engine.activated,
        lambda right, self, now, path: after if now <= (after := right()) else refuse("ExclusionConflict"),
    ),
    exhaustive("pretends to activate", "ACT-4")(
        Engine.commit,
        lambda right, self, session, before, after: Engine.commit(
            self, session, before, before if set(after) - set(before) else after
        ),
    ),
    exhaustive("reports that activations changed nothing", "ACT-4")(
        Engine.activate, lambda right, self, session, group, within=False: then(right(), False)
    ),
    exhaustive("pretends to deactivate", "ACT-5")(
        Engine.commit, lambda right, self, session, before, after: right() if set(after) - set(before) else None
    ),
    exhaustive("refuses to deactivate a group with active children", "ACT-5")(
        Engine.deactivated,
        lambda right, self, now, path: (
            refuse("ExclusionConflict") if path in now and self.subtree(path) & now != {path} else right()
        ),
    ),
    exhaustive("reports that deactivations changed nothing", "ACT-5")(
        Engine.deactivate, lambda right, self, session, group, force=False: then(right(), False)
    ),
    exhaustive("displaces everything", "ACT-6")(
        Engine.displaced, lambda right, self, now, path: now - set(self.ancestors(path))
    ),
    exhaustive("deactivates siblings", "ACT-6")(Engine.deactivated, deactivates_siblings),
    exhaustive("deactivates emptied parents", "ACT-6")(Engine.deactivated, deactivates_empty_parents),
    exhaustive("displaces partners of partners", "ACT-7")(Engine.displaced, displaces_partners_of_partners),
    exhaustive("displaces partners of ancestors and descendants", "ACT-7", budget=700)(
        Engine.displaced, displaces_partners_of_relatives
    ),
    exhaustive("displaces parents of partners", "ACT-7", budget=700)(Engine.displaced, displaces_parents),
    exhaustive("reactivates former children", "ACT-8")(Engine.commit, reactivates),
)


# -- transitions of several groups, and limits ------------------------------------------------------------------------


def activates_first(
    right: Right[list[str]], self: Engine, session: Session, activate: Iterable[str], deactivate: Iterable[str]
) -> list[str]:
    between = Engine.plan(self, session, activate, ())
    self.check_known(deactivate)
    gone = {below for path in deactivate for below in self.subtree(path)}
    return [path for path in between if path not in gone]


class NotAtomic(Engine):
    def transition(self, session: Session, request: Request) -> Work[bool]:
        single = [evolve(request, activate=(), deactivate=[path]) for path in request.deactivate]
        single += [evolve(request, activate=[path], deactivate=()) for path in self.canonical(request.activate)]
        changed = False
        for one in single:
            changed |= yield from super().transition(session, one)
        return changed


def counts_displaced(
    right: Right[list[str]], self: Engine, after: list[str], before: list[str], requested: Paths
) -> list[str]:
    limit = self.setup.max_active
    if limit is not None and not self.setup.evict_oldest and len({*after, *before}) > limit and after != before:
        raise Refused("QuotaExceeded")
    return right()


SEVERAL_GROUPS = (
    vectors("activates before it deactivates", "ACT-9")(Engine.plan, activates_first),
    vectors("activates in the order given", "ACT-9")(Engine.activation_order, lambda right, self, paths: list(paths)),
    vectors("activates only the first group", "ACT-9")(Engine.activation_order, lambda right, self, paths: right()[:1]),
    vectors("keeps what was done before the refusal", "ACT-9", also=["NTF-1", "HOOK-3", "HOOK-4"]).being(NotAtomic),
    vectors("displaces a group that it has just activated", "ACT-9")(
        Engine.check_conflict, lambda right, self, requested, now: None
    ),
    vectors("ignores the limit", "ACT-10")(Engine.within_limit, lambda right, self, after, before, requested: after),
    vectors("allows one group more than the limit", "ACT-10")(
        Engine.within_limit,
        lambda right, self, after, before, requested: after if len(after) - 1 == self.setup.max_active else right(),
    ),
    vectors("counts displaced groups towards the limit", "ACT-10")(Engine.within_limit, counts_displaced),
    vectors("leaves the children of evicted groups active", "ACT-10")(
        Engine.within_limit,
        lambda right, self, after, before, requested: [path for path in after if "." in path or path in right()],
    ),
    vectors("never evicts", "ACT-10")(Engine.evictable, lambda right, self, after, before, requested: []),
    vectors("evicts the newest", "ACT-10")(
        Engine.evictable, lambda right, self, after, before, requested: right()[::-1]
    ),
    vectors("evicts by name", "ACT-10")(
        Engine.evictable, lambda right, self, after, before, requested: self.canonical(right())
    ),
    vectors("evicts pinned groups", "ACT-10")(
        Engine.evictable,
        lambda right, self, after, before, requested: [
            path
            for path in after
            if self.setup.evict_oldest and not any(f"{one}.".startswith(f"{path}.") for one in requested)
        ],
    ),
    vectors("evicts the oldest, whatever was used", "FND-3")(Engine.use, lambda right, self, session, tool: None),
    vectors("takes the use of a group for that of its ancestors alone", "FND-3")(
        Engine.use,
        lambda right, self, session, tool: Engine.use(self, session, evolve(tool, group=str(tool.group).split(".")[0])),
    ),
    schedules("forgets what was used during a transition", "FND-3")(
        Engine.caught_up, lambda right, self, session, after: after
    ),
    vectors("evicts ancestors", "ACT-10")(
        Engine.evictable,
        lambda right, self, after, before, requested: [
            path for path in before if path in after and self.setup.evict_oldest and path not in self.setup.pinned
        ],
    ),
)


# -- invariants, with the mutants that random tests find hardest -------------------------------------------


def spares_grandchildren(right: Right[Paths], self: Engine, now: Paths, path: str) -> Paths:
    found = {(partner, below) for partner in self.partners(path) for below in self.subtree(partner)}
    return {below for partner, below in found if below.count(".") - partner.count(".") < 2}


def excludes_in_a_chain(right: Right[Paths], self: Engine, path: str) -> Paths:
    chains = [self.canonical(members) for members in self.exclusions if path in members]
    near = [chain[max(0, chain.index(path) - 1) : chain.index(path) + 2] for chain in chains]
    return {other for part in near for other in part} - {path}


class DisplacedForEver(Engine):
    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        if set(after) - set(before):
            self.seen[session.name] |= set(before) - set(after)
        super().commit(session, before, after)

    def take(self, session: Session, after: list[str], force: bool) -> Work[bool]:
        if self.seen[session.name] & (set(after) - set(session.active)):
            raise Refused("QuotaExceeded")
        return super().take(session, after, force)


class OnceOnly(DisplacedForEver):
    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        self.seen[session.name] |= set(after)
        Engine.commit(self, session, before, after)


class DeniedAfterRefusal(Engine):
    def locked(self, path: str, inactive: list[str]) -> Refused:
        self.seen[""] = {path}
        return super().locked(path, inactive)

    def take(self, session: Session, after: list[str], force: bool) -> Work[bool]:
        if self.seen[""] & (set(after) - set(session.active)):
            self.seen[""] = set()
            raise Refused("QuotaExceeded")
        return super().take(session, after, force)


class EverySeventhDenied(Engine):
    count = 0

    def take(self, session: Session, after: list[str], force: bool) -> Work[bool]:
        self.count += not set(after) <= set(session.active)
        if self.count == 7:
            self.count = 0
            raise Refused("QuotaExceeded")
        return super().take(session, after, force)


INVARIANTS = (
    exhaustive("displaces a partner but not its children", "INV-1", budget=700)(
        Engine.displaced, lambda right, self, now, path: self.partners(path)
    ),
    vectors("displaces a partner but not its grandchildren", "INV-1")(Engine.displaced, spares_grandchildren),
    exhaustive("deactivates a group but not its children", "INV-1")(
        Engine.deactivated, lambda right, self, now, path: now - {path}
    ),
    vectors("deactivates only three levels of groups", "INV-1")(
        Engine.deactivated,
        lambda right, self, now, path: (
            now - {below for below in self.subtree(path) if below.count(".") - path.count(".") < 3}
        ),
    ),
    vectors("deactivates only five levels of groups", "INV-1")(
        Engine.deactivated,
        lambda right, self, now, path: (
            now - {below for below in self.subtree(path) if below.count(".") - path.count(".") < 5}
        ),
    ),
    exhaustive("overlooks the last group as a child", "INV-1")(
        Engine.subtree, lambda right, self, path: right() - ({self.canonical(self.groups)[-1]} - {path})
    ),
    exhaustive("displaces nothing", "INV-2")(Engine.partners, lambda right, self, path: set()),
    exhaustive("displaces only later groups", "INV-2")(
        Engine.partners, lambda right, self, path: {other for other in right() if other > path}
    ),
    exhaustive("considers only the first exclusion set of a group", "INV-2")(
        Engine.partners,
        lambda right, self, path: next(
            (members - {path} for members in self.exclusions if path in members), set[str]()
        ),
    ),
    exhaustive("displaces only the first of several partners", "INV-2")(
        Engine.displaced,
        lambda right, self, now, path: {
            below for partner in self.canonical(self.partners(path) & now)[:1] for below in self.subtree(partner)
        },
    ),
    vectors("treats an exclusion set of three as two pairs", "INV-2")(Engine.partners, excludes_in_a_chain),
    exhaustive("never activates a displaced group again", "INV-4").being(DisplacedForEver),
    exhaustive("never activates a group again", "INV-4").being(OnceOnly),
    exhaustive("refuses every seventh activation", "INV-5").being(EverySeventhDenied),
    exhaustive("refuses once more a group that was locked before", "INV-5").being(DeniedAfterRefusal),
)

MUTANTS: tuple[Mutant, ...] = ONE_GROUP + SEVERAL_GROUPS + INVARIANTS
