"""Schemas of arguments and results, checked at registration, with which each call is validated.

Whatever form the schema of arguments comes in, it ends as one JSON Schema 2020-12 whose root is an object (SPEC REG-6),
compiled once. A typed Python function has a pydantic model beside it, which fills in defaults and makes the annotated
types (SPEC KIT-2, CALL-2).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from functools import cached_property
from typing import Any, cast

import jsonschema_rs
from attrs import evolve, field
from pydantic import BaseModel, TypeAdapter, ValidationError

from .._limits import MAX_DEFINITION, MAX_MODEL_VISITS, MAX_PROBLEMS, quoted
from .._memo import Memo, Memory
from .._plain import TooLarge, as_dict, levels, table
from .._values import frozen
from ..errors import InvalidArguments, InvalidDefinition
from .cost import Cost
from .explain import Faults
from .lenient import read_leniently
from .validator import Validator

NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}

HANDLE = "handle"
"""The argument by which a protocol without sessions names a state. Control tools accept it everywhere (SPEC CTL-8)."""

_MOST_ERRORS = 1000
"""How many errors of a model are looked at to name a few: each costs some 5 µs."""


def compile_schema(name: str, schema: Any, what: str, *, mask: str | None = None) -> Validator:
    """Return a validator of `schema`, or raise `InvalidDefinition` for `name` if it is not valid (SPEC REG-6).

    The dialect is 2020-12 unless `$schema` names an older one, as the schemas of many existing servers do. With `mask`,
    messages have it in place of what was validated.
    """
    if not isinstance(schema, Mapping):
        raise InvalidDefinition(name, f"its {what} is {type(schema).__name__}, and must be a JSON object")
    try:
        return Validator(dict(cast("Mapping[str, Any]", schema)), mask=mask)
    except TooLarge as error:
        raise InvalidDefinition(name, f"its {what} {error}") from error
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        problem = quoted(getattr(error, "message", str(error)).splitlines()[0], 1000)
        hint = ", or is too large a one" if problem.endswith('"regex"') else ""
        raise InvalidDefinition(name, f"its {what} is not valid JSON Schema: {problem}{hint}") from error


def plain_json(name: str, value: Any, what: str) -> Any:
    """Return a deep copy of `value` as plain JSON data that UTF-8 can carry, or raise `InvalidDefinition`.

    It is refused beyond the limits on the size and depth of definitions, too (SPEC SAF-1).
    """
    try:
        encoded = json.dumps(value, ensure_ascii=False, allow_nan=False, default=as_dict).encode()
        if len(encoded) > MAX_DEFINITION:
            raise TooLarge(f"has {len(encoded):,} bytes, and may have {MAX_DEFINITION:,}")
        return json.loads(encoded)
    except TooLarge as error:
        raise InvalidDefinition(name, f"its {what} {error}") from error
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidDefinition(name, f"its {what} is not JSON: {error}") from error


def check_text(name: str, what: str, value: Any) -> str | None:
    """Return `value` if it is a text that UTF-8 can carry, or `None`; else raise `InvalidDefinition` for `name`."""
    if value is not None and not isinstance(value, str):
        raise InvalidDefinition(name, f"its {what} is {type(value).__name__}, and must be a text")
    if value is None or (type(value) is str and value.isascii() and len(value) < MAX_DEFINITION // 6):
        return value  # at most six characters of JSON for each
    return str(plain_json(name, value, what))


@frozen(eq=False)
class Arguments:
    """How the arguments of one tool are described and checked.

    `make_model` is set for a typed function only: it makes the model that converts checked JSON into the annotated
    Python values. `parameters` maps each of its parameters to a field of the model. `fields` is there for a field
    specification only, and fills in defaults; else the arguments stay as they are (SPEC KIT-3). Those of control tools
    are `lenient`: they are taken as meant (SPEC GWY-20). `memo` holds what others compute once for them; see `Memo`.
    """

    schema: Mapping[str, Any]
    _compiled: Validator | None = field(default=None, alias="validator", repr=False)
    make_model: Callable[[], type[BaseModel]] | None = None
    parameters: Mapping[str, str] = field(factory=dict[str, str])
    fields: Fields | None = None
    lenient: bool = False
    memo: Memory = field(init=False, factory=dict[Memo[Any, Any], Any], repr=False)

    @classmethod
    def from_schema(cls, name: str, schema: Any) -> Arguments:
        """Return the arguments described by a JSON Schema mapping; raises `InvalidDefinition`.

        SPEC REG-6.
        """
        plain = plain_json(name, schema, "input schema")
        return cls(plain, compile_schema(name, plain, "input schema"))._rooted(name)

    @classmethod
    def unchecked(cls, name: str, schema: Any) -> Arguments:
        """Return arguments that others judge, so that what the schema says beside its root is theirs.

        SPEC GWY-7.
        """
        return cls(plain_json(name, schema, "input schema"))._rooted(name)

    def _rooted(self, name: str) -> Arguments:
        if not isinstance(self.schema, dict) or self.schema.get("type") != "object":
            raise InvalidDefinition(name, 'its input schema must have the root type "object"')
        return self

    @classmethod
    def passing_handle(cls, name: str, schema: Mapping[str, Any]) -> Arguments:
        """Return the arguments described by the schema of a control tool, and the argument `handle`, of no effect."""
        accepted = cls.from_schema(name, {**schema, "properties": {HANDLE: {}, **schema["properties"]}})
        return evolve(accepted, lenient=True)

    @cached_property
    def validator(self) -> Validator:
        """The schema compiled: when it is first needed, if it is certain that it can be."""
        return self._compiled or Validator(dict(self.schema))

    @cached_property
    def model(self) -> type[BaseModel] | None:
        """What makes annotated Python values of checked JSON: made when it is first needed, for it takes long."""
        return self.make_model() if self.make_model is not None else None

    @cached_property
    def _levels(self) -> tuple[int, ...]:
        """How often the model looks at one value so many levels deep, if that grows with the depth; else empty."""
        return Cost(self.schema, tagged=True).levels() if self.make_model is not None else ()

    def read(self, arguments: Any) -> Any:
        """Return the arguments as they are read before they are checked.

        SPEC GWY-20.
        """
        return read_leniently(self.schema, arguments)[0] if self.lenient else arguments

    def faults(self, arguments: Any) -> Faults | None:
        """Return where arguments do not fit the schema: a place to what is expected there; or `None` if they do."""
        return self._read(arguments)[1]

    def check(self, name: str, arguments: Any) -> dict[str, Any]:
        """Return the arguments as the handler takes them, or raise `InvalidArguments`.

        They are handed over as they are where there is nothing to fill in or to make of them.

        SPEC CALL-2.
        """
        arguments, faults = self._read(arguments)
        if faults is not None:
            raise InvalidArguments(name, faults.problems, faults.more)
        if self.fields is not None:
            return self.fields.filled(arguments)
        if self.model is None:
            given: dict[str, Any] = arguments
            return given
        if self._levels:
            self._check_depth(name, arguments)
        try:
            made = self.model.__pydantic_validator__.validate_python(arguments).__dict__
        except ValidationError as error:
            faults = _faults(error)
            raise InvalidArguments(name, faults.problems, faults.more) from error
        return {parameter: made[slot] for parameter, slot in self.parameters.items()}

    def _read(self, arguments: Any) -> tuple[Any, Faults | None]:
        """Return the arguments, as they are meant if that is asked for, and where they do not fit the schema."""
        unread: dict[str, str] = {}
        if self.lenient:
            arguments, unread = read_leniently(self.schema, arguments)
        return arguments, Faults(unread) if unread else self.validator.faults(arguments, "arguments")

    def _check_depth(self, name: str, arguments: Any) -> None:
        """Raise `InvalidArguments` for what would take a model too long that tries its alternatives at every level."""
        found = levels(arguments)
        visits = sum(count * times for count, times in zip(found, self._levels, strict=False))
        if len(found) > len(self._levels) or visits > MAX_MODEL_VISITS:
            problem = f"it is {len(found) - 1} levels deep, and has too many alternatives to try them all at each level"
            raise InvalidArguments(name, {"arguments": problem})


def _faults(error: ValidationError) -> Faults:
    """Return where a value is refused by a model, whose errors are made all at once: not if there are too many."""
    count = error.error_count()
    if count > _MOST_ERRORS:
        return Faults({"arguments": f"{count:,} values are not allowed"})
    found = error.errors(include_url=False, include_context=False, include_input=False)
    places = {_place(one["loc"]): one["msg"] for one in found[:MAX_PROBLEMS]}
    return Faults(places, count - len(places))


@frozen
class Conversion:
    """Makes structured content of what a handler returned, as its annotation says."""

    adapter: TypeAdapter[Any]
    is_wrapped: bool

    def __call__(self, value: Any) -> Any:
        """Return the structured content; raises `pydantic.ValidationError` if the value is not as annotated."""
        made = self.adapter.validate_python(value, by_alias=True, by_name=True)
        if isinstance(made, BaseModel):  # perhaps of a subclass, which retains its own fields
            content = made.model_dump(mode="json", by_alias=True, warnings=False)
        else:
            content = self.adapter.dump_python(made, mode="json", by_alias=True, warnings=False)
        return self.wrapped(content)

    def wrapped(self, content: Any) -> Any:
        """Return content as the object that structured content must be."""
        return {"result": content} if self.is_wrapped else content


@frozen(eq=False)
class Output:
    """How the structured results of one tool are described and checked (SPEC KIT-6).

    `convert` is set where a return annotation describes them: it makes structured content of what the handler returned.
    """

    schema: Mapping[str, Any]
    _compiled: Validator | None = field(default=None, alias="validator", repr=False)
    convert: Conversion | None = field(default=None, repr=False)

    @classmethod
    def from_schema(cls, name: str, schema: Any, convert: Conversion | None = None) -> Output:
        """Return the results described by a JSON Schema mapping; raises `InvalidDefinition`.

        SPEC REG-6.
        """
        plain = plain_json(name, schema, "output schema")
        return cls(plain, compile_schema(name, plain, "output schema", mask="it"), convert)

    @classmethod
    def unchecked(cls, name: str, schema: Any) -> Output:
        """Return results that are not checked here.

        SPEC GWY-7.
        """
        if (plain := table(plain_json(name, schema, "output schema"))) is None:
            raise InvalidDefinition(name, "its output schema must be a JSON object")
        return cls(plain)

    def faults(self, structured: Any) -> Faults | None:
        """Return where a result does not fit, without what was found there; or `None` if it does."""
        assert self._compiled is not None, "results that are not checked have no faults"
        return self._compiled.faults(structured, "result")


def _place(path: Iterable[str | int]) -> str:
    return "arguments" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)


# -- what a field specification fills in ------------------------------------------------------------------------------


ABSENT: Any = object()
"""Stands for the default of a field that has none, since any JSON value may be one."""


@frozen(eq=False)
class Entry:
    """A field to fill in: its default, if it has one, and the fields inside it or its items."""

    name: str
    default: Any = ABSENT
    inner: Fields | None = None


@frozen(eq=False)
class Fields:
    """A compiled field specification: its JSON Schema, and what to fill in."""

    schema: Mapping[str, Any]
    entries: tuple[Entry, ...] = ()

    def filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked arguments with the defaults of absent ones, in the order of the specification."""
        made: dict[str, Any] = {}
        for entry in self.entries:
            if entry.name in given:
                made[entry.name] = filled(entry.inner, given[entry.name])
            elif entry.default is not ABSENT:
                made[entry.name] = deepcopy(entry.default)
        return made


def filled(inner: Fields | None, value: Any) -> Any:
    if inner is None:
        return value
    if isinstance(value, list):
        return [filled(inner, item) for item in cast("list[object]", value)]
    return inner.filled(value)
