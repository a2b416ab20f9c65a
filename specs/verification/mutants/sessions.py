"""Mutants of notifications, sessions and persistence (SPEC 10 to 12)."""
# ruff: noqa: D101, D102, D103 - the tables below say what is wrong with each

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolfold_specs.driver import CAPABILITIES, IN_A_STORE, OF_PROFILES

from .engine import Engine, Hook, Paths, Request, Session, Work
from .mutant import Mutant, Right, exhaustive, refuse, schedules, then, vectors

# -- notifications, sessions and serialisation ------------------------------------------------------------------------


class NotifiesTooSoon(Engine):
    notified = False

    def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> Work[bool]:
        active, listed = session.active, self.names(session)
        session.active = [path for path in active if ("on_deactivate", path) not in hooks]
        session.active += [path for phase, path in hooks if phase == "on_activate"]
        self.notified, session.active = self.names(session) != listed, active
        session.notifications += self.notified
        return super().run_hooks(session, hooks, force)

    def roll_back(self, session: Session, succeeded: list[Hook], cancelled: bool) -> Work[None]:
        session.notifications = max(0, session.notifications - self.notified)
        return super().roll_back(session, succeeded, cancelled)

    def notifications(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return max(0, super().notifications(session, listed, before, after) - (self.notified and before != after))


def notifies_of_nothing(right: Right[bool], self: Engine, session: Session) -> bool:
    session.notifications += 1
    return False


def shared_facts(right: Right[None], self: Engine, session: Session, fact: str, value: bool) -> None:
    right()
    for other in self.sessions.values():
        other.facts[fact] = value


def sets_quietly(right: Right[None], self: Engine, session: Session, fact: str, value: bool) -> None:
    notifications = session.notifications
    right()
    session.notifications = notifications if session.queue else session.notifications


def notifies_everybody(right: Right[None], self: Engine, session: Session, before: list[str], after: list[str]) -> None:
    counted = session.notifications
    right()
    for other in self.sessions.values():
        other.notifications += session.notifications - counted if other is not session else 0


def new_sessions_inherit(right: Right[Session], self: Engine, name: str) -> Session:
    last = None if name in self.sessions else next(reversed(self.sessions.values()), None)
    session = right()
    session.active = list(last.active) if last else session.active
    return session


def ends_with_another(right: Right[None], self: Engine, session: Session) -> None:
    for other in list(self.sessions.values()):
        Engine.forget(self, other)


class CommitsTheDelta(Engine):
    def serialized(self, session: Session, work: Work[Any], within: bool = False) -> Work[Any]:
        return work

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        unaffected = [path for path in session.active if path not in before or path in after]
        super().commit(
            session, before, [*unaffected, *(path for path in after if path not in before and path not in unaffected)]
        )


def last_in_first_out(
    right: Right[Work[Any]], self: Engine, session: Session, work: Work[Any], within: bool = False
) -> Work[Any]:
    try:
        return (yield from right())
    finally:
        session.queue[:0] = [session.queue.pop()] if session.queue else []


def plans_on_arrival(right: Right[Work[bool]], self: Engine, session: Session, request: Request) -> Work[bool]:
    self.refuse_reentry(request.within)
    planned = self.plan(session, request.activate, request.deactivate)
    return self.serialized(session, self.take(session, planned, request.force))


SESSIONS = (
    vectors("lists in a session that has ended", "SES-3")(Engine.list_closed, lambda right, self, session: None),
    exhaustive("notifies of requests that changed nothing", "NTF-1")(Engine.unchanged, notifies_of_nothing),
    exhaustive("notifies once for each changed group", "NTF-1")(
        Engine.notifications,
        lambda right, self, session, listed, before, after: len(set(before) ^ set(after)) or right(),
    ),
    exhaustive("never notifies of transitions", "NTF-1")(
        Engine.notifications, lambda right, self, session, listed, before, after: 0 if before != after else right()
    ),
    vectors("notifies of transitions that leave the list as it was", "NTF-1")(
        Engine.notifications, lambda right, self, session, listed, before, after: 1 if before != after else right()
    ),
    schedules("notifies before the commit", "NTF-2").being(NotifiesTooSoon),
    vectors("never notifies of facts", "NTF-3")(
        Engine.notifications, lambda right, self, session, listed, before, after: 0 if before == after else right()
    ),
    vectors("notifies whenever a fact is set", "NTF-3")(
        Engine.notifications, lambda right, self, session, listed, before, after: 1 if before == after else right()
    ),
    vectors("shares one state among all sessions", "SES-1", also=["ACT-4", "ACT-6"])(
        Engine.session, lambda right, self, name: Engine.session(self, "the only one")
    ),
    vectors("shares facts among all sessions", "SES-1")(Engine.set_fact, shared_facts),
    vectors("notifies every session of one session's change", "SES-1", also=["NTF-1"])(
        Engine.commit, notifies_everybody
    ),
    vectors("opens sessions in the state of the last one", "SES-1", also=["ACT-4", "ACT-6"])(
        Engine.session, new_sessions_inherit
    ),
    vectors("ends every session when one ends", "SES-1")(Engine.forget, ends_with_another),
    schedules("runs transitions side by side", "SES-2", also=["HOOK-5", "HOOK-6"])(
        Engine.serialized, lambda right, self, session, work, within=False: work
    ),
    schedules("runs transitions side by side and merges their changes", "SES-2", also=["HOOK-5", "HOOK-6"]).being(
        CommitsTheDelta
    ),
    schedules("serves waiting transitions last come, first served", "SES-2")(Engine.serialized, last_in_first_out),
    schedules("plans transitions on arrival", "SES-2", also=["HOOK-5", "HOOK-6"])(Engine.transition, plans_on_arrival),
    schedules("makes sessions wait for one another", "SES-1")(
        Engine.serialized,
        lambda right, self, session, work, within=False: Engine.serialized(
            self, next(iter(self.sessions.values())), work
        ),
    ),
    vectors("keeps the state of a session that has ended", "SES-3")(Engine.forget, lambda right, self, session: None),
    schedules("loses a fact that is set while a transition is under way", "SES-5", also=["NTF-3"])(
        Engine.set_fact, lambda right, self, session, fact, value: None if session.queue else right()
    ),
    schedules("does not notify of a fact that is set while a transition is under way", "NTF-3")(
        Engine.set_fact, sets_quietly
    ),
    vectors("refuses to reset a fact", "SES-5")(
        Engine.set_fact, lambda right, self, session, fact, value: right() if value else refuse("InvalidDefinition")
    ),
    vectors("ignores facts that are set", "NTF-3", also=["VIS-2", "SES-5"])(
        Engine.set_fact, lambda right, self, session, fact, value: None
    ),
)


# -- persistence ------------------------------------------------------------------------------------------------------


def restores_below_discarded(right: Right[Paths], self: Engine, paths: Iterable[str]) -> Paths:
    known = {path for path in paths if path in self.groups and set(self.ancestors(path)) <= set(paths)}
    for path in self.canonical(known):
        known -= self.partners(path) if path in known else set[str]()
    return known


PERSISTENCE = (
    vectors("restores nothing", "PER-1")(
        Engine.load, lambda right, self, session, data: Engine.load(self, session, {**data, "active": []})
    ),
    vectors("loses nested groups", "PER-1")(
        Engine.dump,
        lambda right, self, session: {**right(), "active": [path for path in right()["active"] if "." not in path]},
    ),
    vectors("loses facts", "PER-1")(Engine.dump, lambda right, self, session: {**right(), "facts": {}}),
    vectors("restores no fact that is false", "PER-1")(
        Engine.load,
        lambda right, self, session, data: Engine.load(
            self, session, {**data, "facts": {fact: value for fact, value in data["facts"].items() if value}}
        ),
    ),
    vectors("says of no group that it was discarded", "PER-2")(
        Engine.load, lambda right, self, session, data: [*right()][:0]
    ),
    vectors("restores groups whose parent is inactive", "PER-2")(
        Engine.normalised, lambda right, self, paths: {path for path in paths if path in self.groups}
    ),
    vectors("restores groups that exclude one another", "PER-2")(
        Engine.normalised,
        lambda right, self, paths: {
            path for path in paths if path in self.groups and set(self.ancestors(path)) <= set(paths)
        },
    ),
    vectors("restores the last of an exclusion set instead of the first", "PER-2")(
        Engine.preferred, lambda right, self, paths: right()[::-1]
    ),
    vectors("restores children of groups that are not restored", "PER-2")(Engine.normalised, restores_below_discarded),
    vectors("restores nothing if anything has to be discarded", "PER-2")(
        Engine.normalised, lambda right, self, paths: restored if (restored := right()) == set(paths) else set()
    ),
)

# -- processes that share a store -------------------------------------------------------------------------------------


def undoes_what_had_ended(right: Right[Work[None]], self: Engine, session: Session) -> Work[None]:
    session.abandoned = session.abandoned[:-1]
    return Engine.recover(self, session)


STORED = frozenset({*CAPABILITIES, *IN_A_STORE})

STORES = (
    schedules("does not undo what a stopped process has begun", "STO-3", capabilities=STORED)(
        Engine.recover, lambda right, self, session: then((), None)
    ),
    schedules("undoes only what a stopped process has finished", "STO-3", capabilities=STORED)(
        Engine.recover, undoes_what_had_ended
    ),
    schedules("commits although its lease is lost", "STO-2", capabilities=STORED)(
        Engine.check_lease, lambda right, self, session, fence: None
    ),
)

# -- children ---------------------------------------------------------------------------------------------------------

WITH_PROFILES = frozenset({*CAPABILITIES, *OF_PROFILES})

CHILDREN = (
    exhaustive("gives a child all that its own profile has", "GWY-16", budget=1500, capabilities=WITH_PROFILES)(
        Engine.bound, lambda right, self, profiles: Engine.bound(self, [*profiles][:1])
    ),
    exhaustive("forgets what the parent of a child is within", "GWY-16", budget=1500, capabilities=WITH_PROFILES)(
        Engine.bound, lambda right, self, profiles: Engine.bound(self, [*profiles][:2])
    ),
    exhaustive("opens for a child what it does not list", "GWY-16", budget=1500, capabilities=WITH_PROFILES)(
        Engine.check_exists, lambda right, self, session, paths: None
    ),
)

MUTANTS: tuple[Mutant, ...] = SESSIONS + PERSISTENCE + STORES + CHILDREN
