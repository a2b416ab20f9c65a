"""What every broken engine says of itself beside what it does."""

from __future__ import annotations

from typing import ClassVar

from .engine import Engine


class Broken(Engine):
    """An engine with one fault; the first sentence of its docstring says what is wrong with it."""

    clauses: ClassVar[tuple[str, ...]] = ()
    """The clause that it breaks; several where one fault may rightly be found as any of them."""
    also: ClassVar[tuple[str, ...]] = ()
    """Clauses that are broken besides, as a consequence, and that the same layer may find."""
    layer: ClassVar[str] = "exhaustive"
    """The layer of the kit that is the first to find it."""
    budget: ClassVar[int] = 700
    """The operations within which each check of the layer is to find it, if it can at all."""
