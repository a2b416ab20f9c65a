"""Mutants of registration while sessions are open (SPEC REG-3, REG-5, REG-7)."""
# ruff: noqa: D103 - what is wrong with each stands in the table that it is for

from __future__ import annotations

from functools import partial

from toolfold_specs.driver import AT_RUN_TIME, CAPABILITIES

from .engine import Engine, Paths, Session, Work
from .mutant import Mutant, Right

stateful = partial(Mutant, layer="stateful", budget=3000, capabilities=frozenset({*CAPABILITIES, *AT_RUN_TIME}))


def closes_everything(right: Right[None], self: Engine, other: Engine) -> None:
    right()
    for session in self.sessions.values():
        session.active = []


def runs_no_hooks(right: Right[Work[None]], self: Engine, session: Session, gone: Paths) -> Work[None]:
    session.active = [path for path in session.active if path not in gone]
    yield from ()


MUTANTS: tuple[Mutant, ...] = (
    stateful("accepts an exclusion set that an open session violates", "REG-3")(
        Engine.check_sessions, lambda right, self, other: None
    ),
    stateful("removes groups without running their hooks", "REG-5")(Engine.deactivate_removed, runs_no_hooks),
    stateful("deactivates every group when anything is registered", "REG-7", also=("REG-5",))(
        Engine.adopt, closes_everything
    ),
)
