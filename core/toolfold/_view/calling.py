"""Calling a component: its arguments checked, its handler run, its answer made a result (SPEC 9)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from .._catalog.components import Component, Kind
from .._plain import encodable
from .._usercode import is_failure
from ..errors import InvalidArguments, ProtocolError, StoreError, ToolError
from .reasons import refusal
from .results import ToolResult, arguments_refused, internal_error, to_result
from .visibility import RequestView, available

log = logging.getLogger("toolfold")

Progress = Callable[[float, float | None, str | None], Awaitable[None]]


async def no_progress(progress: float, total: float | None, message: str | None) -> None:
    """Discard the report."""


def find(kind: Kind, name: str, view: RequestView, *, hints: bool) -> Component:
    """Return the component of a name if it is available in a view (SPEC CALL-1, CALL-4).

    Raises `ToolNotFound` otherwise, with the group to open first where `hints` are on; see `reasons.refusal`.
    """
    component = view.snapshot.catalog.components[kind].by_name.get(name)
    if component is None or not available(component, view):
        raise refusal(component, kind, name, view, groups=hints)
    return component


def find_resource(uri: str, view: RequestView, *, hints: bool) -> tuple[Component, Mapping[str, str]]:
    """Return the available resource at a URI, or a template with the values of its variables (SPEC REG-9).

    Raises `ToolNotFound` otherwise, as `find` does.
    """
    catalog = view.snapshot.catalog
    resource = catalog.components["resource"].by_name.get(uri)
    found = [*([] if resource is None else [(resource, dict[str, str]())]), *catalog.matching(uri)]
    for match in found:
        if available(match[0], view):
            return match
    raise refusal(found[0][0] if found else None, "resource", uri, view, groups=hints)


def as_object(name: str, arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, none for `None`, or raise `InvalidArguments` (SPEC CALL-2)."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        problem = f"they are a {type(arguments).__name__}, and must be a mapping of names to values"
        raise InvalidArguments(name, {"arguments": problem})
    given: dict[Any, Any] = {**arguments}
    if unnamed := [key for key in given if not isinstance(key, str)]:
        raise InvalidArguments(name, {"arguments": f"the name {unnamed[0]!r} is no text"})
    return given


async def run(component: Component, arguments: Mapping[str, Any] | None, context: Any, name: str) -> ToolResult:
    """Return the result of calling an available tool, whatever its handler raises (SPEC CALL-2, CALL-3, SAF-2).

    The caller knows it as `name`; its handler is given the `context`.

    Raises:
        ProtocolError: The handler asked for an error of the protocol.
    """
    try:
        result: ToolResult = await fetch(component, arguments, context, to_result, name)
    except InvalidArguments as error:
        return arguments_refused(component, error)
    except ToolError as error:
        return ToolResult.of_text(str(error), is_error=True)
    return result


async def fetch(
    component: Component,
    arguments: Mapping[str, Any] | None,
    context: Any,
    to_answer: Callable[[Any], Any],
    name: str | None = None,
) -> Any:
    """Return the answer of something available (SPEC REG-9, SAF-3).

    Args:
        component: The tool, prompt, resource or template.
        arguments: Its arguments.
        context: What the handler is given.
        to_answer: Makes the answer of what the handler returned.
        name: What the caller knows a tool as.

    Raises:
        InvalidArguments: The arguments do not fit.
        ToolError: The handler raised it for the caller; or it failed in a way that its caller learns nothing
            of, and that is logged in full.
        ProtocolError: The handler asked for that error of the protocol.
    """
    values = as_object(name or component.name, arguments)
    if component.arguments is not None:
        values = component.arguments.check(name or component.name, values)
    try:
        return to_answer(await component.handler(values, context))
    except ProtocolError as error:
        raise _carried(error) from error.__cause__
    except ToolError:
        raise
    except StoreError as error:
        raise ToolError(str(error)) from error
    except BaseException as error:
        if not is_failure(error):
            raise
        kind = component.kind.replace("_", " ")
        log.exception("the handler of the %s %r failed", kind, component.name)
        raise ToolError(internal_error(name or f"The {kind} {component.name}").text) from error


def _carried(error: ProtocolError) -> ProtocolError:
    """Return an error of the protocol that can be encoded as JSON; its data is whatever a handler gave."""
    try:
        data = encodable(error.data)
    except TypeError:
        log.exception("the data of an error of the protocol has no JSON form")
        data = None
    return error if data is error.data else ProtocolError(error.code, error.message, data)
