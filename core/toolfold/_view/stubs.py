"""Declarations of the tools that can be called now, for programs that call them (SPEC COD-1).

A name in them is an identifier in Python and in TypeScript alike. It is the same in every state of a catalog, so that a
program which was written against stubs can call what it has opened since.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from textwrap import indent
from typing import Any, Literal, get_args

from .._catalog.catalog import Catalog
from .._catalog.components import Component
from .._memo import Memo
from .._plain import table
from .._snapshot import Snapshot
from .._values import frozen
from ..errors import ConfigError
from .listing import listed
from .types import Field, Fields, Notation, Types, written
from .visibility import RequestView

Language = Literal["python", "typescript"]

RESULT = "result"
"""The only property of structured content that stands for a value which is no object."""

_DEPTH = 6
_ROOM = 4_000
_WORDS = """
any arguments bool boolean bytes case catch const debugger declare default delete dict do enum eval export extends false
float function implements int interface let list match namespace never new null number object package private protected
public static str string super switch symbol this throw true type typeof undefined unknown var void _typing
"""
"""What is no name of a tool in a stub, besides the keywords of Python: keywords of TypeScript, and names of types."""
_RESERVED = frozenset((*keyword.kwlist, *_WORDS.split()))


def identifiers(catalog: Catalog) -> Mapping[str, str]:
    """Return the identifier of each tool of a catalog, by its name.

    SPEC COD-1.
    """
    return _IDENTIFIERS.of(catalog.memo, None, lambda: _identifiers(catalog))


def _identifiers(catalog: Catalog) -> Mapping[str, str]:
    known = {name: catalog.spoken(name) for name in catalog.tools}
    found = identifiers_of(known.values())
    return {name: found[said] for name, said in known.items()}


def identifiers_of(names: Iterable[str], taken: Iterable[str] = _RESERVED) -> dict[str, str]:
    """Return different identifiers for different names: a name that is one is its own.

    Others have `_` for what can't be in one, and where that is taken `_` or a hash of the name at the end.
    """
    given = {name: re.sub(r"\W", "_", name, flags=re.ASCII) for name in sorted(names)}
    used = set(taken)
    found = {name: name for name in given if name.isascii() and name.isidentifier() and name not in used}
    used.update(found)
    for name, plain in given.items():
        if name not in found:
            plain = f"_{plain}" if plain[:1].isdigit() else plain
            free = (one for one in (plain, f"{plain}_") if one and one not in used)
            found[name] = next(free, f"{plain}_{sha256(name.encode()).hexdigest()[:8]}")
            used.add(found[name])
    return found


_IDENTIFIERS = Memo[None, Mapping[str, str]](most=1)
_TOOLS = Memo[None, Mapping[str, str]](most=1)


def tool_of(catalog: Catalog, identifier: str) -> str:
    """Return the tool that is called so in stubs, or was in those of earlier versions; another text as it is."""

    def made() -> Mapping[str, str]:
        older = {one: name for name, one in identifiers_of(catalog.tools).items()}
        return older | {one: name for name, one in identifiers(catalog).items()}

    tools = _TOOLS.of(catalog.memo, None, made)
    return tools.get(identifier, identifier)


def arguments_of(catalog: Catalog, tool: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a call by their names in the schema, given by those or the ones in stubs."""
    component = catalog.tools.get(tool)
    names = {} if component is None else {one: name for name, one in parameters(component).items()}
    return {names.get(name, name): value for name, value in (given or {}).items()}


def stubs(where: Snapshot | RequestView, language: Language = "python") -> str:
    """Return typed declarations of the tools that are listed now; equal snapshots have the same ones.

    SPEC COD-1.

    Args:
        where: A snapshot; or a session's `view()`, where rules ask for the application state.
        language: What the program is written in.

    Raises:
        ConfigError: There is no such language.
    """
    if language not in get_args(Language):
        raise ConfigError(f"There are stubs in {' and '.join(get_args(Language))}, not in {language!r}.")
    view = where if isinstance(where, RequestView) else RequestView(where)
    declare = _python if language == "python" else _typescript
    names = identifiers(view.snapshot.catalog)
    used = {*_RESERVED, *names.values()}
    return _HEADS[language] + "".join(f"\n{declare(names[tool.name], tool, used)}" for tool in listed(view, "tool"))


@frozen
class _Tool:
    """What a declaration says of a tool."""

    fields: Mapping[str, Field]
    open: bool
    output: str
    texts: Mapping[str, str]

    @classmethod
    def of(cls, tool: Component, notation: Notation, name: str) -> _Tool:
        """Return the parts of a declaration of a tool that is called `name`."""
        schema = tool.definition["inputSchema"]
        types, output = Types(notation, schema), tool.definition.get("outputSchema")
        properties = table(types.root.get("properties")) or {}
        about = {key: str((table(part) or {}).get("description", "")) for key, part in properties.items()}
        return cls(
            fields=types.fields(types.root, _DEPTH, name),
            open=not properties and types.root.get("additionalProperties") is not False,
            output=notation.anything if output is None else _output(output, notation, name),
            texts={key: text for key, text in about.items() if text.strip()},
        )


def _output(schema: Any, notation: Notation, name: str) -> str:
    types = Types(notation, schema)
    properties = table(types.root.get("properties")) or {}
    inner = properties[RESULT] if [*properties] == [RESULT] else types.root
    return types.write(inner, _DEPTH, f"{name}_result")


def _comment(about: _Tool, tool: Component, parameter: Callable[[str], str]) -> str:
    """Return the description of a tool and its arguments, without controls (SPEC SAF-6)."""
    arguments = "\n".join(f"{parameter(key)} {text}" for key, text in about.texts.items())
    said = "\n\n".join(part.strip() for part in (tool.description, arguments) if part.strip())
    return "\n".join("".join(char for char in line if char.isprintable()).rstrip() for line in said.splitlines())


# -- Python -----------------------------------------------------------------------------------------------------------


def parameters(tool: Component) -> Mapping[str, str]:
    """Return the parameter that stands for each argument of a tool in Python, by the name of the argument."""
    properties = table(Types(_NO_NOTATION, tool.definition["inputSchema"]).root.get("properties")) or {}
    return identifiers_of(properties, keyword.kwlist)


def _python(name: str, tool: Component, used: set[str]) -> str:
    classes: list[str] = []

    def an_object(fields: Fields, called: str) -> str:
        title = "".join(part[:1].upper() + part[1:] for part in re.split(r"\W|_", called, flags=re.ASCII)) or "Value"
        number = 1
        while (known := title if number == 1 else f"{title}{number}") in used:
            number += 1
        used.add(known)
        entries = (
            f"{key!r}: {part.type if part.is_required else f'_typing.NotRequired[{part.type}]'}"
            for key, part in fields.items()
        )
        classes.append(f'{known} = _typing.TypedDict("{known}", {{{", ".join(entries)}}})\n')
        return known

    about = _Tool.of(tool, _notation_of_python(an_object), name)
    known = parameters(tool)
    required_first = sorted(about.fields.items(), key=lambda one: not one[1].is_required)
    given = [f"{known[key]}: {part.type}{'' if part.is_required else ' = ...'}" for key, part in required_first]
    said = _comment(about, tool, lambda key: f"{known[key]}:") or "Has no description."
    quoted = indent(_docstring(said), "    ")
    line = ", ".join(["*", *given] if given else ["**arguments: _typing.Any"] if about.open else [])
    return f"{''.join(classes)}async def {name}({line}) -> {about.output}:\n{quoted}\n    ...\n"


def _docstring(text: str) -> str:
    safe = text.replace("\\", "\\\\")
    return '"""' + (safe.replace('"', '\\"') if '"""' in safe or safe.endswith('"') else safe) + '"""'


def _notation_of_python(an_object: Callable[[Fields, str], str]) -> Notation:
    def choices(values: Iterable[Any]) -> str:
        given = list(values)
        if not given or not all(value is None or isinstance(value, str | int) for value in given):
            return "_typing.Any"
        return f"_typing.Literal[{', '.join(map(repr, given))}]"

    return Notation(
        scalars={
            "string": "str",
            "integer": "int",
            "number": "float",
            "boolean": "bool",
            "object": "dict[str, _typing.Any]",
            "null": "None",
        },
        anything="_typing.Any",
        array="list[{}]",
        mapping="dict[str, {}]",
        either=" | ",
        choices=choices,
        an_object=an_object,
        room=_ROOM,
    )


_NO_NOTATION = _notation_of_python(lambda fields, name: name)


# -- TypeScript -------------------------------------------------------------------------------------------------------


def _typescript(name: str, tool: Component, _: set[str]) -> str:
    about = _Tool.of(tool, _TYPESCRIPT, name)
    optional = "" if any(part.is_required for part in about.fields.values()) else "?"
    given = _an_object(about.fields, "") if about.fields else "Record<string, unknown>" if about.open else ""
    said = _comment(about, tool, "@param args.{}".format).replace("*/", "*\\/") or "Has no description."
    comment = "/**\n" + indent(said, " * ") + "\n */\n" if "\n" in said else f"/** {said} */\n"
    line = f"args{optional}: {given}" if given else ""
    return f"{comment}export declare function {name}({line}): Promise<{about.output}>;\n"


def _an_object(fields: Fields, _: str) -> str:
    return f"{{ {'; '.join(written(key, part) for key, part in fields.items())} }}"


def _values(values: Iterable[Any]) -> str:
    return " | ".join(json.dumps(value) for value in values if not isinstance(value, dict | list)) or "unknown"


_TYPESCRIPT = Notation(
    scalars={
        "string": "string",
        "integer": "number",
        "number": "number",
        "boolean": "boolean",
        "object": "Record<string, unknown>",
        "null": "null",
    },
    anything="unknown",
    array="Array<{}>",
    mapping="Record<string, {}>",
    either=" | ",
    choices=_values,
    an_object=_an_object,
    room=_ROOM,
)

_HEADS = {
    "python": '"""Tools that can be called now; await each."""\n\nimport typing as _typing\n',
    "typescript": "/** Tools that can be called now. */\n",
}
