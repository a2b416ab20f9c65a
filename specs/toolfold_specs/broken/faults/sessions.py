"""Faults of notices, sessions, turns and persistence (SPEC 10 to 12)."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from anyio import Event

from ...driver import Setup
from ..engine import Hook, RunHook
from ..fault import Broken
from ..rules import Refused, Session


class NotifiesOfNothing(Broken):
    """Tells of a changed list where a step changed nothing."""

    clauses = ("NTF-1",)

    def unchanged(self, session: Session) -> bool:
        session.notices += 1
        return super().unchanged(session)


class NotifiesOfEach(Broken):
    """Tells of a changed list once for each group that a step has changed."""

    clauses = ("NTF-1",)

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return len(set(before) ^ set(after)) or super().notices(session, listed, before, after)


class NeverNotifies(Broken):
    """Tells of no changed list."""

    clauses = ("NTF-1",)

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return 0 if before != after else super().notices(session, listed, before, after)


class NotifiesOfTheSameList(Broken):
    """Tells of a changed list where a step has left the list as it was."""

    clauses = ("NTF-1",)
    layer = "vectors"

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return 1 if before != after else super().notices(session, listed, before, after)


class NotifiesTooSoon(Broken):
    """Tells of a changed list while the hooks of the step still run."""

    clauses = ("NTF-2",)
    also = ("NTF-1",)
    layer = "schedules"

    async def run_hooks(self, session: Session, hooks: list[Hook], force: bool) -> None:
        self.told = bool(hooks)
        session.notices += self.told
        await super().run_hooks(session, hooks, force)

    told = False

    async def give_up(self, session: Session, succeeded: list[Hook], cancelled: bool) -> None:
        session.notices = max(0, session.notices - 1)
        await super().give_up(session, succeeded, cancelled)

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return max(0, super().notices(session, listed, before, after) - (self.told and before != after))


class FactsAreQuiet(Broken):
    """Tells nothing where a fact has changed the list."""

    clauses = ("NTF-3",)
    layer = "vectors"

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return 0 if before == after else super().notices(session, listed, before, after)


class FactsAreLoud(Broken):
    """Tells of a changed list whenever a fact is set."""

    clauses = ("NTF-3",)
    layer = "vectors"

    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return 1 if before == after else super().notices(session, listed, before, after)


class Sessions(Broken):
    """What is wrong here shows between sessions."""

    clauses = ("SES-1",)
    layer: ClassVar[str] = "vectors"


class OneState(Sessions):
    """Has one state for all sessions."""

    also = ("ACT-4", "ACT-6")

    def session(self, name: str) -> Session:
        session = super().session(name)
        session.active = next(iter(self.sessions.values())).active
        return session

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        super().commit(session, before, after)
        for other in self.sessions.values():
            other.active = session.active


class SharedFacts(Sessions):
    """Has the same facts in all sessions."""

    def set_fact(self, session: Session, fact: str, value: bool) -> None:
        super().set_fact(session, fact, value)
        for other in self.sessions.values():
            other.facts[fact] = value


class NotifiesEverybody(Sessions):
    """Tells every session of one session's changed list."""

    also = ("NTF-1",)

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        counted = session.notices
        super().commit(session, before, after)
        for other in self.sessions.values():
            other.notices += session.notices - counted if other is not session else 0


class NewSessionsInherit(Sessions):
    """Opens a session with the state of the one before."""

    also = ("ACT-4", "ACT-6")

    def session(self, name: str) -> Session:
        last = list(self.sessions.values())[-1:]
        new = name not in self.sessions
        session = super().session(name)
        if new and last:
            session.active = list(last[0].active)
        return session


class EndsWithAnother(Sessions):
    """Ends every session where one ends."""

    def forget(self, session: Session) -> None:
        for other in list(self.sessions.values()):
            super().forget(other)


class Turns(Broken):
    """What is wrong here shows only where steps of one session overlap."""

    clauses = ("SES-2",)
    layer: ClassVar[str] = "schedules"


class NoTurns(Turns):
    """Plans a step while another is under way, and commits the whole state that it planned."""

    also = ("HOOK-5", "HOOK-6")

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        self.refuse_reentry(session)
        yield


class CommitsTheDelta(NoTurns):
    """Plans a step while another is under way, and commits what is to be added and taken away."""

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        kept = [path for path in session.active if path not in before or path in after]
        super().commit(session, before, [*kept, *(path for path in after if path not in before and path not in kept)])


class LastComeFirst(Turns):
    """Gives the turn to the step that has waited the shortest."""

    def __init__(self, setup: Setup, run_hook: RunHook) -> None:
        super().__init__(setup, run_hook)
        self.waiting: dict[str, list[Event]] = {}

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        self.refuse_reentry(session)
        if session.name in self.waiting:
            await self.wait(self.waiting[session.name])
        self.waiting.setdefault(session.name, [])
        try:
            yield
        finally:
            if self.waiting[session.name]:
                self.waiting[session.name].pop().set()
            else:
                del self.waiting[session.name]

    async def wait(self, waiting: list[Event]) -> None:
        """Return when the turn has come."""
        turn = Event()
        waiting.append(turn)
        try:
            await turn.wait()
        except BaseException:
            waiting.remove(turn)
            raise


class PlansBeforeItsTurn(Turns):
    """Plans a step when it is asked for, and takes it when its turn has come."""

    also = ("HOOK-5", "HOOK-6")

    async def transition(
        self, session: Session, activate: Iterable[str] = (), deactivate: Iterable[str] = (), force: bool = False
    ) -> bool:
        planned = self.plan(session, tuple(activate), tuple(deactivate))
        async with self.turn(session):
            return await self.take(session, planned, force)


class OneTurnForAll(Sessions):
    """Lets the steps of one session wait for those of another."""

    layer = "schedules"

    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        first = next(iter(self.sessions.values()))
        self.refuse_reentry(session)
        async with first.lock:
            yield


class StaysOpen(Broken):
    """Keeps the state of a session that has ended for the next one of its name."""

    clauses = ("SES-3",)
    layer = "vectors"

    def forget(self, session: Session) -> None:
        pass


class KeepsFacts(Broken):
    """Refuses to take a fact back."""

    clauses = ("SES-5",)
    layer = "vectors"

    def set_fact(self, session: Session, fact: str, value: bool) -> None:
        if not value:
            raise Refused("InvalidDefinition")
        super().set_fact(session, fact, value)


class ForgetsFacts(Broken):
    """Takes a fact that is set for what it was before."""

    clauses = ("NTF-3",)
    also = ("VIS-2", "SES-5")
    layer = "vectors"

    def set_fact(self, session: Session, fact: str, value: bool) -> None:
        pass


class Restored(Broken):
    """What is wrong here shows where a session is restored."""

    layer: ClassVar[str] = "vectors"


class RestoresNothing(Restored):
    """Restores a session with nothing active."""

    clauses = ("PER-1",)

    def load(self, session: Session, data: Mapping[str, Any]) -> None:
        super().load(session, {**data, "active": []})


class RestoresRootsOnly(Restored):
    """Loses what is within other groups."""

    clauses = ("PER-1",)

    def dump(self, session: Session) -> dict[str, Any]:
        return {**super().dump(session), "active": [path for path in session.active if "." not in path]}


class LosesFacts(Restored):
    """Loses the facts."""

    clauses = ("PER-1",)

    def dump(self, session: Session) -> dict[str, Any]:
        return {**super().dump(session), "facts": {}}


class RestoresOrphans(Restored):
    """Restores a group whose parent is not active."""

    clauses = ("PER-2",)

    def normalised(self, paths: Iterable[str]) -> set[str]:
        return {path for path in paths if path in self.groups}


class RestoresPartners(Restored):
    """Restores groups that exclude one another."""

    clauses = ("PER-2",)

    def displaced(self, now: set[str], path: str) -> set[str]:
        return set() if self.restoring else super().displaced(now, path)

    restoring = False

    def normalised(self, paths: Iterable[str]) -> set[str]:
        self.restoring = True
        kept = super().normalised(paths)
        self.restoring = False
        return kept


class RestoresTheLast(Restored):
    """Restores the last of an exclusion set, not the first."""

    clauses = ("PER-2",)

    def canonical(self, paths: Iterable[str]) -> list[str]:
        return super().canonical(paths)[:: -1 if self.restoring else 1]

    restoring = False

    def normalised(self, paths: Iterable[str]) -> set[str]:
        self.restoring = True
        kept = super().normalised(paths)
        self.restoring = False
        return kept


class RestoresBelowDropped(Restored):
    """Restores what is within a group that an exclusion set has dropped."""

    clauses = ("PER-2",)

    def normalised(self, paths: Iterable[str]) -> set[str]:
        known = {path for path in paths if path in self.groups and set(self.ancestors(path)) <= set(paths)}
        for path in self.canonical(known):
            if path in known:
                known -= self.partners(path)
        return known


class AllOrNothing(Restored):
    """Restores nothing where something has to be dropped."""

    clauses = ("PER-2",)

    def normalised(self, paths: Iterable[str]) -> set[str]:
        kept = super().normalised(paths)
        return kept if kept == set(paths) else set()
