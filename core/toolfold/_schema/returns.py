"""What a return annotation says of structured content (SPEC KIT-6), as in the MCP SDK.

A model, a `TypedDict`, a dataclass, another class with annotated attributes, and `dict[str, …]` describe an object: it
is the structured content. Of all else the structured content is `{"result": …}`, for it must be an object. A class that
says nothing of what is in it, such as `object` or a bare `list`, describes nothing.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints

import typing_extensions
from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from .._plain import table
from .arguments import Conversion

_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_LOCAL = "#/$defs/"

SchemaOf = Callable[[TypeAdapter[Any]], dict[str, Any]]


def structured(annotation: Any, schema_of: SchemaOf) -> tuple[dict[str, Any], Conversion] | None:
    """Return the schema of structured content and what converts to it, or `None` if the annotation describes none.

    Raises whatever pydantic does for an annotation that has no schema.
    """
    if annotation is None or (described := _described(annotation)) is None:
        return None
    adapter: TypeAdapter[Any] = TypeAdapter(described)
    schema = _inlined(schema_of(adapter))
    is_wrapped = not _is_object(annotation) or schema.get("type") != "object"
    if is_wrapped:
        definitions = {key: schema.pop(key) for key in ("$defs",) if key in schema}
        schema = {**definitions, "type": "object", "properties": {"result": schema}, "required": ["result"]}
    return schema, Conversion(adapter, is_wrapped)


def _described(annotation: Any) -> Any:
    """Return the annotation as pydantic can read it, or `None` for a class that says nothing of what is in it."""
    kind: Any = _bare(annotation)
    if not _is_class(kind) or kind in _PRIMITIVES or issubclass(kind, BaseModel):
        return annotation
    if typing_extensions.is_typeddict(kind):
        return _readable(kind)
    if not (hints := {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("_")}):
        return None
    return annotation if is_dataclass(kind) else _model_of(kind, hints)


def _is_object(annotation: Any) -> bool:
    kind = _bare(annotation)
    if get_origin(kind) is dict:
        return get_args(kind)[0] is str
    return _is_class(kind) and kind not in _PRIMITIVES


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and get_origin(kind) is None


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _model_of(kind: type, hints: dict[str, Any]) -> type[BaseModel]:
    """Return a model with the annotated attributes of a class."""
    fields: dict[str, Any] = {name: (hint, getattr(kind, name, ...)) for name, hint in hints.items()}
    return create_model(kind.__name__, __config__=ConfigDict(from_attributes=True), **fields)


def _readable(kind: Any) -> Any:
    """Return a `TypedDict` as pydantic can read it: before Python 3.12, not one of `typing`."""
    if sys.version_info >= (3, 12) or type(kind).__module__ != typing.__name__:
        return kind
    made: dict[str, Any] = {}
    for key, hint in get_type_hints(kind, include_extras=True).items():
        is_optional = get_origin(hint) not in (Required, NotRequired) and key not in kind.__required_keys__
        made[key] = NotRequired[hint] if is_optional else hint
    make: Any = typing_extensions.TypedDict
    rebuilt = make(kind.__name__, made)
    rebuilt.__doc__ = kind.__doc__
    return rebuilt


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is no reference, as that of a model that refers to itself is."""
    reference: Any = schema.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_LOCAL):
        return schema
    root = table(schema["$defs"][reference.removeprefix(_LOCAL)]) or {}
    return {**root, **{key: value for key, value in schema.items() if key != "$ref"}}
