"""What an upstream offers: asked for over a connection, and which of it can be registered (SPEC GWY-1, REG-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import anyio
from attrs import evolve, field
from mcp_types import METHOD_NOT_FOUND
from pydantic_core import to_json

from toolfold import ProtocolError
from toolfold.spi import KINDS, Kind, array, frozen, quoted, table

from ...compiling import compile_problem
from ...mcp.extensions.offered_groups import MOST_BYTES, MOST_ITEMS, OfferedGroup, OfferedGroups, Room, take_pages
from ...names import GROUPS_CHANGED, LISTS
from ..beside import beside, size_of
from .life import NotMcp, unparsed_warning
from .wire import Wire

Table = Mapping[str, Any]
CHANGES = frozenset(
    {
        *(one.changed for one in LISTS.values()),
        GROUPS_CHANGED,
        "notifications/subscriptions/acknowledged",
    }
)
LIST_SECONDS = 10.0
"""How long a server may take to list what it has beside tools."""
MOST_PAGES = 1000
"""How many pages of a list are asked for; a server that has more has none that end."""
_OBJECT: Table = {"type": "object"}
_MOST_BYTES = 1_000_000
"""How many bytes a part of a definition may have: no more can be registered, and any work on it would take long."""
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
"""What a tool claims of itself; without them it is taken for one that changes things."""


@frozen(kw_only=True)
class Definitions:
    """What one upstream offers, in its own words: as it answered just now, or when it was last asked.

    `tools`, `prompts`, `resources` and `resource_templates` are definitions in the shape of the MCP specification, and
    are not trusted to be; what only `groups` have is among them. `warnings` are sentences for the operator, on what is
    wrong with them, and `cut` is how many definitions are left out, at least, since it lists more than is kept.
    `by_caller` says that they are what several callers were listed, each of whom is offered his own (SPEC GWY-19).
    """

    name: str = ""
    title: str | None = None
    version: str = ""
    instructions: str | None = None
    tools: Sequence[Any] = ()
    prompts: Sequence[Any] = ()
    resources: Sequence[Any] = ()
    resource_templates: Sequence[Any] = ()
    groups: tuple[OfferedGroup, ...] = ()
    warnings: tuple[str, ...] = ()
    cut: int = 0
    by_caller: bool = False

    @cached_property
    def size(self) -> int:
        """How much work all of them are, see `size_of`."""
        return size_of(*(self.of(kind) for kind in KINDS))

    def of(self, kind: Kind) -> Sequence[Any]:
        """Return the definitions of a kind."""
        found: Sequence[Any] = getattr(self, f"{kind}s")
        return found

    def by_name(self, kind: Kind) -> dict[str, Table]:
        """Return the definitions of a kind by what the upstream calls them: of two of one name, the first counts."""
        found: dict[str, Table] = {}
        for given in self.of(kind):
            if (name := name_of(kind, given)) is not None:
                found.setdefault(name, given)
        return found


def name_of(kind: Kind, definition: Any) -> str | None:
    """Return what an upstream calls something by its definition, or `None` if that has no name."""
    name: Any = (table(definition) or {}).get(LISTS[kind].identified_by)
    return name if isinstance(name, str) and name else None


@frozen(kw_only=True)
class Known:
    """What is known of an upstream.

    Attributes:
        definitions: What it offers.
        modern: Whether its era is that without sessions.
        able: What the client could do that this was offered to; a server may offer less to one that can do less.
        capabilities: What the upstream says that it can do.
        whole: Whether it has given each list that it says it has.
        public: Whether it says that its lists are the same for all its users.
    """

    definitions: Definitions
    modern: bool
    able: tuple[str, ...]
    capabilities: Mapping[str, Any]
    whole: bool = True
    public: bool = False

    @property
    def complete(self) -> bool:
        """Whether it may be taken for all that there is: no list is missing, and one that has tools lists some.

        A server that can't reach what is behind it often answers with an empty list, which would stay (SPEC GWY-4).
        """
        return self.whole and bool(self.definitions.tools or "tools" not in self.capabilities)


# -- asked for --------------------------------------------------------------------------------------------------------


async def known_of(wire: Wire) -> Known:
    """Return what a server offers over a connection.

    A list of anything but tools that it does not give is left out, with a warning.

    Raises:
        NotMcp: The list of tools is none.
        ProtocolError, ConnectionLost: It refused to list its tools, or is gone.
    """
    facts = wire.facts
    warnings: list[str] = []
    missing: list[str] = []
    room = Room()
    offered = await _groups(wire, room, warnings, missing)
    found: dict[str, Any] = {"tool": await _list(wire, "tool", room, warnings)}
    for kind in KINDS:
        if kind != "tool":
            found[kind] = await _list_beside(wire, kind, room, warnings, missing)
        named = {name_of(kind, one) for one in found[kind]}
        found[kind] += [one for name, one in offered.contents[kind].items() if name not in named]
    found["tool"], problems = await beside(size_of(found["tool"]), learn, wire, found["tool"])
    warnings += problems
    if room.full:
        warnings.append(
            f"The server {facts.info.get('name', '')!r} lists more than {MOST_ITEMS:,} definitions or "
            f"{MOST_BYTES // 1024 // 1024} MB in all, so {room.left_out:,} or more are left out; have it offer less."
        )
    if wire.unparsed:
        warnings.append(f"The server {facts.info.get('name', '')!r} is untidy. {unparsed_warning(wire.unparsed)}")
    definitions = Definitions(
        name=_text(facts.info.get("name")) or "",
        title=_text(facts.info.get("title")) or None,
        version=_text(facts.info.get("version")) or "",
        instructions=facts.instructions,
        groups=tuple(offered.groups.values()),
        warnings=(*missing, *warnings),
        cut=room.left_out,
    )
    return Known(
        definitions=evolve(definitions, **{f"{kind}s": listed for kind, listed in found.items()}),
        modern=facts.modern,
        able=tuple(sorted(wire.capabilities)),
        capabilities=dict(facts.capabilities),
        whole=not missing,
        public=room.public,
    )


async def _list_beside(wire: Wire, kind: Kind, room: Room, warnings: list[str], missing: list[str]) -> list[Any]:
    """Return the definitions on all pages of a list that is not needed, or none."""
    found: list[Any] = []

    async def fetch() -> None:
        found.extend(await _list(wire, kind, room, warnings))

    await _beside(wire, LISTS[kind].method, fetch, missing)
    return found


async def _groups(wire: Wire, room: Room, warnings: list[str], missing: list[str]) -> OfferedGroups:
    """Return the groups that a server has by an extension, as far as it lists them in time (SPEC DEL-5)."""
    offered = OfferedGroups(room)
    if wire.groups is not None:
        await _beside(wire, "groups/list", lambda: offered.fetch(wire.request), missing)
    warnings += offered.warnings
    return offered


async def _beside(wire: Wire, method: str, fetch: Callable[[], Awaitable[None]], missing: list[str]) -> None:
    """Fetch what is not needed, or note in `missing` why it is not there."""
    reason = f"did not answer {method} within {LIST_SECONDS:g} seconds"
    with anyio.move_on_after(LIST_SECONDS):
        try:
            await fetch()
            return
        except ProtocolError as error:
            reason = f"answered {method} with the error {error.code} ({error.message})"
        except NotMcp as error:
            reason = f"gives no such list: {error}"
    missing.append(f"The server {wire.facts.info.get('name', '')!r} {reason}, so it is served without that.")


async def _list(wire: Wire, kind: Kind, room: Room, warnings: list[str]) -> list[Any]:
    """Return the definitions on all pages of a list, as far as there is room for them.

    There is none of what the server does not claim to have.
    """
    method, key, *_ = LISTS[kind]
    if kind != "tool" and method.partition("/")[0] not in wire.facts.capabilities:
        return []
    found: list[Any] = []

    async def take(page: Table) -> bool:
        if not isinstance(page.get(key), list):
            raise NotMcp(f'its answer to {method} has no list "{key}"')
        room.public = room.public and page.get("cacheScope") == "public"
        found.extend(await beside(size_of(page[key]), room.fitting, page[key]))
        return not room.full

    try:
        ended = await take_pages(wire.request, method, MOST_PAGES, take)
    except ProtocolError as error:
        if error.code == METHOD_NOT_FOUND:
            return []
        raise
    if not ended:
        name = wire.facts.info.get("name", "")
        warnings.append(
            f"The server {name!r} answers {method} with more than {MOST_PAGES:,} pages, or a cursor that is too long; "
            "the rest is left out."
        )
    return found


def learn(wire: Wire, tools: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Prepare a connection for calls of tools, whichever connection their definitions came over.

    Returns the tools that may be called, and a warning for each that the specification says to leave out.
    """
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


def merged(known: Definitions, before: Definitions | None, now: Definitions) -> Definitions:
    """Return what is known of a server after one connection had first `before` and then `now`."""
    changed: dict[str, Any] = {}
    for kind in KINDS:
        newest = now.by_name(kind)
        gone = (before or Definitions()).by_name(kind).keys() - newest.keys()
        retained = {name: one for name, one in known.by_name(kind).items() if name not in gone}
        changed[f"{kind}s"] = [*(retained | newest).values()]
    groups = [{one.name: one for one in each.groups} for each in (known, before or Definitions(), now)]
    left = {name: one for name, one in groups[0].items() if name not in groups[1]}
    changed["cut"] = max(known.cut, now.cut)
    changed["groups"] = (*(left | groups[2]).values(),)
    return evolve(known, **changed)


def name_of_task(tool: Any) -> str | None:
    """Return the name of a tool that can only be called as a task; `None` if it can be called otherwise."""
    given = table(tool) or {}
    required = (table(given.get("execution")) or {}).get("taskSupport") == "required"
    return name_of("tool", tool) if required else None


# -- what can be registered -------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Usable:
    """The definitions of an upstream that have a name and are JSON: by kind, those by what the upstream calls them.

    `warnings` has a sentence for each of the others. `named` has, by their kind, the names that were there before:
    what they are called here stays, whatever comes now. `without_output` are the tools that are served without their
    output schema, since clients can't compile it (SPEC GWY-20). `size` is how much work they are.
    """

    said: Definitions
    by_kind: Mapping[Kind, Mapping[str, Table]]
    warnings: tuple[str, ...]
    named: Mapping[str, tuple[str, ...]] = field(factory=dict[str, tuple[str, ...]])
    without_output: tuple[str, ...] = ()
    size: int = 0


def usable(said: Definitions) -> Usable:
    """Return the definitions that have a name and are JSON; each that has not, or is not, harms none of the others."""
    warnings = list(said.warnings)
    by_kind: dict[Kind, Mapping[str, Table]] = {kind: _checked(kind, said, warnings) for kind in KINDS}
    tools, given = by_kind["tool"], said.by_name("tool")
    without = (name for name, one in tools.items() if "outputSchema" in _without_nulls(given[name]).keys() - one.keys())
    return Usable(
        said=said,
        by_kind=by_kind,
        warnings=tuple(warnings),
        without_output=tuple(without),
        size=said.size,
    )


def _checked(kind: Kind, said: Definitions, warnings: list[str]) -> dict[str, Table]:
    checked: dict[str, Table] = {}
    counted = said.by_name(kind)
    words = kind.replace("_", " ")
    for position, given in enumerate(said.of(kind), 1):
        name = name_of(kind, given)
        if name is None:
            warnings.append(f"The {words} number {position} of the server's list has no name, so it is left out.")
        elif (definition := counted.pop(name, None)) is None:
            warnings.append(f"The {words} {name!r} is listed more than once; the first is used.")
        elif problem := _problem(definition):
            warnings.append(f"The {words} {name!r} is left out: {problem}.")
        else:
            definition, changed = repaired(definition) if kind == "tool" else (definition, ())
            checked[name] = definition
            if changed:
                text = f"The tool {name!r} is served without what clients would refuse in its {', '.join(changed)}."
                warnings.append(text)
    return checked


def _problem(definition: Table) -> str | None:
    """Return why something is too large, or can't even be measured; the rest is checked when it is registered."""
    try:
        for key, value in definition.items():
            if (size := len(to_json(value))) > _MOST_BYTES:
                return f"its {quoted(key)} has {size:,} bytes, and may have {_MOST_BYTES:,}"
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return None


# -- what makes clients refuse a whole list (SPEC GWY-7) ---------------------------------------------------------------


def repaired(definition: Table) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the definition of a tool that no client refuses, and the fields that had to be changed or left out.

    Clients check the shape of a definition, and strict ones compile its output schema: one wrong field of one tool, and
    they have no tools. Everything else passes on, understood or not. Why a schema does not compile stands beside it.
    """
    given = _without_nulls(definition)
    if (annotations := table(given.get("annotations"))) is not None:
        given["annotations"] = _without_nulls(annotations)
    made = {**given, "inputSchema": _input_schema(given.get("inputSchema"))}
    for key, check in _CHECKS.items():
        if key in made and (value := check(made.pop(key))) is not None:
            made[key] = value
    changed = [key for key in ("inputSchema", *_CHECKS) if made.get(key) != given.get(key)]
    schema = table(given.get("outputSchema"))
    if "outputSchema" in changed and schema is not None and (problem := compile_problem(schema)) is not None:
        changed[changed.index("outputSchema")] = f"outputSchema ({problem})"
    return made, tuple(changed)


def _without_nulls(given: Table) -> dict[str, Any]:
    """Return what says anything: many servers write null for what they have not."""
    return {key: value for key, value in given.items() if value is not None}


def _input_schema(given: Any) -> Table:
    """Return an input schema whose root is of type object, and whose properties and required names have their form."""
    schema = table(given)
    if schema is None:
        return _OBJECT
    made = {**schema, **_OBJECT}
    if "properties" in made:
        properties = table(made["properties"]) or {}
        made["properties"] = {name: _property(one) for name, one in properties.items()}
    if "required" in made:
        made["required"] = [name for name in array(made["required"]) or () if isinstance(name, str)]
    return made


def _property(schema: Any) -> Table:
    """Return the schema of a property as an object: false, which allows nothing, has another form."""
    found = table(schema)
    return found if found is not None else {"not": {}} if schema is False else {}


def _output_schema(given: Any) -> Table | None:
    schema = table(given)
    is_right = schema is not None and _input_schema(schema) == schema and compile_problem(schema) is None
    return schema if is_right else None


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _annotations(given: Any) -> Table | None:
    """Return annotations without hints that are neither true nor false, and without a title that is no text."""
    if (annotations := table(given)) is None:
        return None
    types = {"title": str, **dict.fromkeys(HINTS, bool)}
    return {key: value for key, value in annotations.items() if isinstance(value, types.get(key, object))}


def _icons(given: Any) -> list[Table] | None:
    """Return the icons that have a source, without fields of other types than they should have."""
    icons = [icon for icon in map(table, array(given) or ()) if icon is not None and isinstance(icon.get("src"), str)]
    return [{key: value for key, value in icon.items() if _is_of_icon(key, value)} for icon in icons] or None


def _is_of_icon(key: str, value: Any) -> bool:
    if key == "sizes":
        sizes = array(value)
        return sizes is not None and all(isinstance(size, str) for size in sizes)
    return value in ("light", "dark") if key == "theme" else key != "mimeType" or isinstance(value, str)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "title": _text,
    "description": _text,
    "outputSchema": _output_schema,
    "annotations": _annotations,
    "icons": _icons,
    "_meta": table,
}
"""What a client would accept of each field, or `None` to leave it out."""
