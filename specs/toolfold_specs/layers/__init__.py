"""The layers of the kit, each a module with `CHECKS`, in the order in which they run (SPEC CNF-7).

exhaustive.py   every step of every small system        schedules.py   overlapping operations with blocked hooks
vectors.py      cases as data                           histories.py   random concurrent histories
stateful.py     random histories by Hypothesis          wire.py        what is only visible over a protocol
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ..checks import LAYERS, Check


def all_checks(layers: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of some layers, or all, in the order in which they run.

    Raises:
        ValueError: There is no such layer.
        MissingExtra: A package that a layer needs is missing.
    """
    chosen = LAYERS if layers is None else tuple(layers)
    if unknown := [name for name in chosen if name not in LAYERS]:
        raise ValueError(f"there is no layer {unknown[0]!r}; there are {', '.join(LAYERS)}")
    return tuple(check for name in LAYERS if name in chosen for check in _checks(name))


def _checks(layer: str) -> tuple[Check, ...]:
    checks: tuple[Check, ...] = import_module(f"{__name__}.{layer}").CHECKS
    return checks
