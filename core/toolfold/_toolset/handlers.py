"""Handlers: the functions of users as functions of arguments and context (SPEC KIT-2)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from attrs import frozen
from pydantic import ValidationError

from .._catalog.components import Handler
from .._limits import enumerated
from .._schema.annotations import SchemaCache
from .._schema.arguments import Arguments, Output
from .._schema.explain import Faults
from .._schema.signatures import docstring_of, hints_of, signature_of, split_docstring
from .._session.session import Context
from .._usercode import caller, is_async_generator
from .._view.results import InputRequired, ToolResult, is_content_type, is_result_type, misfit, result_made, to_result
from ..errors import InvalidDefinition, warn

_OWN = frozenset({"self", "cls"})
_CONTEXTS = frozenset({"context", "ctx"})

log = logging.getLogger("toolfold")


@frozen
class TypedHandler:
    """A typed function as a handler, and what its signature and docstring say.

    `returned` is the annotation of its structured results, or `None`.
    """

    handler: Handler
    arguments: Arguments
    returned: Any
    description: str


def typed_handler(name: str, function: Callable[..., Any], schemas: SchemaCache, *, in_thread: bool) -> TypedHandler:
    """Return the handler of a function whose annotations describe its arguments (SPEC KIT-2).

    A parameter annotated as `Context` is given the context and is no argument. What the docstring says of parameters
    describes those that no `Field` describes.
    """
    _check_callable(name, function)
    hints, parameters = hints_of(name, function), signature_of(name, function)
    named = [parameter.name for parameter in parameters]
    _check_unannotated(name, [one for one in named if one not in hints])
    description, texts = split_docstring(docstring_of(function), named)
    if unknown := texts.keys() - set(named):
        others = f"its parameters are {enumerated(named)}"
        warn(f"The docstring of {name!r} describes {enumerated(sorted(unknown))}, which it does not take: {others}.")
    contexts = frozenset(taken for taken, hint in hints.items() if taken != "return" and _means_context(hint))
    arguments = schemas.arguments(name, [one for one in parameters if one.name not in contexts], hints, texts)
    call = caller(function, in_thread=in_thread)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(**values, **dict.fromkeys(contexts, context))

    return TypedHandler(handle, arguments, structured_part(hints.get("return")), description)


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


def raw_handler(name: str, function: Callable[..., Any], *, in_thread: bool) -> Handler:
    """Return the handler of a function that takes nothing, the arguments, or arguments and context (SPEC KIT-2)."""
    _check_callable(name, function)
    taken = taken_by(name, function)
    call = caller(function, in_thread=in_thread)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(*(values, context)[:taken])

    return handle


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
    arguments = [hint for hint in annotated if not _means_context(hint)]
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
    return ToolResult(result.content, content), output.faults(content)


def _check_callable(name: str, function: Any) -> None:
    if not callable(function):
        raise InvalidDefinition(name, f"its handler is a {type(function).__name__}, which can't be called")
    if is_async_generator(function):
        raise InvalidDefinition(name, "its handler is an async generator, and a call has one result: return a list")


def _is_mapping(hint: Any) -> bool:
    kind = get_origin(_bare(hint)) or _bare(hint)
    return kind in (Any, object) or (isinstance(kind, type) and issubclass(kind, Mapping))


def _means_context(hint: Any) -> bool:
    return hint is Context or Context in get_args(hint)


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


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_result(annotation: Any) -> bool:
    bare = _bare(annotation)
    return bare is ToolResult or is_result_type(bare)


def _has_content(annotation: Any) -> bool:
    bare = _bare(annotation)
    if get_origin(bare) in (Union, UnionType, list, tuple, Sequence):
        return any(map(_has_content, get_args(bare)))
    return is_content_type(bare)
