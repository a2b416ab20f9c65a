"""Faults that break an invariant (SPEC 4): the mutants that random tests find hardest are among them."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

from ..fault import Broken
from ..rules import Refused, Session


class PartnerOnly(Broken):
    """Displaces a partner, and leaves active what is in it."""

    clauses = ("INV-1",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        return self.partners(path)


class DeactivatesItselfOnly(Broken):
    """Deactivates a group, and leaves active what is in it."""

    clauses = ("INV-1",)

    def deactivated(self, now: set[str], path: str) -> set[str]:
        return now - {path}


class MissesGrandchildren(Broken):
    """Displaces a partner with its children, and not what is in those."""

    clauses = ("INV-1",)
    budget = 8000

    def displaced(self, now: set[str], path: str) -> set[str]:
        right = super().displaced(now, path)
        return {
            below for below in right if min(below.count(".") - top.count(".") for top in self.tops(below, path)) < 2
        }

    def tops(self, below: str, path: str) -> list[str]:
        """The partners of `path` that `below` is in."""
        return [partner for partner in self.partners(path) if below in self.subtree(partner)]


class MissesGreatGrandchildren(Broken):
    """Deactivates three levels of groups, and not what is in those."""

    clauses = ("INV-1",)
    budget = 8000

    def deactivated(self, now: set[str], path: str) -> set[str]:
        return now - {below for below in self.subtree(path) if below.count(".") - path.count(".") < 3}


class MissesTheLast(Broken):
    """Takes the last of all groups for nobody's child."""

    clauses = ("INV-1",)

    def subtree(self, path: str) -> set[str]:
        last = self.canonical(self.groups)[-1]
        return super().subtree(path) - ({last} - {path})


class NoExclusion(Broken):
    """Displaces nothing."""

    clauses = ("INV-2",)

    def partners(self, path: str) -> set[str]:
        return set()


class OneWayExclusion(Broken):
    """Lets the first group of an exclusion set displace the others, and not the other way round."""

    clauses = ("INV-2",)

    def partners(self, path: str) -> set[str]:
        return {other for other in super().partners(path) if other > path}


class FirstPartnerOnly(Broken):
    """Displaces the first of several partners only."""

    clauses = ("INV-2",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        first = self.canonical(self.partners(path) & now)[:1]
        return {below for partner in first for below in self.subtree(partner)}


class FirstSetOnly(Broken):
    """Looks only into the first exclusion set that a group is in."""

    clauses = ("INV-2",)

    def partners(self, path: str) -> set[str]:
        return next((members - {path} for members in self.exclusions if path in members), set[str]())


class SetAsChain(Broken):
    """Takes a set of three for two pairs: its first and last may be active together."""

    clauses = ("INV-2",)
    layer = "vectors"

    def partners(self, path: str) -> set[str]:
        found: set[str] = set()
        for members in self.exclusions:
            chain = self.canonical(members)
            if path in chain:
                place = chain.index(path)
                found |= set(chain[max(0, place - 1) : place + 2])
        return found - {path}


class DisplacedForEver(Broken):
    """Never activates a group again that was displaced."""

    clauses = ("INV-4",)

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        entered = set(after) - set(before)
        session.memory |= {path for path in set(before) - set(after) if entered}
        super().commit(session, before, after)

    def plan_refuses(self, session: Session, path: str) -> bool:
        """Whether a group may never be activated again."""
        return path in session.memory

    async def activate(self, session: Session, path: str) -> bool:
        if self.plan_refuses(session, path):
            raise Refused("QuotaExceeded")
        return await super().activate(session, path)


class OnceOnly(DisplacedForEver):
    """Never activates a group a second time."""

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        session.memory |= set(after)
        super().commit(session, before, after)

    def plan_refuses(self, session: Session, path: str) -> bool:
        return path in session.memory and path not in session.active


class EverySeventhDenied(Broken):
    """Refuses every seventh step that activates."""

    clauses = ("INV-5",)
    taken = 0

    async def take(self, session: Session, after: list[str], force: bool) -> bool:
        self.taken += not set(after) <= set(session.active)
        if self.taken == 7:
            self.taken = 0
            raise Refused("QuotaExceeded")
        return await super().take(session, after, force)


class DeniedAfterRefusal(Broken):
    """Refuses a group that is asked for again after it was refused for its parent."""

    clauses = ("INV-5",)

    def check_ancestors(self, now: set[str], path: str) -> None:
        try:
            super().check_ancestors(now, path)
        except Refused:
            self.refused = path
            raise

    refused = ""

    async def take(self, session: Session, after: list[str], force: bool) -> bool:
        if self.refused in set(after) - set(session.active):
            self.refused = ""
            raise Refused("QuotaExceeded")
        return await super().take(session, after, force)
