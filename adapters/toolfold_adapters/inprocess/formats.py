"""What a model reads of tools, in the shapes of providers' APIs: definitions, and the content of results (SPEC AGT-3).

`None` is the shape of the MCP specification, `"anthropic"` that of the Messages API, `"openai"` that of the Chat
Completions API, which many others speak too, and `"openai_responses"` that of the Responses API.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from toolfold import Component, ConfigError, ToolResult

Format = Literal["anthropic", "openai", "openai_responses"]
Definition = dict[str, Any]


def definition(component: Component, format: Format | None, to_wire: Callable[[str], str]) -> Definition:
    """Return a tool's definition in a provider's shape; raises `ConfigError` for an unknown format."""
    if format not in _SHAPES:
        known = ", ".join(repr(known) for known in _SHAPES)
        raise ConfigError(f"There is no format {format!r} for tools; the formats are {known}.")
    return _SHAPES[format](component.render(to_wire))


def _mcp(rendered: Definition) -> Definition:
    return rendered


def _anthropic(rendered: Definition) -> Definition:
    return {**_named(rendered), "input_schema": dict(rendered.get("inputSchema", {}))}


def _function(rendered: Definition) -> Definition:
    return {**_named(rendered), "parameters": dict(rendered.get("inputSchema", {}))}


def _openai(rendered: Definition) -> Definition:
    return {"type": "function", "function": _function(rendered)}


def _openai_responses(rendered: Definition) -> Definition:
    # strict mode supports only a part of JSON Schema, and the API enables it by default
    return {"type": "function", **_function(rendered), "strict": False}


def _named(rendered: Definition) -> Definition:
    described = {"description": rendered["description"]} if rendered.get("description") else {}
    return {"name": rendered["name"], **described}


_SHAPES: Mapping[str | None, Callable[[Definition], Definition]] = {
    None: _mcp,
    "anthropic": _anthropic,
    "openai": _openai,
    "openai_responses": _openai_responses,
}


def text_of(result: ToolResult) -> str:
    """Return the content of a result as text; a block that is not text is given as JSON."""
    return "\n".join(
        str(block["text"]) if block.get("type") == "text" else json.dumps(block, ensure_ascii=False)
        for block in result.content
    )


def without_schemas(
    result: ToolResult, to_wire: Callable[[str], str], announced: Sequence[Component]
) -> Sequence[Mapping[str, Any]]:
    """Return the content of a result, which names tools without their schemas.

    Of those that are announced beside it, whose definitions the model reads there, it has only the names.
    """
    if result.about is None or result.is_error or not result.about.tools:
        return result.content
    known = {component.name for component in announced}
    return ({"type": "text", "text": result.about.listing(to_wire, known)},)
