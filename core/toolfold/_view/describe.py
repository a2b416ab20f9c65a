"""Descriptions of tools in a text, as full as a budget allows (SPEC CTL-4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from .._plain import array, table

SHORTENED = "Not all input schemas fit in here: an answer that refuses wrong arguments gives the schema."
FINDABLE = "Not all input schemas fit in here: find_tools with the name of a tool and limit 1 gives its schema."

FOUND = 300
"""How many characters of definitions the answer to a search has for each tool that it may show."""

BRIEF = 120
"""How many characters of a tool it has whose definition does not fit in."""


@frozen
class Described:
    """The parts of a tool's description.

    Attributes:
        name: The name that the reader calls it by.
        line: Name and description, on one line.
        schema: The input schema as JSON without white space; see `compact`.
        signature: The tool as a call, on one line; see `signature`.
    """

    name: str
    line: str
    schema: str
    signature: str

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Described:
        """Return the parts of a definition in the form that the reader is listed."""
        name = str(definition["name"])
        description, schema = str(definition.get("description", "")), definition["inputSchema"]
        short = json.dumps(compact(schema, name), ensure_ascii=False, separators=(",", ":"))
        return cls(name, line_of(name, description), short, signature(name, schema))

    @property
    def full(self) -> str:
        """Name, description and input schema."""
        return f"{self.line}\n  {self.schema}" if self.schema else self.line

    @property
    def without_schema(self) -> Described:
        """The tool by name and description alone, for a reader that is given its schema in another way."""
        return evolve(self, schema="", signature=self.name)


def line_of(name: str, description: str) -> str:
    """Return one line, whatever line breaks a description has (SPEC CTL-4)."""
    return f"- {name}: {' '.join(description.split())}" if description else f"- {name}"


def shortened(text: str, length: int) -> str:
    """Return the beginning of a text on one line, of at most `length` characters, cut after a sentence or a word."""
    line = " ".join(text.split())
    if len(line) <= length:
        return line
    cut = line[: length - len(_CUT)]
    sentence, word = cut.rfind(". "), cut.rfind(" ")
    if length < _LEAST:
        return ""
    if sentence > length // 3:
        return cut[: sentence + 1]
    return f"{(cut[:word] if word > length // 2 else cut).rstrip(' ,;:.')}{_CUT}"


_CUT = " [cut]"
_LEAST = len(_CUT) + 8
"""How many characters say anything at all."""


def describe(tools: Sequence[Described], room: int, brief: int | None = None, note: str = SHORTENED) -> str:
    """Return a description of `tools`, in their order, of at most `room` characters.

    If not everything fits, every tool has its name, then the first ones have their descriptions, then signatures, and
    in the remaining room the first ones have their schemas; `note` says how to get the others. If not even the names
    fit, the last line has the number of the others; that line is never left out. With `brief`, descriptions are cut to
    so many characters, and the very first tool has its schema before others have signatures.
    """
    whole = "\n".join(tool.full for tool in tools)
    return whole if len(whole) <= room else _shortened(tools, room, brief, note)


def describe_best(limit: int) -> Callable[[Sequence[Described], int], str]:
    """Return what describes at most `limit` tools, the best first, after a search: the best one whole (SPEC FND-1)."""

    def describe_found(tools: Sequence[Described], room: int) -> str:
        least = sum(min(len(tool.line), BRIEF) + 1 for tool in tools) + len(FINDABLE)
        best = least + len(tools[0].full) if tools else 0
        return describe(tools, min(room, max(limit * FOUND, best)), BRIEF, FINDABLE)

    return describe_found


def names_alone(tools: Sequence[Described], room: int) -> str:
    """Return only the names of `tools`, in at most `room` characters; see `describe`."""
    named = used = 0
    for number, tool in enumerate(tools, 1):
        used += len(_named(tool)) + 1
        if used - 1 > room:
            break
        more = _more(number, len(tools))
        if used - 1 + sum(len(line) + 1 for line in more) <= room:
            named = number
    return "\n".join([*map(_named, tools[:named]), *_more(named, len(tools))])


def _shortened(tools: Sequence[Described], room: int, brief: int | None, note: str) -> str:
    texts = [_named(tool) for tool in tools]
    spare = room - sum(len(text) + 1 for text in texts) - len(note)
    if spare < 0:
        return names_alone(tools, room)
    lines = [tool.line if brief is None else shortened(tool.line, brief) or _named(tool) for tool in tools]
    full = [tool.full for tool in tools]
    best = full[:1] if brief is not None else []
    signed = [f"- {one.signature}{line.removeprefix(_named(one))}" for one, line in zip(tools, lines, strict=True)]
    for longer in (lines, best, signed, full):
        for number, text in enumerate(longer):
            if 0 < (more := len(text) - len(texts[number])) <= spare:
                texts[number], spare = text, spare - more
    return "\n".join([*texts, note])


def _named(tool: Described) -> str:
    return line_of(tool.name, "")


def _more(shown: int, total: int) -> list[str]:
    if shown == total:
        return []
    return [f"- and {total - shown} more" if shown else f"- {total} tools"]


# -- input schemas ----------------------------------------------------------------------------------------------------


SIGNATURE = 300
"""How many characters a signature has at most, unless the names of required arguments alone need more."""

_CHOICES = 60
_DEPTH = 3
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "object": "object", "null": "null"}


_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def compact(schema: Any, name: str | None = None) -> Any:
    """Return a schema without what a reader doesn't need: its dialect, and titles that repeat a name (SPEC CTL-4).

    Generators of schemas write such titles: `Max Results` for `max_results`, `searchArguments` for `search`. Property
    names and values stay as they are, whatever they are called.

    Args:
        schema: The schema, or a part of one; what is no object comes back unchanged.
        name: What it is called: the tool, or the property.
    """
    whole = table(schema)
    if whole is None:
        return schema
    retained = {key: value for key, value in whole.items() if key != "$schema" and not _repeats(key, value, name)}
    for key in retained.keys() & {*_MAPS, *_LISTS, *_SINGLE}:
        if key in _MAPS and (parts := table(retained[key])) is not None:
            retained[key] = {part: compact(inner, part) for part, inner in parts.items()}
        elif key in _LISTS and (several := array(retained[key])) is not None:
            retained[key] = [compact(inner) for inner in several]
        elif key in _SINGLE:
            retained[key] = compact(retained[key])
    return retained


def _repeats(key: str, value: Any, name: str | None) -> bool:
    """Return whether an entry is a title that says no more than the name; a tool's may be that of its arguments."""
    if key != "title" or name is None or not isinstance(value, str):
        return False
    title, said = (text.casefold().replace("_", "").replace(" ", "") for text in (value, name))
    tool = title.removesuffix("arguments")
    return title == said or (tool not in ("", title) and said.endswith(tool))


@frozen
class _Types:
    """Writes types: `str`, `[int]`, `{name: str, age?: int}`, `"open"|"closed"`."""

    definitions: Mapping[str, Any]
    written: dict[tuple[str, int], str] = field(init=False, factory=dict[tuple[str, int], str])

    def write(self, schema: Any, depth: int) -> str:
        """Return the type of what fits a schema; objects deeper than `depth` are just `object`."""
        whole = table(schema) or {}
        if (name := str(whole.get("$ref", "")).rpartition("/")[2]) in self.definitions:
            return self._definition(name, depth - 1) if depth > 0 else "any"
        if (values := array(whole.get("enum"))) is not None:
            return _choices(json.dumps(value, ensure_ascii=False) for value in values)
        if "const" in whole:
            return json.dumps(whole["const"], ensure_ascii=False)
        several = array(whole.get("anyOf")) or array(whole.get("oneOf"))
        if several is not None:
            union = "|".join(dict.fromkeys(self.write(one, depth - 1) for one in several)) if depth > 0 else "any"
            return union if len(union) <= SIGNATURE else "any"
        named = whole.get("type")
        kinds = [str(kind) for kind in array(named) or ([named] if named else [])]
        return "|".join(self._kind(kind, whole, depth) for kind in kinds) or "any"

    def _definition(self, name: str, depth: int) -> str:
        """Return the type of a shared part, written once: parts may refer to one another many times (SPEC SAF-1)."""
        if (name, depth) not in self.written:
            self.written[name, depth] = self.write(self.definitions[name], depth)
        return self.written[name, depth]

    def _kind(self, kind: str, schema: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            return f"[{self.write(schema.get('items'), depth - 1)}]" if depth > 0 else "[any]"
        if kind == "object" and depth > 0 and table(schema.get("properties")):
            required, optional = self.arguments(schema, depth - 1)
            text = f"{{{', '.join([*required.values(), *optional.values()])}}}"
            return text if len(text) <= SIGNATURE else "object"
        return _TYPES.get(kind, "any")

    def arguments(self, schema: Mapping[str, Any], depth: int) -> tuple[dict[str, str], dict[str, str]]:
        """Return the required and the optional properties of an object with their types, by name."""
        required, optional = dict[str, str](), dict[str, str]()
        needed = array(schema.get("required")) or ()
        for name, part in (table(schema.get("properties")) or {}).items():
            written = name if name.isidentifier() else json.dumps(name, ensure_ascii=False)
            kind = self.write(part, depth)
            if name in needed:
                required[written] = f"{written}: {kind}"
            else:
                optional[written] = f"{written}?: {kind}"
        return required, optional


def signature(name: str, schema: Any, room: int = SIGNATURE) -> str:
    """Return a tool as a call on one line: `create_issue(repo: str, title: str, labels?: [str])` (SPEC CTL-4).

    One that is longer than `room` characters has objects without what is in them, then the first optional arguments and
    the number of the others, and at last the required ones without types. Their names are never left out.
    """
    whole = table(schema) or {}
    types = _Types({**(table(whole.get("definitions")) or {}), **(table(whole.get("$defs")) or {})})
    if (root := str(whole.get("$ref", "")).rpartition("/")[2]) in types.definitions:
        whole = table(types.definitions[root]) or {}
    more = ["see its schema"] if whole.keys() & {"$ref", *_LISTS, "if", "dependentSchemas", "patternProperties"} else []
    for depth in (_DEPTH, 0):
        required, optional = types.arguments(whole, depth)
        text = f"{name}({', '.join([*required.values(), *optional.values(), *more])})"
        if len(text) <= room:
            return text
    parts = [*required.values()]
    if len(_call(name, parts, len(optional), more)) > room:
        return _call(name, [*required], len(optional), more)
    for number, argument in enumerate(optional.values(), 1):
        if len(_call(name, [*parts, argument], len(optional) - number, more)) > room:
            return _call(name, parts, len(optional) - number + 1, more)
        parts.append(argument)
    return _call(name, parts, 0, more)


def _call(name: str, parts: Iterable[str], left_out: int, more: Iterable[str]) -> str:
    """Return a call with the number of the optional arguments that are left out."""
    others = [f"and {left_out} optional"] if left_out else []
    return f"{name}({', '.join([*parts, *others, *more])})"


def _choices(values: Iterable[str]) -> str:
    """Return a choice: as many values as fit, and the number of the others."""
    shown, others = list[str](), 0
    for value in values:
        if others or sum(map(len, shown)) + len(value) > _CHOICES:
            others += 1
        else:
            shown.append(value)
    return "|".join([*shown, *([f"{others} more"] if others else [])])
