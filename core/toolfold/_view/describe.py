"""Descriptions of tools and groups in a text, as full as a budget allows (SPEC CTL-4, CTL-7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from .._catalog.components import Group
from .._names import SEPARATOR, ancestors
from .._plain import array, table
from .._values import frozen
from .types import signature

SHORTENED = "Not all input schemas fit in here: an answer that refuses wrong arguments gives the schema."
FINDABLE = "Not all input schemas fit in here: find_tools with the name of a tool and limit 1 gives its schema."
REFUSALS = "An answer that refuses wrong arguments gives the input schema."
BEST_ALONE = "Input schemas are those of the best: find_tools with the name of a tool and limit 1 gives its schema."

FOUND = 300
"""How many characters of definitions the answer to a search has for each tool that it may show."""

WHOLE = 2
"""How many of the best tools that a search finds have their schemas; the others are calls on one line."""

ALIKE = 3
"""In how many words, one after another, descriptions differ that are shown by their difference."""

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


Description = tuple[str, Sequence[Described]]
"""A text on tools, and those of them that it describes as fully as its form does: a reader knows them from then on."""


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


def describe(tools: Sequence[Described], room: int, note: str = SHORTENED) -> Description:
    """Return a description of `tools`, in their order, of at most `room` characters.

    If not everything fits, every tool has its name, then the first ones have their descriptions, then signatures, and
    in the remaining room the first ones have their schemas; `note` says how to get the others. If not even the names
    fit, the last line has the number of the others; that line is never left out.
    """
    whole = "\n".join(tool.full for tool in tools)
    if len(whole) <= room:
        return whole, _with_schema(tools)
    signed = [_signed(tool, tool.line) for tool in tools]
    return _shortened(tools, room, note, [tool.line for tool in tools], signed, [tool.full for tool in tools])


def describe_best(limit: int) -> Callable[[Sequence[Described], int], Description]:
    """Return what describes at most `limit` tools, the best first, after a search (SPEC FND-1).

    The best is whole, and so is the next if it fits. The others are calls on one line, with the beginning of their
    descriptions, or how these differ from that of a tool before them.
    """

    def describe_found(tools: Sequence[Described], room: int) -> Description:
        least = sum(min(len(tool.line), BRIEF) + 1 for tool in tools) + len(BEST_ALONE)
        best = least + len(tools[0].full) if tools else 0
        room = min(room, max(limit * FOUND, best))
        whole = "\n".join(tool.full for tool in tools)
        if len(whole) <= room and not any(tool.schema for tool in tools[WHOLE:]):
            return whole, _with_schema(tools)
        lines = [_brief(tool, tools[:number]) for number, tool in enumerate(tools)]
        signed = [_signed(tool, line) for tool, line in zip(tools, lines, strict=True)]
        full = [tool.full for tool in tools[:WHOLE]]
        return _shortened(tools, room, BEST_ALONE, lines, full[:1], signed, full)

    return describe_found


def signatures(tools: Sequence[Described], room: int) -> Description:
    """Return `tools` as calls on one line, with their descriptions, in at most `room` characters; see `describe`."""
    signed = [_signed(tool, tool.line) for tool in tools]
    return _shortened(tools, room, REFUSALS, [tool.line for tool in tools], signed)


def names_alone(tools: Sequence[Described], room: int) -> Description:
    """Return only the names of `tools`, in at most `room` characters; see `describe`."""
    named = used = 0
    for number, tool in enumerate(tools, 1):
        used += len(_named(tool)) + 1
        if used - 1 > room:
            break
        more = _more(number, len(tools))
        if used - 1 + sum(len(line) + 1 for line in more) <= room:
            named = number
    return "\n".join([*map(_named, tools[:named]), *_more(named, len(tools))]), ()


SHORTER_FORMS: Mapping[str, Callable[[Sequence[Described], int], Description]] = {
    "signatures": signatures,
    "names": names_alone,
}
"""What describes tools by less than their definitions, by the name of the form."""


def _shortened(tools: Sequence[Described], room: int, note: str, *stages: Sequence[str]) -> Description:
    """Return the names of tools, or longer texts of them, stage by stage, as far as they fit with a note.

    Those whose text is that of the last stage, which may be of the first tools alone, are described in full.
    """
    texts = [_named(tool) for tool in tools]
    spare = room - sum(len(text) + 1 for text in texts) - len(note)
    if spare < 0:
        return names_alone(tools, room)
    for longer in stages:
        for number, text in enumerate(longer):
            if 0 < (more := len(text) - len(texts[number])) <= spare:
                texts[number], spare = text, spare - more
    full = [tool for tool, text, last in zip(tools, texts, stages[-1], strict=False) if text == last]
    return "\n".join([*texts, note]), _with_schema(full)


def _with_schema(tools: Sequence[Described]) -> Sequence[Described]:
    return [tool for tool in tools if tool.schema]


def _signed(tool: Described, line: str) -> str:
    return f"- {tool.signature}{line.removeprefix(_named(tool))}"


def _brief(tool: Described, before: Sequence[Described]) -> str:
    """Return the line of a tool, cut, or how it differs from one before it, if that is shorter."""
    text = _description(tool)
    differences = (f"as {one.name}, but {said}" for one in before if (said := _difference(text, _description(one))))
    shortest = min((one for one in differences if len(one) < len(text)), key=len, default="")
    if shortest:
        return line_of(tool.name, shortest)
    return shortened(tool.line, BRIEF) or _named(tool)


def _description(tool: Described) -> str:
    return tool.line.removeprefix(_named(tool)).removeprefix(": ")


def _difference(text: str, other: str) -> str:
    """Return how a text differs from another, if it does in few words, one after another."""
    mine, its = text.split(), other.split()
    most = min(len(mine), len(its))
    start = next((place for place in range(most) if mine[place] != its[place]), most)
    end = next((place for place in range(most - start) if mine[-1 - place] != its[-1 - place]), most - start)
    here, there = mine[start : len(mine) - end], its[start : len(its) - end]
    if not (here or there) or max(len(here), len(there)) > ALIKE or start + end < ALIKE:
        return ""
    if not there:
        return f'with "{" ".join(here)}"'
    if not here:
        return f'without "{" ".join(there)}"'
    return f'"{" ".join(here)}" in place of "{" ".join(there)}"'


def _named(tool: Described) -> str:
    return line_of(tool.name, "")


def _more(shown: int, total: int) -> list[str]:
    if shown == total:
        return []
    return [f"- and {total - shown} more" if shown else f"- {total} tools"]


# -- the directory of groups, within what hosts show of a description (SPEC CTL-7) -----------------------------------
#
# Some show a model one line of 157 characters, some the first 247 of a server's instructions, some 2,048 in all. So
# names come before descriptions, and what is left out is counted. There is no ellipsis: hosts count one as three
# characters.


FIRST_LINE = 157
"""How many characters of a description every host shows."""

_NAMES = 60
"""How many characters the names in a first line have, whatever else is in it."""

_COUNTED = len("9999 in all")


@frozen
class Directory:
    """Groups by path, in their order, each with its description on one line."""

    groups: Mapping[str, str]

    @classmethod
    def of(cls, groups: Iterable[Group]) -> Directory:
        """Return the directory of some groups."""
        return cls({group.path: one_line(group.description) for group in groups})

    @classmethod
    def openable(cls, groups: Iterable[Group]) -> Directory:
        """Return the directory of those among some groups that a model can open."""
        return cls.of(group for group in groups if group.controls and not group.pinned)

    def introduced(self, way: str, room: int = FIRST_LINE) -> str:
        """Return `way`, which says how groups are reached, after the names of those at the top.

        It has at most `room` characters, with as many names as fit, and the number of the others.
        """
        names = [*_with_inner(self.groups)]
        if not names:
            return way
        frame = len("Groups of tools: . ") + len(way)
        return f"Groups of tools: {names_within(names, max(room - frame, _NAMES))}. {way}"

    def lines(self, room: int, finder: str | None) -> list[str]:
        """Return a line for each group at the top, with the names of those in it: at most `room` characters.

        What room the names leave, descriptions share. If the names don't fit, the last line has the number of the
        groups that are not named, and `finder`, the tool that finds them; that line is never left out.

        Args:
            room: The number of characters, with a line break after each line.
            finder: The name of the tool that searches, if there is one.
        """
        inner = _with_inner(self.groups)
        used = shown = spare = 0
        end = f" groups{f': {finder} finds their tools' if finder else ''}"
        for number, (top, names) in enumerate(inner.items(), 1):
            used += len(line_of(top, "")) + 1 + (_COUNTED + len(" ()") if names else 0)
            last = 0 if number == len(inner) else len(f"- and {len(self.groups)} more{end}") + 1
            if used + last <= room:
                shown, spare = number, room - used - last
        tops = [*inner][:shown]
        missing = sum(1 + len(names) for names in [*inner.values()][shown:])
        more = [f"- and {missing} more{end}" if shown else f"- {missing}{end}"] if missing else []
        if not tops:
            return more
        lists = {top: inner[top] for top in tops if inner[top]}
        length = _level([len(", ".join(names)) for names in lists.values()], spare + _COUNTED * len(lists))
        named = {top: names_within(names, max(length, _COUNTED)) for top, names in lists.items()}
        spare -= sum(map(len, named.values())) - _COUNTED * len(lists)
        described = [text for top in tops if (text := self.groups[top])]
        length = _level([len(text) + len(": ") for text in described], spare) - len(": ")
        heads = {top: f"{top} ({named[top]})" if top in named else top for top in tops}
        return [*(line_of(heads[top], shortened(self.groups[top], length)) for top in tops), *more]


def one_line(text: str) -> str:
    """Return a text as a directory has it: on one line, without an ellipsis."""
    return " ".join(text.replace("…", "...").split())


def has_whole(lines: str, path: str, description: str) -> bool:
    """Return whether a directory has the whole description of a group, which may be none."""
    if not description:
        return True
    heads = (f"- {path}: ", f"- {path} (")
    return any(line.startswith(heads) and line.endswith(f": {description}") for line in lines.splitlines())


def names_within(names: Sequence[str], room: int) -> str:
    """Return names, separated by commas: as many as fit in `room` characters, and the number of the others."""
    text, used = f"{len(names)} in all", -len(", ")
    shown = 0
    for number, name in enumerate(names, 1):
        used += len(", ") + len(name)
        if used > room:
            break
        if used + len(_others(len(names) - number)) <= room:
            shown = number
    return ", ".join(names[:shown]) + _others(len(names) - shown) if shown else text


def _others(number: int) -> str:
    return f" and {number} more" if number else ""


def _with_inner(groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the groups at the top, each with the paths of those in it, as they continue its own."""
    inner: dict[str, list[str]] = {}
    for path in groups:
        top = next((above for above in ancestors(path) if above in inner), None)
        if top is None:
            inner[path] = []
        else:
            inner[top].append(path.removeprefix(f"{top}{SEPARATOR}"))
    return inner


def _level(lengths: Iterable[int], room: int) -> int:
    """Return the greatest length that texts are cut to so that all together have at most `room` characters."""
    ordered = sorted(lengths)
    for number, length in enumerate(ordered):
        share = room // (len(ordered) - number)
        if length > share:
            return max(share, 0)
        room -= length
    return ordered[-1] if ordered else 0


# -- input schemas ----------------------------------------------------------------------------------------------------


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
