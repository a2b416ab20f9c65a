"""The catalog tool: all that can be called, listed or hidden, with full definitions (SPEC 16).

It is a tool like any other, registered by `ToolSet.register_catalog_tool`. It decides nothing: what is available is
`visibility.available`'s answer for the view that the call was checked against, and what is hidden `is_hidden`'s, so
under a handle it answers for the state of that handle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._catalog.components import Component, Kind
from .._session.context import Context
from .._values import frozen
from .._view.visibility import RequestView, available, is_hidden, render
from .options import ToolOptions

SECTIONS: Mapping[str, Kind] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "resource_templates": "resource_template",
}
"""The sections of an answer, in order, and what each holds."""

ARGUMENTS: Mapping[str, Any] = {
    "type": {
        "type": "enum",
        "values": [*SECTIONS, "all"],
        "default": "all",
        "description": "Which section to show.",
    },
    "query": {"type": "string", "description": "Show only what has this text in its name, description or URI."},
    "category": {"type": "string", "description": "Show only tools of this category."},
    "include_hidden": {"type": "boolean", "default": True, "description": "Also show what lists leave out."},
}
"""The arguments, as a field specification (SPEC CAT-1)."""

DESCRIPTION = "Find what can be used now, with full definitions: tools, prompts and resources, listed or not."

OPTIONS: ToolOptions = {
    "description": DESCRIPTION,
    "input": ARGUMENTS,
    "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    "run_in_thread": False,
}
"""How it is registered unless its author says otherwise."""


@frozen
class CatalogTool:
    """The handler of a catalog tool.

    Everything that is available is included: what users registered, the catalog tool itself, and the tools that open
    and close groups, for they too can be called. So without hidden entries it has what the lists have.

    Args:
        everything: Whether what is not available now is included too, such as the tools of closed groups.
    """

    everything: bool = False

    def __call__(self, arguments: dict[str, Any], context: Context) -> dict[str, list[dict[str, Any]]]:
        """Return the requested sections, each in ascending order of name (SPEC CAT-1)."""
        asked = arguments["type"]
        return {
            section: self._entries(kind, arguments, context)
            for section, kind in SECTIONS.items()
            if asked in (section, "all")
        }

    def _entries(self, kind: Kind, arguments: Mapping[str, Any], context: Context) -> list[dict[str, Any]]:
        view = context.request_view
        held = view.snapshot.catalog.components[kind].by_name
        entries: list[dict[str, Any]] = []
        for name in sorted(held):
            component = self._offered(held[name], view)
            if component is None or not _matches(component, arguments, context):
                continue
            hidden = is_hidden(held[name], view)
            if arguments["include_hidden"] or not hidden:
                entries.append(_entry(component, hidden, context))
        return entries

    def _offered(self, component: Component, view: RequestView) -> Component | None:
        """Return `component` as offered now; if it is not, as registered where everything is included, else `None`."""
        if available(component, view):
            return render(component, view)
        return component if self.everything else None


def _matches(component: Component, arguments: Mapping[str, Any], context: Context) -> bool:
    if component.kind == "tool" and "category" in arguments and not _is_of(component, arguments["category"]):
        return False
    query = arguments.get("query", "").casefold()
    return any(query in text.casefold() for text in _texts(component, context))


def _is_of(component: Component, category: str) -> bool:
    return component.category is not None and component.category.casefold() == category.casefold()


def _texts(component: Component, context: Context) -> tuple[str, ...]:
    """Return what a query is looked for in: the name as the caller knows it, the description, and the URI."""
    name = context.to_wire(component.name) if component.kind == "tool" else str(component.definition["name"])
    return name, component.description, component.name if component.kind in ("resource", "resource_template") else ""


def _entry(component: Component, hidden: bool, context: Context) -> dict[str, Any]:
    category = {"category": component.category} if component.category is not None and component.kind == "tool" else {}
    return {**component.render(context.to_wire), "hidden": hidden, **category}
