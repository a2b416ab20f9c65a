"""Schemas of what functions are annotated with: their parameters, and what they return (SPEC KIT-2, KIT-6).

pydantic takes most of a millisecond to make a model of a function's parameters and the schema of that. So the model is
made when the function is first called, and the schema, which is needed at once, is composed of those of the parameters.
Each of these is made once for all parameters that are annotated alike, and that is also the check of the annotation:
what pydantic would refuse in a model, it refuses in a single parameter.
"""

from __future__ import annotations

import json
import sys
import typing
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from inspect import Parameter
from operator import attrgetter
from types import GenericAlias
from typing import Annotated, Any, Literal, NotRequired, Required, cast, get_args, get_origin, get_type_hints

import typing_extensions
from attrs import evolve
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import PydanticSerializationError

from .._limits import quoted
from .._memo import Memo, Memory
from .._plain import table
from .._values import frozen
from ..errors import InvalidDefinition
from .arguments import Arguments, Conversion, Output, compile_schema, plain_json

_FEW = 32
"""How many light schemas make one that is certainly within every limit, so that it need not be compiled to know it."""

_EXACT = (type(None), bool, int, float, str)
"""The types of defaults that are the same if they are written the same."""

_SETTINGS = ConfigDict(extra="forbid")
_REST_OF = attrgetter(
    *(slot for slot in FieldInfo.__slots__ if not slot.startswith("_") and slot not in ("description", "metadata"))
)
_NO_MORE = _REST_OF(FieldInfo())
"""What a `Field` says beside a description and constraints, and that if it says no more."""


@frozen
class _Property:
    """The schema of a parameter without its description, and of what it refers to."""

    schema: Mapping[str, Any]
    definitions: Mapping[str, Any]
    is_required: bool
    is_light: bool


@frozen
class _Field:
    """A parameter as pydantic is given it: what it is annotated with, and its default."""

    name: str
    annotation: Any
    default: Any

    @property
    def definition(self) -> Any:
        """The parameter as a field of a model."""
        return self.annotation, Field(self.default, alias=self.name)

    @property
    def described(self) -> str | None:
        """The description by a `Field` in the annotation; the last one counts."""
        texts = [one.description for one in self._given if one.description is not None]
        return texts[-1] if texts else None

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is ... and all(one.is_required() for one in self._given)

    @property
    def _given(self) -> list[FieldInfo]:
        metadata: tuple[Any, ...] = getattr(self.annotation, "__metadata__", ())
        return [one for one in metadata if isinstance(one, FieldInfo)]


_PROPERTIES = Memo[Hashable, _Property](most=10_000)
_OUTPUTS = Memo[Hashable, Output | str](most=10_000)
"""The schemas of parameters and of results, by what they are annotated with: more than one program has annotations."""


class SchemaCache:
    """The schemas of annotations, each made once: there is one cache for each tool set."""

    def __init__(self) -> None:
        self._memo: Memory = {}

    def arguments(
        self, name: str, parameters: Iterable[Parameter], hints: Mapping[str, Any], texts: Mapping[str, str]
    ) -> Arguments:
        """Return the arguments that the parameters of a function describe (SPEC KIT-2).

        Args:
            name: What is registered, for messages.
            parameters: The parameters.
            hints: What they are annotated with; see `hints_of`.
            texts: Descriptions of those that have none of their own.

        Raises:
            InvalidDefinition: A parameter can't be given by its name, or has no schema.
        """
        fields = [_field(name, one, hints.get(one.name, Any)) for one in parameters]
        made = [self._property(name, field) for field in fields]
        schema = _composed(fields, made, texts) or _schema_of(TypeAdapter(_model(fields)))
        plain = plain_json(name, schema, "input schema")
        is_light = len(fields) <= _FEW and all(one.is_light for one in made)
        return Arguments(
            plain,
            validator=None if is_light else compile_schema(name, plain, "input schema"),
            make_model=partial(_model, fields),
            parameters={field.name: _slot(number) for number, field in enumerate(fields)},
        )

    def output(self, name: str, annotation: Any, *, needed: bool = False) -> Output | None:
        """Return the structured results that a return annotation describes, or `None` if it describes none.

        Args:
            name: What is registered, for messages.
            annotation: The annotation; `None` if there is none.
            needed: Whether it must describe them.

        Raises:
            InvalidDefinition: It must, and does not.
        """
        make, key = partial(_output, name, annotation), _hashable(_key(annotation))
        made = make() if key is None else _OUTPUTS.of(self._memo, key, make)
        if isinstance(made, Output):
            return made
        if needed:
            problem = f"{made}: annotate it with a model or another type, or describe its results by output="
            raise InvalidDefinition(name, problem)
        return None

    def _property(self, name: str, field: _Field) -> _Property:
        make, key = partial(_made, name, field), _key_of_field(field)
        return make() if key is None else _PROPERTIES.of(self._memo, key, make)


def of_texts(name: str, arguments: Arguments | None, schema: Mapping[str, Any]) -> Arguments:
    """Return a function's arguments as they are where each is given as a text, as `schema` says.

    Args:
        name: What is registered, for messages.
        arguments: Those of a typed function; `None` for one that takes the texts.
        schema: Describes the texts.

    Raises:
        InvalidDefinition: A parameter is annotated with what can't be read from a text.
    """
    if arguments is None:
        return Arguments.from_schema(name, schema)
    definitions: Mapping[str, Any] = arguments.schema.get("$defs", {})
    for parameter, given in arguments.schema["properties"].items():
        if not _is_readable(given, definitions):
            problem = f"its parameter {parameter!r} is given as a text, and no text fits its annotation"
            raise InvalidDefinition(name, f"{problem}: annotate it as str, and parse it in the handler")
    return evolve(arguments, schema=schema, validator=compile_schema(name, schema, "input schema"))


def _is_readable(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> bool:
    """Return whether some text fits what a schema is made for, such as a number."""
    if reference := schema.get("$ref"):
        return _is_readable(definitions[str(reference).rpartition("/")[2]], definitions)
    if arms := schema.get("anyOf"):
        return any(_is_readable(arm, definitions) for arm in arms)
    return schema.get("type", "string") in ("string", "integer", "number", "boolean")


def _composed(fields: Iterable[_Field], made: Iterable[_Property], texts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the schema of fields, or `None` if two of them refer to different definitions by one name."""
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required: list[str] = []
    for field, one in zip(fields, made, strict=True):
        text = field.described or one.schema.get("description") or texts.get(field.name)
        properties[field.name] = {**one.schema, "description": text} if text else one.schema
        if one.is_required:
            required.append(field.name)
        for key, definition in one.definitions.items():
            if definitions.setdefault(key, definition) != definition:
                return None
    return {
        **({"$defs": definitions} if definitions else {}),
        "additionalProperties": False,
        "properties": properties,
        **({"required": required} if required else {}),
        "type": "object",
    }


class _Quiet(GenerateJsonSchema):
    """Makes schemas without the defaults that have no JSON form, such as infinity, and does not warn of them."""

    def encode_default(self, dft: Any) -> Any:
        encoded = super().encode_default(dft)
        try:
            json.dumps(encoded, allow_nan=False)
        except ValueError as error:
            raise PydanticSerializationError(str(error)) from error
        return encoded

    def emit_warning(self, kind: Any, detail: str) -> None:
        return


def _field(name: str, parameter: Parameter, annotation: Any) -> _Field:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        problem = f"its parameter {parameter} can't be given by name, as arguments are: name each one, or describe them"
        raise InvalidDefinition(name, f"{problem} by input=, and take them as one mapping")
    if isinstance(parameter.default, FieldInfo):
        return _Field(parameter.name, Annotated[annotation, parameter.default], ...)
    return _Field(parameter.name, annotation, ... if parameter.default is parameter.empty else parameter.default)


def _model(fields: Iterable[_Field]) -> type[BaseModel]:
    """Return a model of fields, in which they are named by number: a parameter may have any name."""
    numbered: dict[str, Any] = {_slot(number): field.definition for number, field in enumerate(fields)}
    return create_model("arguments", __config__=_SETTINGS, **numbered)


def _slot(number: int) -> str:
    return f"p{number}"


def _made(name: str, field: _Field) -> _Property:
    """Return the schema of a field, or raise `InvalidDefinition`."""
    annotation = field.annotation if field.default is ... else Annotated[field.annotation, Field(field.default)]
    in_list: Any = GenericAlias(list, (annotation,))  # since not every type takes the settings of a model
    try:
        of_list = TypeAdapter(in_list, config=_SETTINGS).json_schema(schema_generator=_Quiet)
    except Exception as error:  # annotations may be anything, with schemas of their own
        remedy = "annotate it with a type that has one, or describe the arguments by input="
        if getattr(field.annotation, "__name__", "") == "Context":
            remedy = "the context of a call is annotated as toolfold.Context"
        problem = f"no schema follows from its parameter {field.name!r} ({_reason(error)}): {remedy}"
        raise InvalidDefinition(name, problem) from error
    schema: dict[str, Any] = plain_json(name, untitled(of_list), "input schema")
    is_light = compile_schema(name, schema, "input schema").is_light
    own: dict[str, Any] = schema["items"]
    if field.described is not None:
        own.pop("description", None)
    return _Property(own, schema.get("$defs", {}), field.is_required, is_light)


def _output(name: str, annotation: Any) -> Output | str:
    """Return the structured results that a return annotation describes, or why it describes none."""
    try:
        made = structured(annotation)
    except Exception as error:  # annotations may be anything, with schemas of their own
        return f"no schema follows from what its handler returns ({_reason(error)})"
    return "its handler is not annotated with what it returns" if made is None else Output.from_schema(name, *made)


def _reason(error: Exception) -> str:
    """Return the first sentence of an error; what pydantic says after it is for authors of models."""
    line = next(iter(str(error).splitlines()), type(error).__name__)
    return quoted(line.partition(". ")[0].rstrip("."))


def _schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    schema: dict[str, Any] = untitled(adapter.json_schema(by_alias=True, schema_generator=_Quiet))
    return schema


def untitled(schema: Any) -> Any:
    """Return a schema without the titles that pydantic derives from names: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [untitled(item) for item in cast("list[object]", schema)]
    if (given := table(schema)) is None:
        return schema
    made: dict[str, Any] = {}
    for key, value in given.items():
        if key in ("properties", "$defs"):
            named = table(value) or {}
            made[key] = {name: untitled(item) for name, item in named.items()}
        elif key in ("default", "const", "enum", "examples"):
            made[key] = value
        elif key != "title":
            made[key] = untitled(value)
    return made


# -- what a return annotation says of structured content (SPEC KIT-6) ------------------------------------------------


_PRIMITIVES = (str, int, float, bool, bytes, type(None))
_LOCAL = "#/$defs/"


def structured(annotation: Any) -> tuple[dict[str, Any], Conversion] | None:
    """Return the schema of structured content and what converts to it, or `None` if the annotation describes none.

    As in the MCP SDK, a model, a `TypedDict`, a dataclass, another class with annotated attributes, and `dict[str, …]`
    describe an object: it is the structured content. Of all else the structured content is `{"result": …}`, for it must
    be an object. A class that says nothing of what is in it, such as `object` or a bare `list`, describes nothing.

    Raises whatever pydantic does for an annotation that has no schema.
    """
    if annotation is None or (described := _described(annotation)) is None:
        return None
    adapter: TypeAdapter[Any] = TypeAdapter(described)
    schema = _inlined(_schema_of(adapter))
    is_wrapped = not _is_object(annotation) or schema.get("type") != "object"
    if is_wrapped:
        definitions = {key: schema.pop(key) for key in ("$defs",) if key in schema}
        schema = {**definitions, "type": "object", "properties": {"result": schema}, "required": ["result"]}
    return schema, Conversion(adapter, is_wrapped)


def _described(annotation: Any) -> Any:
    """Return the annotation as pydantic can read it, or `None` for a class that says nothing of what is in it."""
    kind: Any = bare(annotation)
    if not _is_class(kind) or kind in _PRIMITIVES or issubclass(kind, BaseModel):
        return annotation
    if typing_extensions.is_typeddict(kind):
        return _readable(kind)
    if not (hints := {name: hint for name, hint in get_type_hints(kind).items() if not name.startswith("_")}):
        return None
    return annotation if is_dataclass(kind) else _model_of(kind, hints)


def _is_object(annotation: Any) -> bool:
    kind = bare(annotation)
    if get_origin(kind) is dict:
        return get_args(kind)[0] is str
    return _is_class(kind) and kind not in _PRIMITIVES


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and get_origin(kind) is None


def bare(annotation: Any) -> Any:
    """Return an annotation without its metadata."""
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


# -- which annotations are alike --------------------------------------------------------------------------------------


def _key_of_field(field: _Field) -> Hashable | None:
    """Return a value that is equal for fields with one schema but for their descriptions; `None` if there is none."""
    default: object = field.default
    kind = type(default)
    if default is not ... and kind not in _EXACT and not issubclass(kind, Enum):
        return None
    return _hashable((_key(field.annotation, described=False), kind, repr(default)))


def _hashable(key: Hashable) -> Hashable | None:
    try:
        hash(key)
    except Exception:  # of a class that has a hash of its own, or can't have one
        return None
    return key


def _key(annotation: Any, *, described: bool = True) -> Hashable:
    """Return what an annotation consists of: `==` is not enough, since `int | str == str | int`."""
    origin: Any = get_origin(annotation)
    if origin is None:
        leaf: Hashable = annotation
        return leaf
    if origin is Literal:
        return (origin, *((type(value), value) for value in cast("tuple[object, ...]", get_args(annotation))))
    if origin is Annotated:
        base, *metadata = get_args(annotation)
        return (Annotated, _key(base), *(_key_of_metadata(one, described) for one in metadata))
    return (origin, *map(_key, get_args(annotation)))


def _key_of_metadata(metadata: Hashable, described: bool) -> Hashable:
    if not isinstance(metadata, FieldInfo):
        return metadata
    if _REST_OF(metadata) != _NO_MORE:
        return metadata
    description = metadata.description if described else metadata.description is None
    return (FieldInfo, description, *metadata.metadata)
