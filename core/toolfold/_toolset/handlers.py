"""The functions of users: handlers as functions of arguments and context, hooks as functions of their context.

What a function takes is read from its signature when it is registered (SPEC KIT-2, HOOK-1).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import ValidationError

from .._catalog.components import Handler
from .._limits import enumerated
from .._schema.annotations import SchemaCache, bare
from .._schema.arguments import Arguments, Output
from .._schema.explain import Faults
from .._schema.signatures import docstring_of, hints_of, signature_of, split_docstring
from .._session.context import Context, HookContext
from .._usercode import InThread, caller, is_async, is_async_generator, is_generator
from .._values import frozen
from .._view.calling import (
    InputRequired,
    ToolResult,
    is_content_type,
    is_result_type,
    misfit,
    result_made,
    to_result,
)
from ..errors import InvalidDefinition, warn
from ..machine.step import Hook
from .options import HOOKS

_OWN = frozenset({"self", "cls"})
_CONTEXTS = frozenset({"context", "ctx"})
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

log = logging.getLogger("toolfold")


@frozen
class Handled:
    """A function as a handler, and its description.

    `arguments` are those that its annotations describe, and `returned` is the annotation of its structured results;
    either is `None` if there is none.
    """

    handler: Handler
    description: str
    arguments: Arguments | None = None
    returned: Any = None


def handled(name: str, function: Callable[..., Any], schemas: SchemaCache, *, typed: bool, in_thread: bool) -> Handled:
    """Return the handler of a function; a `typed` one's annotations describe its arguments (SPEC KIT-2).

    A parameter of a typed one that is annotated as `Context` is given the context and is no argument. What the
    docstring says of parameters describes those that no `Field` describes. Any other takes nothing, the arguments, or
    arguments and context.

    Raises:
        InvalidDefinition: It can't be called so.
    """
    if not callable(function):
        raise InvalidDefinition(name, f"its handler is a {type(function).__name__}, which can't be called")
    if is_async_generator(function):
        raise InvalidDefinition(name, "its handler is an async generator, and a call has one result: return a list")
    if is_generator(function):
        raise InvalidDefinition(name, "its handler is a generator, and a call has one result: return a list")
    call = caller(function, in_thread=in_thread)
    if typed:
        return _typed(name, function, call, schemas)
    taken = taken_by(name, function)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(*(values, context)[:taken])

    return Handled(handle, docstring_of(function))


def _typed(name: str, function: Callable[..., Any], call: Callable[..., Any], schemas: SchemaCache) -> Handled:
    hints, parameters = hints_of(name, function), signature_of(name, function)
    names = [parameter.name for parameter in parameters]
    _check_unannotated(name, [one for one in names if one not in hints])
    description, texts = split_docstring(docstring_of(function), names)
    if unknown := texts.keys() - set(names):
        others = f"its parameters are {enumerated(names)}"
        warn(f"The docstring of {name!r} describes {enumerated(sorted(unknown))}, which it does not take: {others}.")
    contexts = frozenset(taken for taken, hint in hints.items() if taken != "return" and _means(Context, hint))
    arguments = schemas.arguments(name, [one for one in parameters if one.name not in contexts], hints, texts)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(**values, **dict.fromkeys(contexts, context))

    return Handled(handle, description, arguments, structured_part(hints.get("return")))


def _check_unannotated(name: str, parameters: Collection[str]) -> None:
    """Raise `InvalidDefinition` for parameters without annotation that are not meant as arguments (SPEC KIT-2)."""
    for taken in _OWN.intersection(parameters):
        raise InvalidDefinition(
            name,
            f"its parameter {taken!r} would be an argument: mark methods with @toolfold.tool, and include an instance "
            "of their class",
        )
    for taken in _CONTEXTS.intersection(parameters):
        raise InvalidDefinition(
            name,
            f"its parameter {taken!r} would be an argument: annotate it as toolfold.Context, or with what it takes",
        )


def taken_by(name: str, function: Callable[..., Any], bound: int = 0) -> int:
    """Return how many of the arguments and the context a raw handler takes, beyond its first `bound` parameters.

    Raises `InvalidDefinition` if it takes more (SPEC KIT-2).
    """
    parameters = signature_of(name, function)[bound:]
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in positional if p.default is p.empty]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    taken = len(required) if required else min(len(positional), 2)
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        taken = 2
    if taken > 2 or keywords:
        raise InvalidDefinition(
            name, "its handler must take nothing, the arguments, or the arguments and the context, and nothing more"
        )
    return taken


def is_typed(function: Callable[..., Any]) -> bool | None:
    """Return whether the annotations of a handler describe its arguments (SPEC KIT-2); `None` if that is unknown.

    A raw handler takes the arguments as one mapping, which is annotated as a mapping or not at all.
    """
    try:
        hints, parameters = hints_of("", function), signature_of("", function)
    except InvalidDefinition:
        return None
    annotated = [hints[parameter.name] for parameter in parameters if parameter.name in hints]
    arguments = [hint for hint in annotated if not _means(Context, hint)]
    if arguments:
        return not any(map(_is_mapping, arguments))
    return bool(annotated) and len(annotated) == len(parameters)


def checked(name: str, handle: Handler, output: Output) -> Handler:
    """Return a handler whose results fit the output schema, or are errors that say where they do not (SPEC KIT-6).

    Whatever has a JSON form is also structured content, since the schema says what to expect of it.
    """

    async def checked_handle(values: dict[str, Any], context: Context) -> ToolResult:
        result, faults = _structured(await handle(values, context), output)
        if faults is None:
            return result
        log.error("the result of %r does not fit its output schema: %s", name, faults)
        return misfit(context.to_wire(name), str(faults))

    return checked_handle


def _structured(answer: Any, output: Output) -> tuple[ToolResult, Faults | None]:
    """Return an answer as a result with structured content, and where that does not fit."""
    if (result := result_made(answer)) is not None or output.convert is None:
        result = result or to_result(answer, structured=True)
        is_checked = not result.is_error and result.needs is None
        return result, output.faults(result.structured) if is_checked else None
    try:
        content = output.convert(answer)
    except ValidationError:
        result = to_result(answer, structured=True)
        faults = output.faults(output.convert.wrapped(result.structured))
        return result, faults or Faults({"result": "it is not what the return annotation says"})
    try:
        result = to_result(answer)
    except TypeError:  # an instance of a class whose attributes are annotated
        result = to_result(content)
    return ToolResult(ToolResult(result.content, content).readable, content), output.faults(content)


def _is_mapping(hint: Any) -> bool:
    kind = get_origin(bare(hint)) or bare(hint)
    return kind in (Any, object) or (isinstance(kind, type) and issubclass(kind, Mapping))


def _means(context: type[object], hint: Any) -> bool:
    """Return whether an annotation is a class of contexts, or one of the names that it is written by."""
    if isinstance(hint, str):
        return context.__name__ in hint
    return hint is context or context in get_args(hint)


def structured_part(returned: Any) -> Any:
    """Return the part of a return annotation that describes structured content, or `None` (SPEC KIT-6).

    `Annotated[ToolResult, Model]` says so of the structured content of results that the handler makes itself. A request
    for input has none, and content blocks are for the model to read.
    """
    arms = [arm for arm in _arms(returned) if arm is not InputRequired]
    if not arms:
        return None
    if not any(map(_is_result, arms)):
        described = returned if len(arms) == len(_arms(returned)) else Union[tuple(arms)]  # noqa: UP007 - not of a tuple
        return None if _has_content(described) else described
    described, *metadata = get_args(arms[0])[1:] or (None,)
    if len(arms) > 1:
        return None
    return Annotated[(described, *metadata)] if metadata else described


def _arms(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _is_result(annotation: Any) -> bool:
    kind = bare(annotation)
    return kind is ToolResult or is_result_type(kind)


def _has_content(annotation: Any) -> bool:
    kind = bare(annotation)
    if get_origin(kind) in (Union, UnionType, list, tuple, Sequence):
        return any(map(_has_content, get_args(kind)))
    return is_content_type(kind)


# -- hooks ------------------------------------------------------------------------------------------------------------


def hooks(group: str, options: Mapping[str, Any], *, in_thread: bool) -> dict[str, Hook]:
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
    # A hook never waits for a free thread: handlers that wait for its transition may hold them all.
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
    annotated = [p for p in parameters if p.kind not in _VARIADIC and _means(HookContext, p.annotation)]
    taking = annotated[:1] or [p for p in needed[:1] if p.kind is not p.KEYWORD_ONLY]
    if any(p not in taking for p in needed):
        names = ", ".join(p.name for p in needed)
        raise InvalidDefinition(
            group, f"its {which}, {named(function)}, needs ({names}), and a hook is given nothing, or its HookContext"
        )
    if taking and taking[0] is parameters[0] and taking[0].kind is not inspect.Parameter.KEYWORD_ONLY:
        return function
    if not taking and any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    taken = [p.name for p in taking]

    def adapted(context: HookContext) -> Any:
        return function(**dict.fromkeys(taken, context))

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


def named(thing: Any) -> str:
    """Return what to call a function, class or anything else in a message."""
    name = getattr(thing, "__name__", None)
    return name if isinstance(name, str) else repr(thing)
