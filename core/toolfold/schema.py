"""Schemas of arguments: from signatures or given as JSON Schema; checked at registration, validated at each call.

Whatever form a schema comes in, it ends as one JSON Schema 2020-12 whose root is an object (SPEC REG-6), compiled once.
A typed Python function has a pydantic model beside it, which fills in defaults and makes the annotated types
(SPEC KIT-2, CALL-2).
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_type_hints

import jsonschema_rs
from attrs import field, frozen
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

from .errors import InvalidArguments, InvalidDefinition

if TYPE_CHECKING:
    from .fields import Fields

NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

DIALECTS: Mapping[str, type[jsonschema_rs.Validator]] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
}


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not part of the schema, and schemas are never fetched")


def table(value: object) -> dict[str, Any] | None:
    """Return `value` if it is a JSON object, else `None`."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def compile_schema(name: str, schema: Any, what: str, *, mask: str | None = None) -> jsonschema_rs.Validator:
    """Return a validator of `schema`, or raise `InvalidDefinition` for `name` if it is not valid (SPEC REG-6).

    The dialect is 2020-12 unless `$schema` names an older one, as the schemas of many existing servers do. With `mask`,
    messages have it in place of what was validated.
    """
    if not isinstance(schema, Mapping):
        raise InvalidDefinition(name, f"its {what} is {type(schema).__name__}, and must be a JSON object")
    given = dict(cast("Mapping[str, Any]", schema))
    dialect = DIALECTS.get(str(given.get("$schema", "")).rstrip("#"), jsonschema_rs.Draft202012Validator)
    try:
        return dialect(given, retriever=_refuse_remote, mask=mask)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        problem = getattr(error, "message", str(error)).splitlines()[0]
        raise InvalidDefinition(name, f"its {what} is not valid JSON Schema: {problem}") from error


def plain_json(name: str, value: Any, what: str) -> Any:
    """Return a deep copy of `value` as plain JSON data that UTF-8 can carry, or raise `InvalidDefinition`."""
    try:
        return json.loads(json.dumps(value, ensure_ascii=False, allow_nan=False, default=_plain_mapping).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDefinition(name, f"its {what} is not JSON: {error}") from error


def check_text(name: str, what: str, value: Any) -> str | None:
    """Return `value` if it is a text that UTF-8 can carry, or `None`; else raise `InvalidDefinition` for `name`."""
    if value is not None and not isinstance(value, str):
        raise InvalidDefinition(name, f"its {what} is {type(value).__name__}, and must be a text")
    return value if value is None else str(plain_json(name, value, what))


def _plain_mapping(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


@frozen(eq=False)
class Arguments:
    """How the arguments of one tool are described and checked.

    `model` is there for a typed function only: it turns checked JSON into the annotated Python values, under the names
    in `parameters`, which maps a parameter to its field of the model. `fields` is there for a field specification only,
    and fills in defaults; else the arguments stay as they are (SPEC KIT-3). `memo` is for what others work out once.
    """

    schema: Mapping[str, Any]
    validator: jsonschema_rs.Validator = field(repr=False)
    model: type[BaseModel] | None = None
    parameters: Mapping[str, str] = field(factory=dict[str, str])
    fields: Fields | None = None
    memo: dict[Any, Any] = field(init=False, factory=dict[Any, Any], repr=False)

    @classmethod
    def from_schema(cls, name: str, schema: Any) -> Arguments:
        """Return the arguments described by a JSON Schema mapping; raises `InvalidDefinition` (SPEC REG-6)."""
        plain = plain_json(name, schema, "input schema")
        validator = compile_schema(name, plain, "input schema")
        if plain.get("type") != "object":
            raise InvalidDefinition(name, 'its input schema must have the root type "object"')
        return cls(plain, validator)

    @classmethod
    def from_signature(cls, name: str, function: Callable[..., Any], skip: frozenset[str]) -> Arguments:
        """Return the arguments described by a function's annotations; parameters in `skip` are left out."""
        fields, parameters = _fields(name, function, skip)
        try:
            model = create_model("arguments", __config__=ConfigDict(extra="forbid"), **fields)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                schema = model.model_json_schema(by_alias=True)
        except (PydanticUserError, TypeError, Warning) as error:
            raise InvalidDefinition(
                name, f"no schema follows from its signature: {str(error).splitlines()[0]}"
            ) from error
        arguments = cls.from_schema(name, _untitled(schema))
        return cls(arguments.schema, arguments.validator, model, parameters)

    def problems(self, arguments: Any) -> dict[str, str]:
        """Return what is wrong with `arguments`: a place to what is expected there; empty if nothing is."""
        found: dict[str, str] = {}
        for error in self.validator.iter_errors(arguments):
            for place, expectation in _told(error):
                found.setdefault(place, expectation)
        return found

    def check(self, name: str, arguments: Any) -> dict[str, Any]:
        """Return the arguments as the handler takes them, or raise `InvalidArguments` (SPEC CALL-2)."""
        if problems := self.problems(arguments):
            raise InvalidArguments(name, problems)
        if self.fields is not None:
            return self.fields.filled(arguments)
        if self.model is None:
            return dict(arguments)
        try:
            values = self.model.model_validate(arguments)
        except ValidationError as error:
            raise InvalidArguments(name, {_place(e["loc"]): str(e["msg"]) for e in error.errors()}) from error
        return {parameter: getattr(values, slot) for parameter, slot in self.parameters.items()}


_UNNAMED: Mapping[str, str] = {
    "additionalProperties": "it has properties that are not allowed",
    "unevaluatedProperties": "it has properties that are not allowed",
    "propertyNames": "a property has a name that is not allowed",
}
"""What is said where the message of a validator would quote the names in a value."""


@frozen(eq=False)
class Output:
    """How the structured results of one tool are described and checked (SPEC KIT-6)."""

    schema: Mapping[str, Any]
    validator: jsonschema_rs.Validator = field(repr=False)

    @classmethod
    def from_schema(cls, name: str, schema: Any) -> Output:
        """Return the results described by a JSON Schema mapping; raises `InvalidDefinition` (SPEC REG-6)."""
        plain = plain_json(name, schema, "output schema")
        return cls(plain, compile_schema(name, plain, "output schema", mask="it"))

    def problems(self, structured: Any) -> dict[str, str]:
        """Return what is wrong with a result: a place to what is expected there, without what was found."""
        found: dict[str, str] = {}
        for error in self.validator.iter_errors(structured):
            expectation = _UNNAMED.get(str(error.kind.name), error.message)
            found.setdefault(_place(error.instance_path, "result"), expectation)
        return found


def _fields(name: str, function: Callable[..., Any], skip: frozenset[str]) -> tuple[dict[str, Any], dict[str, str]]:
    fields: dict[str, Any] = {}
    parameters: dict[str, str] = {}
    hints = hints_of(name, function)
    for position, parameter in enumerate(signature_of(name, function)):
        if parameter.name in skip:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise InvalidDefinition(name, f"its parameter {parameter} can't be given by name, as arguments are")
        default = ... if parameter.default is parameter.empty else parameter.default
        slot = f"p{position}"
        fields[slot] = (hints.get(parameter.name, Any), Field(default, alias=parameter.name))
        parameters[parameter.name] = slot
    return fields, parameters


def hints_of(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of a function, resolved, or raise `InvalidDefinition` for `name`."""
    annotated: Any = function
    while isinstance(annotated, partial):
        annotated = annotated.func
    if not (inspect.isroutine(annotated) or inspect.isclass(annotated)):
        annotated = type(annotated).__call__
    try:
        return get_type_hints(annotated, include_extras=True)
    except Exception as error:  # annotations may be any expression, evaluated here
        raise InvalidDefinition(name, f"its annotations can't be resolved: {error}") from error


def signature_of(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, or raise `InvalidDefinition` for `name` if it does not tell them."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise InvalidDefinition(name, "its handler has no signature to read; wrap it in a function") from error


def _untitled(schema: Any) -> Any:
    """Return a schema without the titles that pydantic derives from names: they cost tokens and say nothing."""
    if isinstance(schema, list):
        return [_untitled(item) for item in cast("list[object]", schema)]
    if (given := table(schema)) is None:
        return schema
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if key in ("properties", "$defs"):
            named = table(value) or {}
            kept[key] = {name: _untitled(item) for name, item in named.items()}
        elif key in ("default", "const", "enum", "examples"):
            kept[key] = value
        elif key != "title":
            kept[key] = _untitled(value)
    return kept


def _told(error: jsonschema_rs.ValidationError) -> Iterator[tuple[str, str]]:
    """Yield the place and the expectation of an error; where no alternative fits, of those that came furthest."""
    branches: list[list[jsonschema_rs.ValidationError]] = getattr(error.kind, "context", [])
    inner = [alternative for branch in branches for alternative in branch]
    depth = max((len(alternative.instance_path) for alternative in inner), default=0)
    if depth > len(error.instance_path):
        for alternative in inner:
            if len(alternative.instance_path) == depth:
                yield from _told(alternative)
    else:
        yield _place(error.instance_path), ", or ".join(dict.fromkeys(one.message for one in inner)) or error.message


def _place(path: Any, root: str = "arguments") -> str:
    return root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
