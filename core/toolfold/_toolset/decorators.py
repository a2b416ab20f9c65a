"""Declaring tools and groups by decorators, and what a mark means when its function is registered (SPEC 15).

A mark changes nothing about its function or class: it is looked up when the function is registered, on its own or as
part of a toolkit (see `toolkits`). The decorators work bare and called (SPEC KIT-8).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, Unpack, overload

from .._catalog.components import Kind, words
from .._schema.fields import input_of, output_of
from .._values import frozen
from ..errors import InvalidDefinition
from .handlers import is_typed, named, taken_by
from .options import (
    OF_GROUP_MARKS,
    OF_KIND,
    OF_TOOLKITS,
    GroupMarkOptions,
    PromptOptions,
    ResourceOptions,
    ToolkitOptions,
    ToolOptions,
    checked_options,
    merged,
)

T = TypeVar("T", bound=Callable[..., Any])
C = TypeVar("C", bound=type[Any])
Options = Mapping[str, Any]

GROUP_MARK = "__toolfold_group__"
TOOLKIT_MARK = "__toolkit__"
_MARK = "__toolfold_mark__"
_LAMBDA = (lambda: None).__name__
"""What Python names functions that have no name."""


@frozen
class Mark:
    """What a function is marked as, with the options of its registration."""

    kind: Kind
    options: Options


@overload
def tool(function: T, /, *, name: str | None = None, **options: Unpack[ToolOptions]) -> T: ...
@overload
def tool(name: str, /, **options: Unpack[ToolOptions]) -> Callable[[T], T]: ...
@overload
def tool(*, name: str | None = None, **options: Unpack[ToolOptions]) -> Callable[[T], T]: ...
def tool(target: Any = None, /, **options: Any) -> Any:
    """Mark a function or method as a tool, for `ToolSet.include`, `ToolSet.tool` and `ToolSet.register`.

    Several marks on one function merge; the outer one wins. Returns the function unchanged. Raises `InvalidDefinition`
    for unknown options, wrong schemas and handlers that take too much (SPEC KIT-1 to KIT-3, KIT-8).
    """
    return decorator(target, options, partial(_mark, "tool"))


@overload
def prompt(function: T, /, *, name: str | None = None, **options: Unpack[PromptOptions]) -> T: ...
@overload
def prompt(name: str, /, **options: Unpack[PromptOptions]) -> Callable[[T], T]: ...
@overload
def prompt(*, name: str | None = None, **options: Unpack[PromptOptions]) -> Callable[[T], T]: ...
def prompt(target: Any = None, /, **options: Any) -> Any:
    """Mark a function or method as a prompt, as `tool` does, for `ToolSet.include` and `ToolSet.register_prompt`."""
    return decorator(target, options, partial(_mark, "prompt"))


def resource(uri: str, /, **options: Unpack[ResourceOptions]) -> Callable[[T], T]:
    """Mark a function or method as a resource, for `ToolSet.include` and `ToolSet.register_resource`; see `tool`.

    A toolkit's resource has the name of its function unless it is given one.
    """
    return of_uri("resource", uri, options, partial(_mark, "resource", uri=uri))


def resource_template(uri_template: str, /, **options: Unpack[ResourceOptions]) -> Callable[[T], T]:
    """Mark a function or method as a resource template; see `resource` and `ToolSet.register_resource_template`."""
    return of_uri("resource_template", uri_template, options, partial(_mark, "resource_template", uri=uri_template))


@overload
def toolkit(target: C, /, **options: Unpack[ToolkitOptions]) -> C: ...
@overload
def toolkit(**options: Unpack[ToolkitOptions]) -> Callable[[C], C]: ...
def toolkit(target: Any = None, /, **options: Any) -> Any:
    """Set options for everything that a class declares, unless its functions override them.

    Returns the class unchanged. A subclass inherits the options.

    SPEC KIT-4.
    """

    def mark(kind: Any, options: Options) -> Any:
        if not inspect.isclass(kind):
            raise InvalidDefinition(named(kind), f"only classes can be toolkits; a module says {TOOLKIT_MARK} = {{…}}")
        setattr(kind, TOOLKIT_MARK, checked_options(kind.__name__, options, OF_TOOLKITS))
        return kind

    return decorator(target, options, mark)


@overload
def group(target: T, /, *, name: str | None = None, **options: Unpack[GroupMarkOptions]) -> T: ...
@overload
def group(name: str, /, **options: Unpack[GroupMarkOptions]) -> Callable[[T], T]: ...
@overload
def group(*, name: str | None = None, **options: Unpack[GroupMarkOptions]) -> Callable[[T], T]: ...
def group(target: Any = None, /, **options: Any) -> Any:
    """Mark a class as a group, or a method as one that returns a group below its own.

    On a class the options are those of `ToolSet.register_group`; hooks may be names of its methods. On a method they
    override the class's for this place. A group's name is the method's option, else the class's option, else the
    class's name in snake case (SPEC NAM-3). Returns the class or method unchanged.

    SPEC KIT-7.
    """

    def mark(marked: Any, options: Options) -> Any:
        if not (inspect.isclass(marked) or inspect.isfunction(marked)):
            raise InvalidDefinition(named(marked), "only classes and methods can be groups")
        setattr(marked, GROUP_MARK, checked_options(marked.__name__, options, {*OF_GROUP_MARKS, "name"}))
        return marked

    return decorator(target, options, mark)


def decorator(target: Any, options: Options, apply: Callable[[Any, Options], Any]) -> Any:
    """Return what a decorator returns: `apply(target, options)`, or without a target a function that waits for one.

    A text in place of the target is the option `name`.
    """
    if isinstance(target, str):
        if options.get("name") is not None:
            raise InvalidDefinition(target, f"it is given a second name, {options['name']!r}: leave one of them out")
        target, options = None, {**options, "name": target}
    if target is not None:
        return apply(target, options)

    def decorate(target: Any) -> Any:
        return apply(target, options)

    return decorate


def options_of(kind: Kind, name: str, handler: Any, options: Options) -> dict[str, Any]:
    """Return the options of something to register: its options, over those of its handler's mark (SPEC KIT-4, KIT-8).

    Raises:
        InvalidDefinition: An option is wrong, or the handler is marked as something of another kind.
    """
    given = checked_options(name, options, OF_KIND[kind])
    if (mark := mark_of(handler)) is None:
        return given
    if mark.kind != kind:
        problem = f"{named(handler)} is marked as a {words(mark.kind)}, and can't be registered as a {words(kind)}"
        raise InvalidDefinition(name, problem)
    return merged(mark.options, given)


def mark_of(function: Any) -> Mark | None:
    """Return what a function or method is marked as, or `None`."""
    mark = getattr(function, _MARK, None)
    return mark if isinstance(mark, Mark) else None


def name_of(function: Any, given: str | None = None) -> str:
    """Return the name of a tool: the one that is given, else its mark's, else its function's (SPEC NAM-3).

    Raises `InvalidDefinition` if it has none.
    """
    mark = mark_of(function)
    name: str | None = given or (mark and mark.options.get("name")) or getattr(function, "__name__", None)
    if name is None or name == _LAMBDA:
        raise InvalidDefinition(named(function), "it has no name of its own, so give it one: name=")
    return name


def of_uri(kind: Kind, uri: Any, options: Any, apply: Callable[[Any, Options], Any]) -> Callable[[T], T]:
    """Return a decorator of what is named by a URI, or raise `InvalidDefinition` if it is used without one."""
    if not isinstance(uri, str):
        example = "notes://today" if kind == "resource" else "notes://{day}"
        raise InvalidDefinition(named(uri), f'a {words(kind)} is marked with its URI, such as @{kind}("{example}")')
    return lambda function: apply(function, options)


# -- marks ------------------------------------------------------------------------------------------------------------


def _mark(kind: Kind, function: Any, options: Options, uri: str | None = None) -> Any:
    if not inspect.isfunction(function):
        raise InvalidDefinition(named(function), "only functions and methods can be tools, prompts and resources")
    held = mark_of(function) or Mark(kind, {})
    if held.kind != kind:
        raise InvalidDefinition(function.__name__, f"it is marked as a {words(held.kind)} already")
    name = str(options.get("name") or function.__name__)
    given = checked_options(name, options, {*OF_KIND[kind], "name"})
    both = merged(held.options, given if uri is None else {**given, "uri": uri})
    _check(kind, name, function, both)
    setattr(function, _MARK, Mark(kind, both))
    return function


def _check(kind: Kind, name: str, function: Callable[..., Any], options: Options) -> None:
    """Raise `InvalidDefinition` for what is wrong whatever the function will be registered with (SPEC KIT-2, KIT-3)."""
    if kind == "tool":
        output_of(name, options)
        if input_of(name, options) is None:
            return
    elif is_typed(function) is not False:
        return  # it is checked when it is registered
    around = function.__qualname__.rpartition(".")[0]
    is_method = around and not around.endswith("<locals>")  # or static, and then checked when it is included
    taken_by(name, function, 1 if is_method else 0)
