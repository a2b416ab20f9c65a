"""Declaring tools and groups: decorators, and classes whose methods are tools and groups (SPEC KIT-1, KIT-2, KIT-7)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .catalog import Hook
from .errors import InvalidDefinition
from .names import snake_case
from .visibility import Visibility

if TYPE_CHECKING:
    from .toolset import ToolSet

T = TypeVar("T", bound=Callable[..., Any])

_TOOL = "__toolfold_tool__"
_GROUP = "__toolfold_group__"
_HOOKS = ("on_activate", "on_deactivate", "on_rollback")


@overload
def tool(target: T, /) -> T: ...
@overload
def tool(target: None = None, /, *, name: str | None = None, **options: Any) -> Callable[[T], T]: ...
def tool(target: Any = None, /, **options: Any) -> Any:
    """Mark a function or method as a tool, for `ToolSet.include` to register.

    The options are those of `ToolSet.register`, and `always=True` for a tool that is visible whether or not its group
    is active. Several marks on one function merge; the outer one wins. Returns the function as it is.
    """

    def mark(function: Any) -> Any:
        if not inspect.isfunction(function):
            raise InvalidDefinition(repr(function), "only functions and methods can be tools")
        setattr(function, _TOOL, {**getattr(function, _TOOL, {}), **options})
        return function

    return mark if target is None else mark(target)


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


def include(tools: ToolSet, declared: Any, parent: str | None, options: Mapping[str, Any]) -> None:
    """Register what `declared` declares, below the group `parent`; `options` override those of its tools."""
    if inspect.isclass(declared):
        raise InvalidDefinition(declared.__name__, "include an instance of the class, not the class")
    place = parent
    if _GROUP in vars(_kind(declared)):
        place = _register_group(tools, declared, parent, {})
    found = _include_members(tools, declared, place, options)
    if not found and place == parent:
        raise InvalidDefinition(_kind(declared).__name__, "it declares nothing with @tool or @group")


def _include_members(tools: ToolSet, declared: Any, place: str | None, options: Mapping[str, Any]) -> bool:
    found = False
    for name, member in _members(declared):
        if (marked := getattr(member, _TOOL, None)) is not None:
            found = True
            merged: dict[str, Any] = {"group": place, **tool_options({**marked, **options})}
            tools.register(merged.pop("name", None) or name, member, **merged)
        elif (edge := getattr(member, _GROUP, None)) is not None and not inspect.isclass(member):
            found = True
            inner = member()
            path = _register_group(tools, inner, place, edge)
            _include_members(tools, inner, path, options)
    return found


def _register_group(tools: ToolSet, declared: Any, parent: str | None, edge: Mapping[str, Any]) -> str:
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


def _members(declared: Any) -> Iterator[tuple[str, Any]]:
    for name in sorted(dir(declared)):
        if isinstance(inspect.getattr_static(declared, name, None), property):
            continue
        member = getattr(declared, name)
        if callable(member):
            yield name, member


def tool_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of `ToolSet.register` for those of a decorator, with `always` and `visible` resolved."""
    made = dict(options)
    if made.pop("always", False):
        made["visibility"] = Visibility.always()
    if (visible := made.pop("visible", None)) is not None and "hidden" not in made:
        made["hidden"] = not visible
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
