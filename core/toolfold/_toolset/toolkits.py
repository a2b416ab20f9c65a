"""Toolkits: all that the functions of an instance or a module declare, registered at once (SPEC KIT-4, KIT-7).

A toolkit is an instance of a class, or a module, whose functions are marked with `@tool`, `@prompt`, `@resource` or
`@resource_template`. What all of them have in common is said of a class by `@toolkit(category="Files")`, in a module by
`__toolkit__ = {"category": "Files"}`. A registration goes over the mark of a function, and that over the toolkit.

First the groups are registered, since tools are put into them; then everything else.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, cast

from .._catalog.components import Component, Kind, words
from .._names import snake_case
from .._values import frozen
from ..errors import DuplicateName, InvalidDefinition
from .decorators import GROUP_MARK, TOOLKIT_MARK, Mark, mark_of
from .handlers import named, needed_of
from .options import HOOKS, OF_KIND, OF_TOOLKITS, checked_options, merged
from .registration import Registration

_OF_ONE = ("name", "title", "description", "input", "output", "input_schema", "output_schema", "modes")
"""Options of a single tool only."""


@frozen
class _Member:
    """A marked function of a toolkit: where it is written, and the options that its toolkit gives it."""

    origin: str
    name: str
    function: Any
    mark: Mark
    place: str | None
    defaults: Mapping[str, Any]


def include(tools: Registration, declared: Any, options: Mapping[str, Any]) -> None:
    """Register what `declared` declares; `options` are those of `ToolSet.include`, which undoes it all on an error."""
    label = _label(declared)
    given = checked_options(label, options, {*OF_KIND["tool"], "name"})
    group = given.pop("group", None)
    if inspect.isclass(declared):
        raise InvalidDefinition(label, "include an instance of the class, not the class")
    if inspect.isroutine(declared) and hasattr(declared, GROUP_MARK):
        raise InvalidDefinition(label, f"@group marks classes, and methods that return a group: include {label}()")
    is_group = GROUP_MARK in vars(_kind(declared))
    place = _register_group(tools, declared, group, {}) if is_group else group
    mark = mark_of(declared)
    single = [_Member(label, label, declared, mark, group, {})] if mark is not None else []
    members = single or list(_members(tools, declared, place, {}))
    if not members and not is_group:
        raise InvalidDefinition(label, "it declares nothing with @tool or @group")
    _check_of_one(label, given, members, is_group)
    made: dict[tuple[Kind, str], str] = {}
    for member in members:
        component = _register(tools, label, member, _options(member, given, group), made)
        made[component.kind, component.name] = member.origin


def _check_of_one(label: str, given: Mapping[str, Any], members: list[_Member], is_group: bool) -> None:
    """Raise `InvalidDefinition` for what fits a single tool, unless there is just one."""
    for option in given:
        if option not in _OF_ONE:
            continue
        if is_group:
            problem = "it is a group: say it of the group or of the tool, where that is declared"
        elif len(members) != 1:
            several = ", ".join(member.origin for member in members)
            problem = f"it declares {several}: say it where that tool is declared"
        elif option not in _fitting(members[0].mark.kind):
            problem = f"it declares a {words(members[0].mark.kind)}"
        else:
            continue
        raise InvalidDefinition(label, f"{option} is an option of one tool, and {problem}")


def _options(member: _Member, given: Mapping[str, Any], group: str | None) -> dict[str, Any]:
    """Return the options of one member: by the registration, else by its mark, else by its toolkit (SPEC KIT-4)."""
    fitting = _fitting(member.mark.kind)
    common, inherited = (
        {option: value for option, value in layer.items() if option in fitting} for layer in (given, member.defaults)
    )
    options = merged(merged({"name": member.name, "group": member.place, **inherited}, member.mark.options), common)
    return options if group is None or member.place != group else {**options, "group": group}


def _fitting(kind: Kind) -> frozenset[str]:
    return OF_KIND[kind] | {"name"}


def _register(
    tools: Registration, label: str, member: _Member, options: dict[str, Any], made: Mapping[tuple[Kind, str], str]
) -> Component:
    kind = member.mark.kind
    try:
        return tools.add(kind, options.pop("name" if kind in ("tool", "prompt") else "uri"), member.function, options)
    except DuplicateName as error:
        if (other := made.get((kind, error.name))) is None:
            raise
        both = f"{other} and {member.origin} would both be the {words(kind)} {error.name!r}"
        raise InvalidDefinition(label, f"{both}: give one of them another name") from error


def _members(tools: Registration, declared: Any, place: str | None, above: Mapping[str, Any]) -> Iterator[_Member]:
    """Yield the marked functions of a toolkit and of the groups in it, which are registered on the way."""
    defaults = {**above, **_defaults(declared)}
    for name, function in _functions(declared):
        origin = f"{_label(declared)}.{name}"
        if (mark := mark_of(function)) is not None:
            yield _Member(origin, name, function, mark, place, defaults)
        elif (edge := getattr(function, GROUP_MARK, None)) is not None and not inspect.isclass(function):
            inner = _returned(origin, function)
            path = _register_group(tools, inner, place, edge)
            yield from _members(tools, inner, path, defaults)


def _functions(declared: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(declared)):
        if isinstance(inspect.getattr_static(declared, name, None), property):
            continue
        function = getattr(declared, name)
        if callable(function):
            yield name, function


def _returned(origin: str, method: Any) -> Any:
    """Return the group that a method marked with `@group` returns, or raise `InvalidDefinition`."""
    needed = ", ".join(p.name for p in needed_of(inspect.signature(method).parameters.values()))
    if needed or inspect.iscoroutinefunction(method):
        problem = f"needs ({needed})" if needed else "is async"
        raise InvalidDefinition(
            origin, f"@group marks a method that returns a group when called with nothing, and this one {problem}"
        )
    inner = method()
    if inspect.isclass(inner) or not _declares(inner):
        problem = "and not an instance of a class that declares tools or is marked with @group"
        raise InvalidDefinition(origin, f"it is marked with @group and returned {inner!r}, {problem}")
    return inner


def _declares(inner: Any) -> bool:
    if GROUP_MARK in vars(_kind(inner)):
        return True
    return any(mark_of(function) or hasattr(function, GROUP_MARK) for _, function in _functions(inner))


def _defaults(declared: Any) -> dict[str, Any]:
    """Return the options that a toolkit gives all its tools (SPEC KIT-4)."""
    given: object = getattr(declared, TOOLKIT_MARK, {})
    if not isinstance(given, Mapping):
        raise InvalidDefinition(_label(declared), f"its {TOOLKIT_MARK} must be a mapping")
    return checked_options(_label(declared), cast("Mapping[str, Any]", given), OF_TOOLKITS, f"its {TOOLKIT_MARK}")


def _register_group(tools: Registration, declared: Any, parent: str | None, edge: Mapping[str, Any]) -> str:
    kind = _kind(declared)
    options: dict[str, Any] = {**vars(kind).get(GROUP_MARK, {}), **edge}
    name = options.pop("name", None) or snake_case(kind.__name__)
    description = options.pop("description", inspect.cleandoc(kind.__doc__) if kind.__doc__ else "")
    for hook_name in HOOKS:
        if isinstance(given := options.get(hook_name), str):
            method = getattr(declared, given, None)
            if method is None:
                raise InvalidDefinition(name, f"its {hook_name} names the method {given!r}, which it does not have")
            options[hook_name] = method
    return tools.add_group(name, parent, description, options).path


def _kind(declared: object) -> type[object]:
    return type(declared)


def _label(declared: object) -> str:
    is_named = isinstance(declared, ModuleType | type) or inspect.isroutine(declared)
    return named(declared if is_named else _kind(declared))
