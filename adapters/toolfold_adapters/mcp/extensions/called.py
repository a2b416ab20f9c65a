"""The tools that a call is of: for a tool that calls others, those inside (SPEC NXT-2).

A call is only looked at here: no session is begun for it, no group is opened, and no hook runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolfold import Component, InvalidArguments, Snapshot
from toolfold.spi import available, frozen, opened_for, table

from ...names import HANDLE_META
from ..address.handle import HandleStates, carried_handle
from ..address.principal import PrincipalSessions
from ..answer.delivery import Delivery
from ..answer.proxy import CallTools
from ..handlers import RequestContext, RequestHandlers
from ..request import Request, component_called, own_client
from .groups import Disclosure


@frozen(eq=False)
class Called:
    """A tool that is called.

    Attributes:
        name: Its name on the wire.
        arguments: What it is called with.
        component: The tool, or `None` if it can't be called.
        alone: The request as it would be if it were of this call alone.
    """

    name: str
    arguments: dict[str, Any]
    component: Component | None
    alone: RequestContext


async def tools_called(ctx: RequestContext, handlers: RequestHandlers) -> tuple[Called, ...]:
    """Return the tools of a request to call one, or to say what a call would do, in the state that it names.

    Raises:
        ToolfoldError: What it says is no call, or names no state.
        MCPError: Its caller may call nothing.
    """
    params = ctx.params or {}
    name, arguments = str(params.get("name")), table(params.get("arguments") or {})
    if arguments is None:
        raise InvalidArguments(name, {"arguments": "they are no object"})
    delivery = handlers.delivery(Request.of(ctx), name=name)
    calls, given = [(name, arguments)], None
    if (proxy := delivery.proxies.get(name)) is not None and handlers.tools.catalog.groups:
        call = proxy.unpack(arguments)
        calls, given = [(call.name, call.arguments)], call.handle
        if isinstance(proxy, CallTools):
            calls = [(one["name"], one.get("arguments", {})) for one in call.arguments["calls"]]
    address = delivery.address
    handle = address.handle_of(Request.of(ctx), given) if isinstance(address, HandleStates) else None
    meta: Any = {**(ctx.meta or {}), **({HANDLE_META: handle} if handle and handle != own_client.get() else {})}
    snapshot = await _state(replace(ctx, meta=meta), handlers, delivery)
    view = handlers.tools.runtime.view_of(snapshot, handlers.wire.to_wire)
    opens = proxy is not None and bool(own_client.get())

    def component_of(called: str) -> Component | None:
        if isinstance(address, Disclosure) and address.has(ctx, "tool", called):  # in a group that can be fetched
            return component_called(handlers.selections.of(ctx).catalog, handlers.wire, called)
        found = component_called(snapshot.catalog, handlers.wire, called)
        if found is None or (proxy is not None and not isinstance(proxy, CallTools) and not proxy.calls(found)):
            return None
        return found if available(found, view) or (opens and opened_for(found.name, view)) else None

    def called(one: str, inside: Mapping[str, Any]) -> Called:
        of = {**params, "name": one, "arguments": {**inside}}
        return Called(one, {**inside}, component_of(one), replace(ctx, params=of, meta=meta))

    return tuple(called(*one) for one in calls)


async def _state(ctx: RequestContext, handlers: RequestHandlers, delivery: Delivery) -> Snapshot:
    """Return the state that a call would be made in; where it would begin a session, the one that this begins with."""
    request, address, session = Request.of(ctx), delivery.address, ""
    if isinstance(address, PrincipalSessions):
        session = request.principal.key
    elif isinstance(address, HandleStates) and not carried_handle(ctx):
        session = own_client.get()
    if not session:
        async with address.reading(request) as source:
            return source.snapshot
    if (found := await handlers.shared.get(session, reading=True)) is not None:
        handlers.selections.bind(found, request.principal)
        return found.snapshot
    of = handlers.selections.of_caller if isinstance(address, PrincipalSessions) else handlers.selections.of
    return of(ctx).start
