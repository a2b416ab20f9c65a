"""What upstreams offer: asked for, or as they offered it when they were last asked (SPEC GWY-1, GWY-4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import anyio
from attrs import asdict, evolve, frozen
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from toolfold import ProtocolError
from toolfold.spi import table

from ..config.settings import UpstreamConfig
from ..definitions import LISTS as FIELDS
from ..definitions import Definitions, name_of
from ..files import Files
from .life import NotMcp, stray_warning
from .wire import Wire, is_missing

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


@frozen(kw_only=True)
class Known:
    """What is known of an upstream.

    Attributes:
        definitions: What it offers.
        modern: Whether its era is that without sessions.
        able: What the client could do that this was offered to; a server may offer less to one that can do less.
        capabilities: What the upstream says that it can do.
    """

    definitions: Definitions
    modern: bool
    able: tuple[str, ...]
    capabilities: Mapping[str, Any]


async def known_of(wire: Wire) -> Known:
    """Return what a server offers over a connection.

    A list of anything but tools that it does not give is left out, with a warning.

    Raises:
        NotMcp: The list of tools is none.
        ProtocolError, ConnectionLost: It refused to list its tools, or is gone.
    """
    facts = wire.facts
    tools, warnings = _callable(wire, await _list(wire, "tools"))
    beside: dict[str, Any] = {kind: await _list_beside(wire, kind, warnings) for kind in LISTS if kind != "tools"}
    if wire.stray:
        warnings.append(f"The server {_text(facts.info, 'name')!r} is untidy. {stray_warning(wire.stray)}")
    definitions = Definitions(
        name=_text(facts.info, "name"),
        title=_text(facts.info, "title") or None,
        version=_text(facts.info, "version"),
        instructions=facts.instructions,
        tools=tools,
        warnings=tuple(warnings),
        **beside,
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


# -- stored for the next start ----------------------------------------------------------------------------------------


class _Definitions(TypedDict):
    name: str
    title: str | None
    version: str
    instructions: str | None
    tools: list[Any]
    prompts: list[Any]
    resources: list[Any]
    resource_templates: list[Any]
    warnings: tuple[str, ...]


class _File(TypedDict):
    format: Literal[1]
    definitions: _Definitions
    modern: bool
    able: tuple[str, ...]
    capabilities: dict[str, Any]


_FILE = TypeAdapter(_File)


class DefinitionCache:
    """What upstreams offered when they were last asked; where that can't be read, they are asked instead.

    It is stored by all that decides on what answers: the command or URL, the folder, and the environment and headers
    that an upstream is given, whose values are not stored.

    Args:
        folder: Where the files are; without one nothing is stored.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._files = Files(folder, "cached definitions", _FILE)

    def read(self, config: UpstreamConfig) -> Known | None:
        """Return what is stored of an upstream, or `None`."""
        if (stored := self._files.read(_key(config))) is None:
            return None
        definitions = Definitions(**stored["definitions"])
        return Known(
            definitions=definitions,
            modern=stored["modern"],
            able=stored["able"],
            capabilities=stored["capabilities"],
        )

    def write(self, config: UpstreamConfig, known: Known) -> None:
        """Store what is known of an upstream."""
        stored: Any = {"format": 1, **asdict(known)}
        self._files.write(_key(config), stored)


def _key(config: UpstreamConfig) -> str:
    """Return all that decides on what answers."""
    given: dict[str, Any] = {
        "command": config.command,
        "url": config.url,
        "cwd": config.cwd,
        "env": sorted(config.env.items()),
        "headers": sorted(config.headers.items()),
        "mode": config.mode,
    }
    return json.dumps(given)


def default_folder() -> Path:
    """Return where definitions are cached on this machine, by its conventions."""
    from platformdirs import user_cache_path

    return user_cache_path("toolfold") / "definitions"
