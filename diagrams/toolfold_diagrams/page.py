"""One HTML file that shows a tool set, and in which a reader can open and close its groups (SPEC DIA-1, DIA-3).

The page decides nothing of its own: it is given the core's transition table, the masks of the catalog and the rules of
its tools as data, and `page_parts/machine.js` runs them. Texts reach the page as data too, and are put into it as texts
alone; a policy in its head allows only its own script and style, and no requests.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any

from attrs import field, frozen

from toolfold import Catalog, Component, ParentInactive, QuotaExceeded, Snapshot
from toolfold.machine import TABLE, Row, bits

from .diagram import Source, snapshot_of
from .palette import EXCLUSION, INK, LOOKS, REFUSED
from .text import printable, xml

PARTS = files("toolfold_diagrams") / "page_parts"
SCRIPTS = ("machine.js", "model.js", "tree.js", "detail.js", "page.js")
"""One script in five files: the rules, what the page knows, the tree, the chosen group, the steps and the start."""
_TEXTS = ("name", "title", "description")
_SCHEMAS = ("inputSchema", "outputSchema")
_SLOT = re.compile(r"\{\{(\w+)\}\}")


@frozen
class Offer:
    """What the clients of a server get of a catalog.

    Attributes:
        tokens: The approximate tokens of definitions as clients get them, by the name of the tool; of others, those of
            the definition that was registered.
        beside: The tools that the server lists beside those of the catalog, such as `call_tool`.
    """

    tokens: Mapping[str, int] = field(factory=dict[str, int])
    beside: tuple[Component, ...] = ()


CATALOG_ALONE = Offer()


def page(source: Source, *, title: str | None = None, offer: Offer = CATALOG_ALONE) -> str:
    """Return one HTML file that shows groups and tools, and in which groups can be opened and closed.

    It starts from the state of `source` (SPEC DIA-3), and needs no network. The same input gives the same text.

    SPEC DIA-1.

    Args:
        source: What to show.
        title: What the page is called; the catalog's name otherwise.
        offer: What clients get of it; by default, the definitions as they were registered, and nothing beside them.
    """
    snapshot = snapshot_of(source)
    name = printable(title or snapshot.catalog.name)
    style = f"{palette_css()}\n{page_part('page.css')}"
    script = "\n".join(map(page_part, SCRIPTS))
    slots = {
        "title": xml(name).encode("ascii", "xmlcharrefreplace").decode(),
        "policy": _policy(style, script),
        "style": style,
        "script": script,
        "data": json.dumps(page_data(snapshot, name, offer), separators=(",", ":")).replace("<", "\\u003c"),
    }
    return _SLOT.sub(lambda slot: slots[slot[1]], page_part("page.html"))


def page_data(snapshot: Snapshot, name: str, offer: Offer = CATALOG_ALONE) -> dict[str, Any]:
    """Return what the page is made from, as JSON data: groups by their numbers, tools in ascending order of name."""
    catalog = snapshot.catalog
    beside = {component.name: component for component in offer.beside}
    tools = {**catalog.tools, **beside}
    return {
        "name": name,
        "table": _table(),
        "marks": {state.value: look.mark for state, look in LOOKS.items()},
        "words": {state.value: state.word for state in LOOKS},
        "limit": catalog.max_active,
        "room": None if (length := _length(catalog)) is None else length.most - length.base,
        "evicts": catalog.evict_oldest,
        "refusals": _refusals(catalog),
        "groups": [_group(catalog, number) for number in range(len(catalog.groups))],
        "tools": [
            {
                **_tool(catalog, tools[name]),
                "beside": name in beside,
                "tokens": offer.tokens.get(name, tools[name].tokens),
            }
            for name in sorted(tools, key=catalog.spoken)
        ],
        "states": [snapshot.configuration.state(number).value for number in range(len(catalog.groups))],
        "order": list(snapshot.configuration.order),
    }


def _table() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the transition table as data: for each state and event its rows."""
    table: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for (state, event), rows in TABLE.items():
        table.setdefault(state.value, {})[event.value] = [_row(row) for row in rows]
    return table


def _row(row: Row) -> dict[str, Any]:
    return {
        "guard": row.guard.value,
        "target": row.target.value,
        "effect": row.effect.value,
        "emits": [{"event": emission.event.value, "to": emission.to.value} for emission in row.emits],
    }


def _length(catalog: Catalog) -> Any:
    """Return the limit on the length of the list, if there is one."""
    return None if catalog.quota is None else catalog.quota.length


def _refusals(catalog: Catalog) -> dict[str, str]:
    """Return the messages of the core's refusals, with `{group}` and `{parent}` for the groups."""
    remedy, length = "close a group before you open '{group}'", _length(catalog)
    return {
        "ParentInactive": str(ParentInactive("{group}", "{parent}")),
        "QuotaExceeded": str(QuotaExceeded("open groups", catalog.max_active or 0, remedy)),
        "ListTooLong": str(QuotaExceeded("tokens in the list", length.most if length else 0, remedy)),
    }


def _group(catalog: Catalog, number: int) -> dict[str, Any]:
    group = catalog.groups[number]
    return {
        "path": group.path,
        "title": group.title,
        "description": group.description,
        "weight": 0 if (length := _length(catalog)) is None else length.weights[number],
        "ancestors": bits(catalog.forest.ancestors[number]),
        "descendants": bits(catalog.forest.descendants[number]),
        "partners": bits(catalog.forest.partners[number]),
        "pinned": group.pinned,
        "hooks": group.has_hooks,
        "opensOn": group.opens_on,
        "transient": group.transient,
    }


def _tool(catalog: Catalog, component: Component) -> dict[str, Any]:
    return {
        "name": catalog.spoken(component.name),
        "title": component.title,
        "description": component.description,
        "group": catalog.index.get(component.group or ""),
        "control": component.control is not None,
        "hidden": component.never_listed,
        "rule": _offered(component, catalog.index),
        "changing": not component.is_settled,
        "parts": _parts(component.definition),
    }


def _parts(definition: Mapping[str, Any]) -> list[list[str]]:
    """Return the rest of a definition, the schemas first, each as JSON text: a page would round its numbers."""
    ordered = dict.fromkeys((*_SCHEMAS, *definition))
    return [[key, _compact(definition[key])] for key in ordered if key in definition and key not in _TEXTS]


def _offered(component: Component, index: Mapping[str, int]) -> list[Any]:
    """Return when a tool is listed or, if it never is, callable; a composite tool also needs a mode."""
    rule = _rule(component.listing_rule.form(), index)
    modes = component.modes.modes.values() if component.modes is not None else ()
    return ["both", rule, ["when"]] if modes and all(mode.available for mode in modes) else rule


def _rule(form: tuple[Any, ...], index: Mapping[str, int]) -> list[Any]:
    match form:
        case ("group", path):
            return ["group", index.get(path, -1)]  # a group that is not in this catalog is never active
        case ("both", ("always",), inner) | ("not", ("not", inner)):
            return _rule(inner, index)
        case _:
            return [form[0], *(_rule(part, index) for part in form[1:])]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def palette_css() -> str:
    """Return the colours of groups as variables of CSS."""
    looks = [f"--{state.value}-fill:{look.fill};--{state.value}-border:{look.border}" for state, look in LOOKS.items()]
    return ":root{" + ";".join([*looks, f"--ink:{INK}", f"--exclusion:{EXCLUSION}", f"--refused:{REFUSED}"]) + "}"


def _policy(style: str, script: str) -> str:
    """Return a Content-Security-Policy that allows nothing but this style and this script."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}"


def page_part(name: str) -> str:
    """Return a file that the page is made of."""
    return (PARTS / name).read_text(encoding="utf-8")
