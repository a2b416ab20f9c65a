"""The layers of the kit, each a module with `CHECKS`, in the order in which they run (SPEC CNF-7).

exhaustive.py   every step of every small system        schedules.py   operations that overlap, hooks parked
vectors.py      cases as data                           histories.py   random concurrent histories, searched
stateful.py     random histories, by Hypothesis         wire.py        what only a protocol shows
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ..checks import LAYERS, Check

INSTALL = 'pip install "toolfold[conformance]"'


class MissingPackage(Exception):
    """A package that a layer needs is not installed; the message names the command that installs it."""


def all_checks(layers: Iterable[str] | None = None) -> tuple[Check, ...]:
    """Return the checks of some layers, or of all, in the order in which they run.

    Raises:
        ValueError: There is no such layer.
        MissingPackage: A package is missing that a layer needs.
    """
    chosen = LAYERS if layers is None else tuple(layers)
    if unknown := [name for name in chosen if name not in LAYERS]:
        raise ValueError(f"there is no layer {unknown[0]!r}; there are {', '.join(LAYERS)}")
    return tuple(check for name in LAYERS if name in chosen for check in _checks(name))


def _checks(layer: str) -> tuple[Check, ...]:
    name = f"{__name__}.{layer}"
    try:
        checks: tuple[Check, ...] = import_module(name).CHECKS
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing == "toolfold_specs":
            raise
        raise MissingPackage(
            f"The layer {layer!r} needs the package {missing!r}, which is not installed. Install it with: {INSTALL}"
        ) from error
    return checks
