"""The layers of the kit, each a module with `CHECKS`, in the order in which they run (SPEC CNF-7).

exhaustive              every transition of every small system
vectors                 cases as data
stateful                random histories by Hypothesis; `random_systems` are what they run on, `seeded` its choices
random_systems, seeded  systems of up to ten groups, and a backend whose choices depend on a seed
schedules               overlapping operations with blocked hooks
blocking, cancelling    their building blocks, and transitions that are cancelled
changing                the system and facts change while a transition is blocked
children                sessions under a profile that is within that of a parent
stopping                a process stops in the middle of a transition, and another goes on
histories               random concurrent histories
wire                    what is only visible over a protocol
over_mcp, delivery      how its checks see a run, and those of sessions, handles and lists
isolation               what one client does is nothing to another
groups                  what the draft extension for groups leaves open
tags                    definition tags, as drafted, of servers that have them
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
