"""Composite tools: one parameter picks a mode, and only the modes that are available now are offered (SPEC 13).

A user declares `Modes`; registration checks them against the tool's schema. Which of them are available is decided by
`visibility` alone, which restricts a call and renders a list accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from attrs import evolve, field

from .._names import is_text
from .._plain import table
from .._schema.arguments import Arguments, compile_schema
from .._usercode import is_async
from .._values import frozen
from ..errors import InvalidDefinition
from .rules import Predicate, View

Count = Callable[[View], int]


_ELSEWHERE = ("$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if")
"""The keywords by which a schema could define the accepted strings elsewhere than in its own `enum`."""


@frozen
class Mode:
    """One mode of a composite tool.

    SPEC MOD-1, MOD-2.

    Args:
        available: Whether there is a use for it now: a predicate of the view, fast and not async. Always by default.
        count: How much there is for it now, as a function of the view; clients read it in `_meta.data_counts` of each
            list. If only counts change, no notification is sent: clients see it when they list again, for another
            change or after `ToolSet.notify_list_changed` (SPEC MOD-2).
    """

    available: Predicate | None = None
    count: Count | None = None


def _kept(modes: Mapping[str, Mode]) -> Mapping[str, Mode]:
    return MappingProxyType(dict(modes))


@frozen
class Modes:
    """The modes of a composite tool: `Modes("what", {"errors": Mode(), "network": Mode(available=…)})`.

    SPEC MOD-1.

    Args:
        parameter: The name of the parameter that picks a mode. Its schema is a text with an `enum` of the modes in
            place, such as a `Literal` makes, or a text without one, which gets it.
        modes: The modes by name, in the order in which clients read them.
    """

    parameter: str
    modes: Mapping[str, Mode] = field(converter=_kept)

    @property
    def changing(self) -> bool:
        """Whether the definition that clients read can change."""
        return any(mode.available is not None or mode.count is not None for mode in self.modes.values())

    @property
    def counted(self) -> bool:
        """Whether any mode has a count."""
        return any(mode.count is not None for mode in self.modes.values())


def with_modes(name: str, modes: Any, arguments: Arguments) -> Arguments:
    """Return the arguments of a tool with the `enum` of its mode parameter in declared order.

    Raises:
        InvalidDefinition: The modes are wrong in themselves, or do not fit the schema; it names tool and mode.
    """
    if not isinstance(modes, Modes):
        raise InvalidDefinition(name, f"its modes are a {type(modes).__name__}, and must be given as Modes(…)")
    _check_modes(name, modes)
    parameter: Any = table(arguments.schema.get("properties", {}).get(modes.parameter))
    if parameter is None:
        raise InvalidDefinition(name, f"its modes are of the parameter {modes.parameter!r}, which its schema has not")
    if any(key in parameter for key in _ELSEWHERE) or parameter.get("type", "string") != "string":
        raise InvalidDefinition(
            name,
            f"the schema of its mode parameter {modes.parameter!r} must be a text with its enum in place, or without "
            "one; in a signature that is a Literal, or str",
        )
    _check_enum(name, modes, parameter)
    return restricted(name, arguments, modes.parameter, tuple(modes.modes))


def _check_modes(name: str, modes: Modes) -> None:
    declared: Mapping[Any, Any] = modes.modes
    if not declared:
        raise InvalidDefinition(name, "it has no modes; Modes needs at least one Mode by name")
    for mode, made in declared.items():
        if not is_text(mode):
            raise InvalidDefinition(name, f"its mode {mode!r} must be named by a text")
        if not isinstance(made, Mode):
            raise InvalidDefinition(name, f"its mode {mode!r} is a {type(made).__name__}, and must be a Mode")
        for what, function in (("predicate", made.available), ("count", made.count)):
            if function is not None and not callable(function):
                raise InvalidDefinition(name, f"the {what} of its mode {mode!r} can't be called")
            if is_async(function):
                raise InvalidDefinition(name, f"the {what} of its mode {mode!r} is async, and must answer at once")


def _check_enum(name: str, modes: Modes, parameter: Mapping[str, Any]) -> None:
    values = [parameter["const"]] if "const" in parameter else parameter.get("enum")
    if values is None:
        return
    if extra := [mode for mode in modes.modes if mode not in values]:
        raise InvalidDefinition(name, f"its mode {extra[0]!r} is not in the enum of {modes.parameter!r}")
    if missing := [value for value in values if value not in modes.modes]:
        raise InvalidDefinition(name, f"the enum of {modes.parameter!r} has {missing[0]!r}, which is none of its modes")


def restricted(name: str, arguments: Arguments, parameter: str, modes: tuple[str, ...]) -> Arguments:
    """Return arguments that accept only `modes`. A default that is none of them is no default."""
    properties: dict[str, Any] = arguments.schema["properties"]
    narrow = {key: value for key, value in properties[parameter].items() if key != "const"}
    required = list(arguments.schema.get("required", ()))
    if "default" in narrow and narrow["default"] not in modes:
        del narrow["default"]
        required = [*required, *({parameter} - set(required))]
    schema = {**arguments.schema, "properties": {**properties, parameter: {**narrow, "enum": list(modes)}}}
    if required:
        schema["required"] = required
    return evolve(arguments, schema=schema, validator=compile_schema(name, schema, "input schema"))
