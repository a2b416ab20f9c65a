"""Mutants of registration while sessions are open (SPEC REG-3, REG-5, REG-7)."""
# ruff: noqa: D101, D102, D103 - what is wrong with each stands in the table that it is for

from __future__ import annotations

from functools import partial

from toolfold_specs.driver import AT_RUN_TIME, CAPABILITIES, Setup

from .engine import Engine, Paths, Refused, Session, Work
from .mutant import Mutant, Right, schedules, vectors

LIVE = frozenset({*CAPABILITIES, *AT_RUN_TIME})
"""What the engine can do with registration while sessions are open."""

stateful = partial(Mutant, layer="stateful", budget=800, capabilities=LIVE)


def closes_everything(right: Right[None], self: Engine, other: Engine) -> None:
    right()
    for session in self.sessions.values():
        session.active = []


def runs_no_hooks(right: Right[Work[None]], self: Engine, session: Session, gone: Paths) -> Work[None]:
    session.active = [path for path in session.active if path not in gone]
    yield from ()


def refuses_groups(right: Right[Work[None]], self: Engine, setup: Setup) -> Work[None]:
    if len(setup.groups) > len(self.groups):
        raise Refused("SessionsAreOpen")
    return right()


class OnlyForExclusions(Engine):
    def register(self, setup: Setup) -> Work[None]:
        self.hurries = len(setup.exclusions) == len(self.setup.exclusions)
        return super().register(setup)

    def may_change(self) -> bool:
        return self.hurries or super().may_change()


MUTANTS: tuple[Mutant, ...] = (
    stateful("accepts an exclusion set that an open session violates", "REG-3")(
        Engine.check_sessions, lambda right, self, other: None
    ),
    schedules("registers an exclusion set that a transition under way violates", "REG-3", capabilities=LIVE)(
        Engine.may_change, lambda right, self: True
    ),
    schedules("forgets a group's removal while it is being opened", "REG-5", capabilities=LIVE).being(
        OnlyForExclusions
    ),
    stateful("removes groups without running their hooks", "REG-5")(Engine.deactivate_removed, runs_no_hooks),
    vectors("refuses to register groups while sessions are open", "REG-7", capabilities=LIVE)(
        Engine.register, refuses_groups
    ),
    vectors("deactivates every group when anything is registered", "REG-7", capabilities=LIVE)(
        Engine.adopt, closes_everything
    ),
)
