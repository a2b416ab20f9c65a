"""Declaring tools and groups: decorators, toolkits, and classes whose methods are groups (SPEC 15).

A toolkit is an instance of a class, or a module, whose functions are marked with `@tool`, `@prompt`, `@resource` or
`@resource_template`. What all of them have in common is said of a class by `@toolkit(category="Files")`, in a module by
`__toolkit__ = {"category": "Files"}`. A registration goes over the mark of a function, and that over the toolkit (SPEC
KIT-4).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from attrs import field, frozen

from .catalog import Hook, Kind, Spec
from .dispatch import taken_by
from .errors import DuplicateName, InvalidDefinition
from .fields import input_of, output_of
from .names import snake_case
from .visibility import Visibility

if TYPE_CHECKING:
    from .registration import Registration

T = TypeVar("T", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])

_MARK = "__toolfold_mark__"
_GROUP = "__toolfold_group__"
_DEFAULTS = "__toolkit__"
_HOOKS = ("on_activate", "on_deactivate", "on_rollback")
_OF_KITS = ("category", "hidden", "visible")
_OF_ONE = ("name", "title", "description", "input", "output", "input_schema", "output_schema", "modes")
_OF_TOOLS = ("category", "tags", "annotations", "check_output")
_NOT_OF: Mapping[Kind, tuple[str, ...]] = {
    "tool": (),
    "prompt": _OF_TOOLS,
    "resource": (*_OF_TOOLS, "flat"),
    "resource_template": (*_OF_TOOLS, "flat"),
}


@frozen
class Mark:
    """What a function is marked as, with the options of its registration."""

    kind: Kind
    options: Mapping[str, Any]


@overload
def tool(target: T, /) -> T: ...
@overload
def tool(target: None = None, /, *, name: str | None = None, **options: Any) -> Callable[[T], T]: ...
def tool(target: Any = None, /, **options: Any) -> Any:
    """Mark a function or method as a tool, for `ToolSet.include` to register.

    The options are those of `ToolSet.register`, `always=True` for a tool that is visible whether or not its group is
    active, and `visible=False` for `hidden=True`. Several marks on one function merge; the outer one wins. Returns the
    function as it is. Raises `InvalidDefinition` for wrong schemas and for handlers that take too much (SPEC KIT-1 to
    KIT-3).
    """
    return _marker("tool", options) if target is None else _marker("tool", options)(target)


@overload
def prompt(target: T, /) -> T: ...
@overload
def prompt(target: None = None, /, *, name: str | None = None, **options: Any) -> Callable[[T], T]: ...
def prompt(target: Any = None, /, **options: Any) -> Any:
    """Mark a function or method as a prompt, as `tool` does; the options are those of `ToolSet.register_prompt`."""
    return _marker("prompt", options) if target is None else _marker("prompt", options)(target)


def resource(uri: str, /, **options: Any) -> Callable[[T], T]:
    """Mark a function or method as a resource, as `tool` does; the options are those of `ToolSet.register_resource`.

    Its name is the function's unless given.
    """
    return _marker("resource", {"uri": uri, **options})


def resource_template(uri_template: str, /, **options: Any) -> Callable[[T], T]:
    """Mark a function or method as a resource template; see `resource` and `ToolSet.register_resource_template`."""
    return _marker("resource_template", {"uri": uri_template, **options})


def toolkit(
    *, category: str | None = None, hidden: bool | None = None, visible: bool | None = None
) -> Callable[[C], C]:
    """Say of a class what holds for all that it declares, unless its functions say otherwise (SPEC KIT-4).

    Returns the class as it is. A subclass takes it over.
    """
    said = {"category": category, "hidden": hidden, "visible": visible}

    def mark(kind: C) -> C:
        setattr(kind, _DEFAULTS, said)
        return kind

    return mark


@overload
def group(target: T, /) -> T: ...
@overload
def group(target: None = None, /, *, name: str | None = None, **options: Any) -> Callable[[T], T]: ...
def group(target: Any = None, /, **options: Any) -> Any:
    """Mark a class as a group, or a method as one that returns a group below its own (SPEC KIT-7).

    On a class the options are those of `ToolSet.register_group`; hooks may be names of its methods. On a method they
    override the class's for this place. A group's name is the method's option, else the class's option, else the
    class's name in snake case (SPEC NAM-3). Returns the class or method as it is.
    """

    def mark(marked: Any) -> Any:
        if not (inspect.isclass(marked) or inspect.isfunction(marked)):
            raise InvalidDefinition(repr(marked), "only classes and methods can be groups")
        setattr(marked, _GROUP, options)
        return marked

    return mark if target is None else mark(target)


def include(tools: Registration, declared: Any, parent: str | None, options: Mapping[str, Any]) -> None:
    """Register what `declared` declares, below the group `parent`; `options` override those of its tools."""
    if inspect.isclass(declared):
        raise InvalidDefinition(declared.__name__, "include an instance of the class, not the class")
    if of_one := [option for option in _OF_ONE if option in options]:
        raise InvalidDefinition(_label(declared), f"{of_one[0]} is said of one tool, where it is declared")
    place = parent
    if _GROUP in vars(_kind(declared)):
        place = _register_group(tools, declared, parent, {})
    inclusion = _Inclusion(tools, _label(declared), resolved(options))
    found = inclusion.members(declared, place, {})
    if not found and place == parent:
        raise InvalidDefinition(_label(declared), "it declares nothing with @tool or @group")


@frozen
class _Inclusion:
    """One call of `include`: what it says of everything, and which function has made what so far."""

    tools: Registration
    label: str
    options: Mapping[str, Any]
    made: dict[tuple[Kind, str], str] = field(factory=dict[tuple[Kind, str], str])

    def members(self, declared: Any, place: str | None, above: Mapping[str, Any]) -> bool:
        """Register the members of a toolkit or group; return whether there were any."""
        defaults = {**above, **_defaults(declared)}
        found = False
        for name, member in _members(declared):
            mark = getattr(member, _MARK, None)
            if isinstance(mark, Mark):
                found = True
                self.member(f"{_label(declared)}.{name}", name, member, mark, place, defaults)
            elif (edge := getattr(member, _GROUP, None)) is not None and not inspect.isclass(member):
                found = True
                inner = member()
                path = _register_group(self.tools, inner, place, edge)
                self.members(inner, path, defaults)
        return found

    def member(
        self, origin: str, name: str, member: Any, mark: Mark, place: str | None, defaults: Mapping[str, Any]
    ) -> None:
        common = {key: said for key, said in self.options.items() if key not in _NOT_OF[mark.kind]}
        inherited = {key: said for key, said in defaults.items() if key not in _NOT_OF[mark.kind]}
        options = {"group": place, **inherited, **mark.options, **common}
        try:
            spec = _registered(self.tools, mark.kind, name, member, options)
        except DuplicateName as error:
            if (other := self.made.get((mark.kind, error.name))) is None:
                raise
            both = f"{other} and {origin} would both be the {mark.kind.replace('_', ' ')} {error.name!r}"
            raise InvalidDefinition(self.label, f"{both}: give one of them another name") from error
        self.made[mark.kind, spec.name] = origin


def _registered(tools: Registration, kind: Kind, name: str, member: Any, options: dict[str, Any]) -> Spec:
    options = {"name": name, **options}
    match kind:
        case "tool":
            return tools.register(options.pop("name"), member, **options)
        case "prompt":
            return tools.register_prompt(options.pop("name"), member, **options)
        case "resource":
            return tools.register_resource(options.pop("uri"), member, **options)
        case _:
            return tools.register_resource_template(options.pop("uri"), member, **options)


def _defaults(declared: Any) -> dict[str, Any]:
    """Return what a toolkit says of all its tools (SPEC KIT-4)."""
    given: object = getattr(declared, _DEFAULTS, {})
    if not isinstance(given, Mapping):
        raise InvalidDefinition(_label(declared), f"its {_DEFAULTS} must be a mapping")
    said = cast("Mapping[str, Any]", given)
    if unknown := [key for key in said if key not in _OF_KITS]:
        raise InvalidDefinition(
            _label(declared), f"its {_DEFAULTS} says {unknown[0]!r}, and may say {', '.join(_OF_KITS)}"
        )
    return resolved(said)


def _register_group(tools: Registration, declared: Any, parent: str | None, edge: Mapping[str, Any]) -> str:
    kind = _kind(declared)
    options: dict[str, Any] = {**vars(kind).get(_GROUP, {}), **edge}
    name = options.pop("name", None) or snake_case(kind.__name__)
    options.setdefault("description", inspect.cleandoc(kind.__doc__) if kind.__doc__ else "")
    for hook_name in _HOOKS:
        if isinstance(given := options.get(hook_name), str):
            method = getattr(declared, given, None)
            if method is None:
                raise InvalidDefinition(name, f"its {hook_name} names the method {given!r}, which it does not have")
            options[hook_name] = method
    return tools.register_group(name, parent=parent, **options).path


def _kind(declared: object) -> type[object]:
    return type(declared)


def _label(declared: object) -> str:
    return declared.__name__ if isinstance(declared, ModuleType) else type(declared).__name__


def _members(declared: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(declared)):
        if isinstance(inspect.getattr_static(declared, name, None), property):
            continue
        member = getattr(declared, name)
        if callable(member):
            yield name, member


def _marker(kind: Kind, options: Mapping[str, Any]) -> Callable[[Any], Any]:
    def mark(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise InvalidDefinition(repr(function), "only functions and methods can be tools")
        held = getattr(function, _MARK, Mark(kind, {}))
        if held.kind != kind:
            raise InvalidDefinition(function.__name__, f"it is marked as a {held.kind.replace('_', ' ')} already")
        merged = {**held.options, **resolved(options)}
        _check(kind, merged.get("name") or function.__name__, function, merged)
        setattr(function, _MARK, Mark(kind, merged))
        return function

    return mark


def _check(kind: Kind, name: str, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise `InvalidDefinition` for what is wrong whatever the function will be registered with (SPEC KIT-2, KIT-3)."""
    if kind == "tool":
        output_of(name, options)
        if input_of(name, options) is None:
            return
    around = function.__qualname__.rpartition(".")[0]
    is_method = around and not around.endswith("<locals>")  # or static, and then checked when it is included
    taken_by(name, function, 1 if is_method else 0)


def resolved(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a registration for those of a decorator, with `always` and `visible` resolved.

    `hidden` goes over `visible`. What is `None` is not said.
    """
    made = {key: value for key, value in options.items() if value is not None}
    if made.pop("always", False):
        made["visibility"] = Visibility.always()
    if (visible := made.pop("visible", None)) is not None:
        made.setdefault("hidden", not visible)
    return made


def name_of(function: Any) -> str:
    """Return the default name of a tool: its function's name (SPEC NAM-3)."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        raise InvalidDefinition(repr(function), "it has no name of its own, so give it one")
    return name


def docstring(function: Any) -> str:
    """Return the docstring of a function, or of a callable object's own class, cleaned; `""` if there is none."""
    documented = function if inspect.isroutine(function) or inspect.isclass(function) else None
    return inspect.getdoc(documented) or "" if documented is not None else ""


def hook(function: Any) -> Hook | None:
    """Return a hook that is called with a `HookContext`, whether or not `function` takes one."""
    if function is None or not callable(function):
        return function  # type: ignore[no-any-return]
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function  # type: ignore[no-any-return]
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(required) > 1 or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise InvalidDefinition(getattr(function, "__name__", repr(function)), "a hook takes nothing, or its context")
    takes = any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    if takes:
        return function  # type: ignore[no-any-return]

    def without_context(_context: Any) -> Any:
        return function()

    return without_context
