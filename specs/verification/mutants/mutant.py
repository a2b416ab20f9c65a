"""What a mutant is, and how one is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeAlias, TypeVar, cast

from attrs import evolve, field, frozen

from toolfold_specs.driver import Driver

from .driver import EngineDriver
from .engine import Engine, Refused, Work

P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B")

Right: TypeAlias = Callable[[], T]
"""What a method would do if it were right, for what stands in its place."""


def _names(clauses: Iterable[str]) -> frozenset[str]:
    return frozenset(clauses)


@frozen
class Mutant:
    """The engine with one decision made wrongly, and what the kit is to say of it.

    Called with the method that decides and what stands in its place, it returns the mutant made of them:

        exhaustive("displaces nothing", "INV-2")(Engine.partners, lambda right, self, path: set())

    The replacement is given what would be right, as a function to call, before the method's own arguments.
    """

    name: str
    """What it does wrong; the mutant is the subject of the sentence."""
    clause: str
    """The clause that it breaks."""
    also: frozenset[str] = field(default=frozenset[str](), converter=_names)
    """Clauses that are broken besides, as a consequence, and that the same layer may find."""
    layer: str = ""
    """The layer of the kit that is the first to catch it."""
    budget: int = 700
    """The operations within which each check of the layer is to catch it, if it can at all."""
    engine: type[Engine] = Engine
    capabilities: frozenset[str] = EngineDriver.capabilities

    def __call__(self, method: Callable[P, T], wrong: Callable[Concatenate[Right[T], P], T]) -> Mutant:
        """Return the mutant that decides wrongly in one method."""
        return self.being(overriding(Engine, method, wrong))

    def being(self, engine: type[Engine]) -> Mutant:
        """Return the mutant that is this engine, where one method is not enough."""
        return evolve(self, engine=engine)

    def driver(self) -> Driver:
        """Return a driver of it, in process."""
        return EngineDriver(self.engine, self.capabilities)


def overriding(base: type[B], method: Callable[P, T], wrong: Callable[Concatenate[Right[T], P], T]) -> type[B]:
    """Return a subclass that has `wrong` in the place of a method."""

    def replacement(*args: P.args, **kwargs: P.kwargs) -> T:
        return wrong(partial(method, *args, **kwargs), *args, **kwargs)

    made: Any = type("Mutant", (base,), {method.__name__: replacement})
    return cast("type[B]", made)


exhaustive = partial(Mutant, layer="exhaustive")
vectors = partial(Mutant, layer="vectors")
schedules = partial(Mutant, layer="schedules")


def refuse(error: str, **detail: Any) -> NoReturn:
    """Refuse a request, where an expression is needed."""
    raise Refused(error, **detail)


def then(work: Work[Any] | tuple[()], result: T) -> Work[T]:
    """Do the work, and come to another result."""
    yield from work
    return result
