"""What a mutant is, and how one is declared."""

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
"""The original method, bound to its arguments, for its replacement to call."""


def _names(clauses: Iterable[str]) -> frozenset[str]:
    return frozenset(clauses)


@frozen
class Mutant:
    """The engine with one wrong decision, and the violations that the kit must report.

    Calling it with a method and its replacement returns the mutant:

        exhaustive("displaces nothing", "INV-2")(Engine.partners, lambda right, self, path: set())

    Before the method's own arguments, the replacement gets the original as a function without parameters.
    """

    name: str
    """What it does wrong, in a sentence whose subject is the mutant."""
    clause: str
    """The clause that it breaks."""
    also: frozenset[str] = field(default=frozenset[str](), converter=_names)
    """Clauses that are violated as a consequence, which the same layer may report."""
    layer: str = ""
    """A layer of the kit that catches it."""
    budget: int = 700
    """The number of operations within which the layer's checks must catch it."""
    engine: type[Engine] = Engine
    capabilities: frozenset[str] = EngineDriver.capabilities

    def __call__(self, method: Callable[P, T], wrong: Callable[Concatenate[Right[T], P], T]) -> Mutant:
        """Return the mutant with one method replaced."""
        return self.being(overriding(Engine, method, wrong))

    def being(self, engine: type[Engine]) -> Mutant:
        """Return the mutant with this engine, where replacing one method is not enough."""
        return evolve(self, engine=engine)

    def driver(self) -> Driver:
        """Return a driver of it in process."""
        return EngineDriver(self.engine, self.capabilities)


def overriding(base: type[B], method: Callable[P, T], wrong: Callable[Concatenate[Right[T], P], T]) -> type[B]:
    """Return a subclass with a method replaced by `wrong`."""

    def replacement(*args: P.args, **kwargs: P.kwargs) -> T:
        return wrong(partial(method, *args, **kwargs), *args, **kwargs)

    made: Any = type("Mutant", (base,), {method.__name__: replacement})
    return cast("type[B]", made)


exhaustive = partial(Mutant, layer="exhaustive", budget=450)
vectors = partial(Mutant, layer="vectors")
schedules = partial(Mutant, layer="schedules")


def refuse(error: str, **detail: Any) -> NoReturn:
    """Refuse a request, in an expression."""
    raise Refused(error, **detail)


def then(work: Work[Any] | tuple[()], result: T) -> Work[T]:
    """Do the work, but return another result."""
    yield from work
    return result
