"""Declaring tools and groups by decorators, and what a mark means when its function is registered (SPEC 15).

A mark changes nothing about its function or class: it is looked up when the function is registered, on its own or as
part of a toolkit (see `toolkits`). The decorators work bare and called (SPEC KIT-8).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar, Unpack, get_args, overload

from attrs import frozen

from .._catalog.components import Kind
from .._schema.fields import input_of, output_of
from .._session.session import HookContext
from .._usercode import InThread, is_async
from ..errors import InvalidDefinition
from ..machine.transaction import Hook
from .handlers import is_typed, taken_by
from .options import (
    HOOKS,
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
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


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
    return _resource("resource", uri, options)


def resource_template(uri_template: str, /, **options: Unpack[ResourceOptions]) -> Callable[[T], T]:
    """Mark a function or method as a resource template; see `resource` and `ToolSet.register_resource_template`."""
    return _resource("resource_template", uri_template, options)


@overload
def toolkit(target: C, /, **options: Unpack[ToolkitOptions]) -> C: ...
@overload
def toolkit(**options: Unpack[ToolkitOptions]) -> Callable[[C], C]: ...
def toolkit(target: Any = None, /, **options: Any) -> Any:
    """Set options for everything that a class declares, unless its functions override them (SPEC KIT-4).

    Returns the class unchanged. A subclass inherits the options.
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
    """Mark a class as a group, or a method as one that returns a group below its own (SPEC KIT-7).

    On a class the options are those of `ToolSet.register_group`; hooks may be names of its methods. On a method they
    override the class's for this place. A group's name is the method's option, else the class's option, else the
    class's name in snake case (SPEC NAM-3). Returns the class or method unchanged.
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


def named(thing: Any) -> str:
    """Return what to call a function, class or anything else in a message."""
    name = getattr(thing, "__name__", None)
    return name if isinstance(name, str) else repr(thing)


def check_marked_uri(kind: Kind, uri: Any) -> None:
    """Raise `InvalidDefinition` if a decorator of resources is used without a URI."""
    if not isinstance(uri, str):
        example = "notes://today" if kind == "resource" else "notes://{day}"
        raise InvalidDefinition(named(uri), f'a {words(kind)} is marked with its URI, such as @{kind}("{example}")')


def words(kind: Kind) -> str:
    """Return a kind as prose."""
    return kind.replace("_", " ")


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


def _resource(kind: Kind, uri: Any, options: Any) -> Callable[[T], T]:
    check_marked_uri(kind, uri)
    return lambda function: _mark(kind, function, options, uri)


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


# -- hooks ------------------------------------------------------------------------------------------------------------


def hooks(group: str, options: Options, *, in_thread: bool) -> dict[str, Hook]:
    """Return the hooks among a group's options, each as a function of a `HookContext` (SPEC HOOK-1).

    The context goes to the parameter that is annotated as `HookContext`, else to the one that must be given. What has a
    default keeps it.

    Raises:
        InvalidDefinition: One can't be called, or needs more than its context; it names the group and the hook.
    """
    opted_out = options.get("on_rollback") is False
    given = [which for which in HOOKS if which in options and not (which == "on_rollback" and opted_out)]
    return {which: _run(options[which], _hook(group, which, options[which]), in_thread) for which in given}


def _run(function: Hook, hook: Hook, in_thread: bool) -> Hook:
    # A hook never waits for a free thread: handlers that wait for its step may hold them all.
    return InThread(hook, limited=False) if in_thread and not is_async(function) else hook


def _hook(group: str, which: str, function: Hook) -> Hook:
    if inspect.iscoroutine(function):
        function.close()
        problem = f"its {which} is what a call of {function.__name__}() returned: give the function itself"
        raise InvalidDefinition(group, f"{problem}, {which}={function.__name__}")
    if not callable(function):
        raise InvalidDefinition(group, f"its {which} is {function!r}, which can't be called")
    if (parameters := _parameters(function)) is None:
        return function  # without a signature to read, it is given the context
    needed = needed_of(parameters)
    annotated = [p for p in parameters if p.kind not in _VARIADIC and _means_context(p.annotation)]
    taking = annotated[:1] or [p for p in needed[:1] if p.kind is not p.KEYWORD_ONLY]
    if any(p not in taking for p in needed):
        names = ", ".join(p.name for p in needed)
        raise InvalidDefinition(
            group, f"its {which}, {named(function)}, needs ({names}), and a hook is given nothing, or its HookContext"
        )
    if taking:
        return _given(function, taking[0], first=taking[0] is parameters[0])
    return function if any(p.kind is p.VAR_POSITIONAL for p in parameters) else _given(function)


def _given(function: Hook, taking: inspect.Parameter | None = None, *, first: bool = False) -> Hook:
    """Return a hook as a function of its context, which it takes as that parameter, or not at all."""
    if taking is not None and first and taking.kind is not taking.KEYWORD_ONLY:
        return function

    def adapted(context: HookContext) -> Any:
        return function(**{taking.name: context}) if taking is not None else function()

    return adapted


def needed_of(parameters: Iterable[inspect.Parameter]) -> list[inspect.Parameter]:
    """Return the parameters without which a function can't be called."""
    return [p for p in parameters if p.default is p.empty and p.kind not in _VARIADIC]


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """Return the parameters of a function, with its annotations read if they can be, or `None` if it has none."""
    for read in (True, False):
        try:
            return list(inspect.signature(function, eval_str=read).parameters.values())
        except Exception:  # an annotation may be anything
            continue
    return None


def _means_context(annotation: Any) -> bool:
    if isinstance(annotation, str):
        return "HookContext" in annotation
    return annotation is HookContext or HookContext in get_args(annotation)
