"""Composite tools in one view: restricted to their available modes, and rendered with their counts (SPEC 13)."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from attrs import evolve

from .._catalog.components import Component
from .._catalog.modes import restricted
from .._memo import Memo
from .._schema.arguments import Arguments
from .visibility import RequestView

_RESTRICTED = Memo[tuple[str, ...], Arguments](most=256)
"""The restricted arguments of a tool: those of all subsets of eight modes."""


def restrict(component: Component, view: RequestView) -> Component:
    """Return `component` as it can be called in `view`: other modes are no values of its parameter (SPEC MOD-4)."""
    component = component.origin or component
    if component.modes is None or component.arguments is None:
        return component
    names = view.modes_of(component)
    if len(names) == len(component.modes.modes):
        return component
    narrow = partial(restricted, component.name, component.arguments, component.modes.parameter, names)
    found = _RESTRICTED.of(component.arguments.memo, names, narrow)
    return evolve(
        component, definition={**component.definition, "inputSchema": found.schema}, arguments=found, origin=component
    )


def render(component: Component, view: RequestView) -> Component:
    """Return a component as `view` shows it: with its available modes and their counts (SPEC MOD-1, MOD-2).

    Anything but a composite tool is returned unchanged.
    """
    component = component.origin or component
    offered = restrict(component, view)
    if component.modes is None or not component.modes.counted:
        return offered
    names = view.modes_of(component)
    counts = {name: count for name in names if (count := _count(component, name, view)) is not None}
    meta = {**component.definition.get("_meta", {}), "available_modes": list(names), "data_counts": counts}
    return evolve(offered, definition={**offered.definition, "_meta": meta}, origin=component)


def _count(component: Component, name: str, view: RequestView) -> int | None:
    """Return how much there is for a mode, or `None` if it doesn't say; a count that fails affects nothing else."""
    count = component.modes.modes[name].count if component.modes is not None else None
    return None if count is None else view.ask(component, lambda: _number(count(view.seen)), otherwise=None, mode=name)


def _number(value: Any) -> int | None:
    """Return what a count answered, or raise `TypeError`."""
    if inspect.iscoroutine(value):
        value.close()
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"the count answered with a {type(value).__name__}, and must answer with an int")
    return int(value)
