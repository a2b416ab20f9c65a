"""A backend of Hypothesis whose choices depend on a seed and nothing else.

The default backend also draws integers that it finds in the source of the modules that happen to be loaded, so that
there the same seed gives other histories in another program.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from random import Random
from typing import TYPE_CHECKING, Final, Never

from toolfold_specs.extras import extras_named

with extras_named():
    from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, PrimitiveProvider

if TYPE_CHECKING:
    from hypothesis.internal.conjecture.data import ConjectureData

BACKEND: Final = "toolfold_specs"

_seed: ContextVar[int] = ContextVar("seed")


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Let tests that use `BACKEND` draw by this seed."""
    token = _seed.set(seed)
    try:
        yield
    finally:
        _seed.reset(token)


class SeededProvider(PrimitiveProvider):
    """Draws booleans and bounded integers, and therefore also from collections."""

    def __init__(self, conjecturedata: ConjectureData | None, /) -> None:
        super().__init__(conjecturedata)
        self._random = Random(_seed.get())

    def draw_boolean(self, p: float = 0.5) -> bool:
        """Return True with probability `p`."""
        return self._random.random() < p

    def draw_integer(
        self,
        min_value: int | None = None,
        max_value: int | None = None,
        *,
        weights: dict[int, float] | None = None,
        shrink_towards: int = 0,
    ) -> int:
        """Return an integer between two bounds, all of the same probability."""
        assert min_value is not None
        assert max_value is not None
        assert weights is None
        return self._random.randint(min_value, max_value)

    def draw_float(self, *_: object, **__: object) -> Never:
        """Refuse: no history needs one."""
        raise NotImplementedError

    draw_string = draw_bytes = draw_float


AVAILABLE_PROVIDERS[BACKEND] = f"{__name__}.{SeededProvider.__name__}"
