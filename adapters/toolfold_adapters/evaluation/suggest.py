"""Tasks that are made of the examples that tools themselves have, for a person to complete (SPEC EVA-1)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from toolfold import Catalog, Component
from toolfold.spi import array, table


def suggested(catalog: Catalog) -> str:
    """Return a file of tasks, one for each tool whose schema has examples of its arguments; it is TOML.

    An example is one of the schema as a whole, or is put together of those of the properties: each has an `examples`
    list, a `const`, an `enum` or a `default`. The tools without are named in a comment.
    """
    own = [one for one in catalog.tools.values() if one.control is None and not one.never_listed]
    made = {tool.name: _example(tool.input_schema) for tool in own}
    lines = ["# Tasks made of the examples in the schemas of tools. Say in `ask` what a user would say."]
    for tool in own:
        if (arguments := made[tool.name]) is not None:
            lines += ["", *_task(tool, arguments)]
    if without := [name for name, arguments in made.items() if arguments is None]:
        lines += ["", f"# Without examples of all required arguments: {', '.join(without)}."]
    return "\n".join(lines) + "\n"


def _task(tool: Component, arguments: Mapping[str, Any]) -> Iterator[str]:
    about = tool.description.partition("\n")[0] or tool.name
    given = f", arguments = {_toml(arguments)}" if arguments else ""
    yield "[[tasks]]"
    yield f"id = {_toml(tool.name)}"
    yield f"ask = {_toml(about)}"
    yield f"calls = [{{ tool = {_toml(tool.name)}, query = {_toml(about)}{given} }}]"


def _example(schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return an example of arguments, or `None` if a required one has none."""
    for example in array(schema.get("examples")) or ():
        if (whole := table(example)) is not None:
            return whole
    found: dict[str, Any] = {}
    properties = table(schema.get("properties")) or {}
    for name, given in properties.items():
        one = table(given) or {}
        of_one = array(one.get("examples")) or array(one.get("enum")) or ()
        values = [*of_one, *(one[key] for key in ("const", "default") if one.get(key) is not None)]
        if values:
            found[name] = values[0]
    required = array(schema.get("required")) or ()
    return found if all(name in found for name in required) else None


def _toml(value: Any) -> str:
    """Return a JSON value as TOML writes it inline; `null`, which it has not, is left out of tables."""
    if (inner := table(value)) is not None:
        pairs = (f"{json.dumps(key)} = {_toml(one)}" for key, one in inner.items() if one is not None)
        return f"{{ {', '.join(pairs)} }}"
    if (several := array(value)) is not None:
        return f"[{', '.join(map(_toml, several))}]"
    return json.dumps(value, ensure_ascii=False)
