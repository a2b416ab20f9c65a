"""How the caller of a request opens a group: by which tool, or on which event (SPEC CALL-1, CTL-5).

Hints and refusals use the caller's own names, and name only what the caller can do now: a model that reads of a tool
that it does not have can only guess.
"""

from __future__ import annotations

import json

from .._catalog.components import Component
from .._catalog.rules import required_groups
from .._names import SEPARATOR, canonical_key
from ..machine import bits
from .visibility import RequestView, available, is_hidden


def topmost_inactive(component: Component, view: RequestView) -> str | None:
    """Return the group to open first for `component` to be available; `None` if opening groups would not help."""
    catalog, forest = view.snapshot.catalog, view.snapshot.catalog.forest
    missing = sorted(
        (path for path in required_groups(component.rule) if not view.snapshot.is_active(path)), key=canonical_key
    )
    if not missing or not catalog.index.keys() >= set(missing):
        return None  # none is missing, or one that does not exist here (SPEC PRO-1)
    number = forest.index[missing[0]]
    inactive = (forest.ancestors[number] | 1 << number) & ~view.snapshot.configuration.active
    return forest.paths[bits(inactive)[0]]


def needed(path: str, view: RequestView) -> str:
    """Return a clause that says that a group is needed, and what opens it, if the caller has anything that does."""
    how = opener(path, view)
    return f"it needs the group {path}: {how}" if how else f"it needs the group {path}, which is not open"


def opener(path: str, view: RequestView) -> str | None:
    """Return a clause that says what opens a group now, with the caller's names of tools; `None` if nothing does."""
    catalog = view.snapshot.catalog
    group, loader = catalog.group(path), catalog.loader
    if activator := _offered(f"{path}{SEPARATOR}activate", view):
        return f"call {view.to_wire(activator.name)} first"
    if group.controls and loader is not None:
        argument = next(iter(loader.input_schema["properties"]))
        return f"call {view.to_wire(loader.name)} {json.dumps({argument: path})} first"
    if group.opens_on is not None and (event := _offered(group.opens_on, view)):
        return f"it opens when {view.to_wire(event.name)} succeeds"
    return None


def _offered(name: str, view: RequestView) -> Component | None:
    """Return a tool that the caller can call and is shown; a hint must not give away a hidden one (SPEC VIS-6)."""
    component = view.snapshot.catalog.tools.get(name)
    return (
        component if component is not None and not is_hidden(component, view) and available(component, view) else None
    )
