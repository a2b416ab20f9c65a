"""Definitions of tools in the shapes of providers' APIs (SPEC AGT-3).

`None` is the shape of the MCP specification, `"anthropic"` that of the Messages API, `"openai"` that of the Chat
Completions API, which many others speak too, and `"openai_responses"` that of the Responses API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from toolfold import Component, ConfigError
from toolfold.spi import ToWire

Format = Literal["anthropic", "openai", "openai_responses"]
Definition = dict[str, Any]


def definition(component: Component, format: Format | None, to_wire: ToWire) -> Definition:
    """Return a tool's definition in a provider's shape; raises `ConfigError` for an unknown format."""
    return shape(format)(component, to_wire(component.name))


def _mcp(component: Component, name: str) -> Definition:
    return {**component.definition, "name": name}


def _anthropic(component: Component, name: str) -> Definition:
    return {"name": name, **_described(component), "input_schema": dict(component.input_schema)}


def _function(component: Component, name: str) -> Definition:
    return {"name": name, **_described(component), "parameters": dict(component.input_schema)}


def _openai(component: Component, name: str) -> Definition:
    return {"type": "function", "function": _function(component, name)}


def _openai_responses(component: Component, name: str) -> Definition:
    # strict mode supports only a part of JSON Schema, and the API enables it by default
    return {"type": "function", **_function(component, name), "strict": False}


def _described(component: Component) -> Definition:
    return {"description": component.description} if component.description else {}


_SHAPES: Mapping[str | None, Callable[[Component, str], Definition]] = {
    None: _mcp,
    "anthropic": _anthropic,
    "openai": _openai,
    "openai_responses": _openai_responses,
}


def shape(format: str | None) -> Callable[[Component, str], Definition]:
    """Return the function that renders a tool in a format, or raise `ConfigError`."""
    if format not in _SHAPES:
        known = ", ".join(repr(known) for known in _SHAPES)
        raise ConfigError(f"There is no format {format!r} for tools; the formats are {known}.")
    return _SHAPES[format]
