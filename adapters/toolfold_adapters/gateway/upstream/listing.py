"""Asks an upstream what it offers (SPEC GWY-1, GWY-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
from attrs import evolve

from toolfold import ProtocolError
from toolfold.spi import table

from ..definitions import LISTS as FIELDS
from ..definitions import Definitions, name_of
from .cache import Known
from .wire import NotMcp, Wire, is_missing

LISTS = {
    "tools": ("tools/list", "tools"),
    "prompts": ("prompts/list", "prompts"),
    "resources": ("resources/list", "resources"),
    "resource_templates": ("resources/templates/list", "resourceTemplates"),
}
"""What definitions have: by which method it is listed, and where in its result the list is."""
CHANGES = frozenset(
    {
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/subscriptions/acknowledged",
    }
)
LIST_SECONDS = 10.0
"""How long a server may take to list what it has beside tools."""
MOST_PAGES = 1000
"""How many pages of a list are asked for; a server that has more has none that end."""


async def known_of(wire: Wire) -> Known:
    """Return what a server offers over a connection.

    A list of anything but tools that it does not give is left out, with a warning.

    Raises:
        NotMcp: The list of tools is none.
        ProtocolError, ConnectionLost: It refused to list its tools, or is gone.
    """
    facts = wire.facts
    tools, warnings = _callable(wire, await _list(wire, "tools"))
    found = {kind: await _list_beside(wire, kind, warnings) for kind in LISTS if kind != "tools"}
    if wire.stray:
        warnings.append(
            f"The server {_text(facts.info, 'name')!r} is untidy. It wrote {wire.stray} line(s) to its stdout that are "
            "no messages of the protocol."
        )
    definitions = Definitions(
        name=_text(facts.info, "name"),
        title=_text(facts.info, "title") or None,
        version=_text(facts.info, "version"),
        instructions=facts.instructions,
        tools=tools,
        prompts=found["prompts"],
        resources=found["resources"],
        resource_templates=found["resource_templates"],
        warnings=tuple(warnings),
    )
    return Known(
        definitions=definitions,
        modern=facts.modern,
        able=tuple(sorted(wire.capabilities)),
        capabilities=dict(facts.capabilities),
    )


async def _list_beside(wire: Wire, kind: str, warnings: list[str]) -> list[Any]:
    """Return the definitions on all pages of a list that is not needed, or note in `warnings` why there is none."""
    method = LISTS[kind][0]
    reason = f"did not answer {method} within {LIST_SECONDS:g} seconds"
    with anyio.move_on_after(LIST_SECONDS):
        try:
            return await _list(wire, kind)
        except ProtocolError as error:
            reason = f"answered {method} with the error {error.code} ({error.message})"
        except NotMcp as error:
            reason = f"gives no such list: {error}"
    warnings.append(f"The server {_text(wire.facts.info, 'name')!r} {reason}, so it is served without that.")
    return []


async def _list(wire: Wire, kind: str) -> list[Any]:
    """Return the definitions on all pages of a list; there is none of what the server does not claim to have."""
    method, key = LISTS[kind]
    if kind != "tools" and method.partition("/")[0] not in wire.facts.capabilities:
        return []
    definitions: list[Any] = []
    params: dict[str, Any] = {}
    seen: set[str] = set()
    for _ in range(MOST_PAGES):
        try:
            page = await wire.request(method, params)
        except ProtocolError as error:
            if is_missing(error) and not seen:
                return []
            raise
        if not isinstance(page.get(key), list):
            raise NotMcp(f'its answer to {method} has no list "{key}"')
        definitions += page[key]
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str) or cursor in seen:
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    return definitions


def learn(wire: Wire, definitions: Definitions) -> None:
    """Prepare a connection for calls of tools whose definitions came over another one."""
    _callable(wire, definitions.tools)


def merged(known: Definitions, before: Definitions | None, now: Definitions) -> Definitions:
    """Return what is known of a server after one connection had first `before` and then `now`."""
    changed: dict[str, Any] = {}
    for kind, field in FIELDS.items():
        newest = now.by_name(kind)
        gone = (before or Definitions()).by_name(kind).keys() - newest.keys()
        retained = {name: one for name, one in known.by_name(kind).items() if name not in gone}
        changed[field] = [*(retained | newest).values()]
    return evolve(known, **changed)


def _callable(wire: Wire, tools: Any) -> tuple[list[Any], list[str]]:
    """Return the tools that may be called, and a warning for each that the specification says to leave out."""
    usable: list[Any] = []
    warnings: list[str] = []
    learned: set[str] = set()
    for given in tools:
        name, schema = name_of("tool", given), (table(given) or {}).get("inputSchema")
        known = name is not None and name not in learned and isinstance(schema, dict)
        if known and (problem := wire.learn_headers(str(name), schema)):
            warnings.append(f"The tool {name!r} is left out: {problem}.")
        else:
            usable.append(given)
            learned |= {name} if name is not None else set()
    return usable, warnings


def _text(info: Mapping[str, Any], key: str) -> str:
    value = info.get(key)
    return value if isinstance(value, str) else ""
