"""Views of tools, as MCP Apps have them: resources that hosts render beside a result (SPEC GWY-18).

A tool names its view in its `_meta`, by a URI of the scheme `ui`. Servers that know nothing of one another may have one
URI for different views. The first server of the configuration has it as it is, and each other one has a URI of its own
here, in what it lists and answers. A view calls tools of its server by the server's own names: it knows no others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import evolve

from toolfold.spi import array, table

from .grouping import Placed

SCHEME = "ui://"
KEYS = ("ui/resourceUri", "openai/outputTemplate")
"""The keys of `_meta` under which hosts find the view of a tool, beside `resourceUri` in `ui`."""

Renamed = Mapping[str, str]
"""By the URI that a server has: the one that it has here."""


def views_named(given: Mapping[str, Any]) -> list[Any]:
    """Return the URIs of the views that the `_meta` of a tool, a result or a block names; no list need have them."""
    meta = table(given.get("_meta")) or {}
    found = [(table(meta.get("ui")) or {}).get("resourceUri"), *(meta.get(key) for key in KEYS)]
    return [uri for uri in found if uri is not None]


def renamed_views(placed: Iterable[Placed]) -> dict[str, dict[str, str]]:
    """Return the views that have another URI here, by their servers: those of which an earlier server has the URI."""
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for one in placed:
        named = [one.name] if one.kind == "resource" else views_named(one.definition) if one.kind == "tool" else []
        for uri in named:
            if isinstance(uri, str) and uri.startswith(SCHEME) and one.server not in owners[uri]:
                owners[uri].append(one.server)
    renamed: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for uri, servers in owners.items():
        for server in servers[1:]:
            renamed[server][uri] = f"{SCHEME}{server}+{uri.removeprefix(SCHEME)}"
    return dict(renamed)


def with_own_views(placed: Sequence[Placed], renamed: Mapping[str, Renamed]) -> Iterator[Placed]:
    """Yield what servers offer, with the URIs that their views have here."""
    for one in placed:
        own = renamed.get(one.server, {})
        if one.kind == "resource" and one.name in own:
            uri = own[one.name]
            yield evolve(one, name=uri, definition={**one.definition, "uri": uri})
        elif one.kind == "tool" and any(uri in own for uri in views_named(one.definition) if isinstance(uri, str)):
            yield evolve(one, meta={**_meta_here(table(one.definition.get("_meta")) or {}, own), **one.meta})
        else:
            yield one


def answer_here(answer: Mapping[str, Any], own: Renamed) -> dict[str, Any]:
    """Return an answer of a server with the URIs that its views have here, wherever it names them."""
    given = _named_here(answer, own)
    for key in ("content", "contents"):
        if (blocks := array(answer.get(key))) is not None:
            given[key] = [block if (one := table(block)) is None else _block_here(one, own) for block in blocks]
    return given


def _block_here(block: Mapping[str, Any], own: Renamed) -> dict[str, Any]:
    given = _named_here(block, own)
    if (uri := own.get(str(block.get("uri")))) is not None:
        given["uri"] = uri
    if (resource := table(block.get("resource"))) is not None:
        given["resource"] = _block_here(resource, own)
    return given


def _named_here(given: Mapping[str, Any], own: Renamed) -> dict[str, Any]:
    meta = table(given.get("_meta"))
    return dict(given) if meta is None else {**given, "_meta": _meta_here(meta, own)}


def _meta_here(meta: Mapping[str, Any], own: Renamed) -> dict[str, Any]:
    changed: dict[str, Any] = {key: own.get(str(meta[key]), meta[key]) for key in KEYS if key in meta}
    if (ui := table(meta.get("ui"))) is not None and "resourceUri" in ui:
        changed["ui"] = {**ui, "resourceUri": own.get(str(ui["resourceUri"]), ui["resourceUri"])}
    return {**meta, **changed}


def callable_by_views(one: Placed) -> bool:
    """Return whether a tool may be called by a view of its server, which is so unless it says that models alone may."""
    ui = table((table(one.definition.get("_meta")) or {}).get("ui")) or {}
    visibility = array(ui.get("visibility"))
    return visibility is None or "app" in visibility
