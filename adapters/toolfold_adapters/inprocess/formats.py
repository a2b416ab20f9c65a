"""Definitions of tools in the shapes of providers' APIs (SPEC AGT-3).

`None` is the shape of the MCP specification, `"anthropic"` that of the Messages API, `"openai"` that of the Chat
Completions API, which many others speak too, and `"openai_responses"` that of the Responses API.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from toolfold import ConfigError, Spec
from toolfold.spi import Spelling

Format = Literal["anthropic", "openai", "openai_responses"]
Definition = dict[str, Any]


def definition(spec: Spec, format: Format | None, spell: Spelling) -> Definition:
    """Return what a model is shown of a tool; raises `ConfigError` for an unknown format."""
    return shape(format)(spec, spell(spec.name))


def deferred(spec: Spec, format: Format | None, spell: Spelling) -> Definition:
    """Return the definition of a tool that the provider withholds from the model until it is referred to."""
    return {**definition(spec, format, spell), "defer_loading": True}


def search(loader: Spec) -> Definition:
    """Return a loader as the Responses API's tool search, which the caller carries out."""
    return {
        "type": "tool_search",
        "execution": "client",
        "description": loader.description,
        "parameters": dict(loader.input_schema),
    }


def late(specs: Iterable[Spec], format: Format | None, spell: Spelling) -> list[Definition]:
    """Return what announces loaded tools to a provider: references to deferred ones, or their definitions."""
    if format == "anthropic":
        return [{"type": "tool_reference", "tool_name": spell(spec.name)} for spec in specs]
    return [deferred(spec, format, spell) for spec in specs]


def check_late(format: Format | None) -> None:
    """Raise `ConfigError` unless the format has a way to load definitions late."""
    if format not in ("anthropic", "openai_responses"):
        raise ConfigError(f'Late loading is known in "anthropic" and "openai_responses", not in {format!r}.')


def _mcp(spec: Spec, name: str) -> Definition:
    return {**spec.definition, "name": name}


def _anthropic(spec: Spec, name: str) -> Definition:
    return {"name": name, **_described(spec), "input_schema": dict(spec.input_schema)}


def _function(spec: Spec, name: str) -> Definition:
    return {"name": name, **_described(spec), "parameters": dict(spec.input_schema)}


def _openai(spec: Spec, name: str) -> Definition:
    return {"type": "function", "function": _function(spec, name)}


def _openai_responses(spec: Spec, name: str) -> Definition:
    # strict mode takes a part of JSON Schema only, and the API turns it on by default
    return {"type": "function", **_function(spec, name), "strict": False}


def _described(spec: Spec) -> Definition:
    return {"description": spec.description} if spec.description else {}


_SHAPES: Mapping[str | None, Callable[[Spec, str], Definition]] = {
    None: _mcp,
    "anthropic": _anthropic,
    "openai": _openai,
    "openai_responses": _openai_responses,
}


def shape(format: str | None) -> Callable[[Spec, str], Definition]:
    """Return what puts a tool into a format, or raise `ConfigError`."""
    if format not in _SHAPES:
        known = ", ".join(repr(known) for known in _SHAPES)
        raise ConfigError(f"There is no format {format!r} for tools; the formats are {known}.")
    return _SHAPES[format]
