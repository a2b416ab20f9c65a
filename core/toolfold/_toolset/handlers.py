"""Handlers: the functions of users as functions of arguments and context (SPEC KIT-2)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, get_args

from .._catalog.components import Handler
from .._schema.arguments import Arguments, Output, hints_of, signature_of
from .._session.session import Context
from .._usercode import caller
from .._view.results import ToolResult, misfit, to_result
from ..errors import InvalidDefinition

log = logging.getLogger("toolfold")


def typed_handler(name: str, function: Callable[..., Any], *, in_thread: bool) -> tuple[Handler, Arguments]:
    """Return the handler and arguments of a function whose annotations describe its arguments (SPEC KIT-2).

    A parameter annotated as `Context` is given the context and is no argument.
    """
    _check_callable(name, function)
    hints = hints_of(name, function)
    context_parameters = frozenset(taken for taken, hint in hints.items() if taken != "return" and _means_context(hint))
    arguments = Arguments.from_signature(name, function, context_parameters)
    call = caller(function, in_thread=in_thread)

    async def handle(values: dict[str, Any], context: Context) -> Any:
        return await call(**values, **dict.fromkeys(context_parameters, context))

    return handle, arguments


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


def adapted(
    name: str, function: Callable[..., Any], arguments: Arguments | None, *, in_thread: bool
) -> tuple[Handler, Arguments]:
    """Return handler and arguments in the form that fits: raw where the arguments are described, else typed."""
    if arguments is None:
        return typed_handler(name, function, in_thread=in_thread)
    return raw_handler(name, function, in_thread=in_thread), arguments


def checked(name: str, handle: Handler, output: Output) -> Handler:
    """Return a handler whose results fit the output schema, or are errors that say where they do not (SPEC KIT-6).

    Whatever has a JSON form is also structured content, since the schema says what to expect of it.
    """

    async def checked_handle(values: dict[str, Any], context: Context) -> ToolResult:
        result = to_result(await handle(values, context), structured=True)
        if result.is_error or result.needs is not None:
            return result
        if (faults := output.faults(result.structured)) is None:
            return result
        log.error("the result of %r does not fit its output schema: %s", name, faults)
        return misfit(context.to_wire(name), str(faults))

    return checked_handle


def _check_callable(name: str, function: Any) -> None:
    if not callable(function):
        raise InvalidDefinition(name, f"its handler is a {type(function).__name__}, which can't be called")


def _means_context(hint: Any) -> bool:
    return hint is Context or Context in get_args(hint)
