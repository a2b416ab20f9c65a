"""Descriptions of tools in a text, as full as a budget allows (SPEC CTL-4)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

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
    """

    name: str
    line: str
    schema: str

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Described:
        """Return the parts of a definition in the form that the reader is listed."""
        name = str(definition["name"])
        line = line_of(name, str(definition.get("description", "")))
        schema = compact(definition["inputSchema"], name)
        return cls(name, line, json.dumps(schema, ensure_ascii=False, separators=(",", ":")))

    @property
    def full(self) -> str:
        """Name, description and input schema."""
        return f"{self.line}\n  {self.schema}"


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


def line_of(name: str, description: str) -> str:
    """Return one line, whatever line breaks a description has (SPEC CTL-4)."""
    return f"- {name}: {' '.join(description.split())}" if description else f"- {name}"


def lines_within(texts: Mapping[str, str], room: int) -> list[str]:
    """Return a line for each name with its description, all together of at most `room` characters (SPEC CTL-3).

    If they are longer, the longest descriptions are cut to one length. Names are never left out, so that they alone may
    need more room.
    """
    plain = {name: " ".join(text.split()) for name, text in texts.items()}
    spare = room - sum(len(line_of(name, "")) + 1 for name in plain)
    length, remaining = 0, len(plain)
    for cost in sorted(len(text) + len(": ") for text in plain.values()):
        length = max(spare // remaining - len(": "), 0)
        if cost - len(": ") > length:
            break
        spare, remaining = spare - cost, remaining - 1
    else:
        return [line_of(name, text) for name, text in plain.items()]
    return [line_of(name, shortened(text, length)) for name, text in plain.items()]


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


_CUT = " …"
_LEAST = 8
"""How many characters say anything at all."""


def describe(tools: Sequence[Described], room: int, brief: int | None = None, note: str = SHORTENED) -> str:
    """Return a description of `tools`, in their order, of at most `room` characters.

    If not everything fits, every tool has its name, then the first ones have their descriptions, each cut to `brief`
    characters if that is given, and in the remaining room the first ones have their schemas; `note` says how to get the
    others. If not even the names fit, the last line has the number of the others; that line is never left out.
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
    for longer in (lines, [tool.full for tool in tools]):
        for number, text in enumerate(longer):
            if (more := len(text) - len(texts[number])) <= spare:
                texts[number], spare = text, spare - more
    return "\n".join([*texts, note])


def _named(tool: Described) -> str:
    return line_of(tool.name, "")


def _more(shown: int, total: int) -> list[str]:
    if shown == total:
        return []
    return [f"- and {total - shown} more" if shown else f"- {total} tools"]
