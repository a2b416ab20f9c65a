"""The broken variants of the engine, for the kit to find (SPEC CNF-5): at least one for each clause that it checks."""

from __future__ import annotations

import inspect
import re

from attrs import frozen

from ..driver import Driver
from .driver import EngineDriver
from .fault import Broken
from .faults import hooks, invariants, names, offers, sessions, transitions


@frozen
class Variant:
    """One broken engine, and what the kit is to say of it."""

    name: str
    clauses: tuple[str, ...]
    """The clause to blame; any one of several, where the fault may rightly be found as each of them."""
    wrong: str
    """What is wrong, in a sentence."""
    layer: str
    """The layer that is the first to find it."""
    engine: type[Broken]
    also: tuple[str, ...] = ()
    """Clauses that are broken besides, as a consequence, and that the same layer may find."""
    budget: int | None = None
    """The operations within which each check of the layer is to find it, if it can at all."""

    def driver(self) -> Driver:
        """Return a driver of it, in process."""
        return EngineDriver(self.engine)


def named(broken: type) -> str:
    """Return the name of a broken class, as the command line takes it: `PartnerOnly` is "partner-only"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", broken.__name__).lower()


def sentence(broken: type) -> str:
    """Return what its docstring says."""
    return inspect.cleandoc(broken.__doc__ or "")


def _in(module: object) -> tuple[type[Broken], ...]:
    """Return the broken engines of a module, in its order, without those that others only have in common."""
    found = [value for value in vars(module).values() if inspect.isclass(value) and issubclass(value, Broken)]
    return tuple(one for one in found if one is not Broken and not sentence(one).startswith("What is wrong here"))


def _variant(engine: type[Broken]) -> Variant:
    return Variant(named(engine), engine.clauses, sentence(engine), engine.layer, engine, engine.also, engine.budget)


VARIANTS: tuple[Variant, ...] = tuple(
    _variant(engine) for module in (names, transitions, invariants, hooks, offers, sessions) for engine in _in(module)
)
"""All of them, in the order of the specification's sections."""

BY_NAME = {variant.name: variant for variant in VARIANTS}
