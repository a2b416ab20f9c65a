"""Composite tools in one view: restricted to their available modes, and rendered with their counts (SPEC 13)."""

from __future__ import annotations

import inspect
from typing import Any

from attrs import evolve

from .._catalog.components import Spec
from .._catalog.modes import restricted
from .._schema.arguments import Arguments
from .._usercode import is_failure
from .visibility import RequestView

REMEMBERED = 256
"""How many narrowed schemas are kept for a tool: those of all subsets of eight modes."""


def narrowed(spec: Spec, view: RequestView) -> Spec:
    """Return `spec` as it can be called in `view`: other modes are no values of its parameter (SPEC MOD-4)."""
    spec = spec.origin or spec
    if spec.modes is None or spec.arguments is None:
        return spec
    names = view.modes_of(spec)
    if len(names) == len(spec.modes.modes):
        return spec
    memo = spec.arguments.memo
    found: Arguments | None = memo.get(names)
    if found is None:
        if len(memo) >= REMEMBERED:
            memo.clear()
        found = memo[names] = restricted(spec.name, spec.arguments, spec.modes.parameter, names)
    return evolve(spec, definition={**spec.definition, "inputSchema": found.schema}, arguments=found, origin=spec)


def shown(spec: Spec, view: RequestView) -> Spec:
    """Return `spec` as clients are shown it in `view`: with its available modes and their counts (SPEC MOD-1, MOD-2).

    Anything but a composite tool comes back as it is.
    """
    spec = spec.origin or spec
    offered = narrowed(spec, view)
    if spec.modes is None or not spec.modes.counted:
        return offered
    names = view.modes_of(spec)
    counts = {name: count for name in names if (count := _count(spec, name, view)) is not None}
    meta = {**spec.definition.get("_meta", {}), "available_modes": list(names), "data_counts": counts}
    return evolve(offered, definition={**offered.definition, "_meta": meta}, origin=spec)


def _count(spec: Spec, name: str, view: RequestView) -> int | None:
    """Return how much there is for a mode, or `None` if it doesn't say; a count that fails costs itself alone."""
    count = spec.modes.modes[name].count if spec.modes is not None else None
    if count is None:
        return None
    try:
        value: Any = count(view)
        if inspect.iscoroutine(value):
            value.close()
        if not isinstance(value, int) or isinstance(value, bool):
            raise TypeError(f"the count answered with a {type(value).__name__}, and must answer with an int")
    except BaseException as error:
        if not is_failure(error):
            raise
        view.predicate_failed(spec, error, name)
        return None
    return int(value)
