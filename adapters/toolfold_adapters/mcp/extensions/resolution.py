"""`tools/resolve` for the tools that call others: what a call would do, before it is made (a draft; SPEC NXT-2).

A host asks for approval by what a tool says of itself: whether it reads, destroys, may be repeated, or reaches further.
`call_tool` can say nothing of that: it is as the tool inside it is. So it is marked for clients of the extension, and
the answer for a call of it is that of the tool inside; of several calls, the most careful one. In front of other
servers, the server of the tool inside is asked, if it has the extension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from toolfold import Component
from toolfold.spi import quoted, table

from ..answer.asked import capabilities_of, lacking
from ..answer.render import dumped
from ..handlers import RequestContext, RequestHandlers
from ..request import Request, is_modern
from .called import Called, tools_called

EXTENSION = "io.modelcontextprotocol/tool-resolution"
RESOLVE = "tools/resolve"

_SAFE: Mapping[str, bool] = {
    "readOnlyHint": True,
    "destructiveHint": False,
    "idempotentHint": True,
    "openWorldHint": False,
}
"""The value of each hint that asks for the least care."""


def tool_resolution(server: Server[Any], handlers: RequestHandlers) -> None:
    """Have a server answer `tools/resolve`: what `build_server` takes as `extend`."""
    server.extensions[EXTENSION] = {}
    server.middleware.insert(0, Resolution(handlers))


@define(eq=False)
class Resolution:
    """Middleware of a server, which marks the tools that call others and says what a call of one would do."""

    _handlers: RequestHandlers

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answer a request of the modern era that resolves a call, or lists tools; of any other, let others."""
        if ctx.request_id is None or not is_modern(ctx) or ctx.method not in ("tools/list", RESOLVE):
            return await call_next(ctx)
        declares = (table(capabilities_of(ctx).get("extensions")) or {}).get(EXTENSION) == {}
        if ctx.method == "tools/list":
            answer: dict[str, Any] = dumped(await call_next(ctx))
            answer = {**answer, "cacheScope": "private"}  # it depends on what is declared
            return {**answer, "tools": self._marked(ctx, answer["tools"])} if declares else answer
        if not declares:
            raise lacking({"extensions": {EXTENSION: {}}})
        return await self._resolved(ctx, call_next)

    def _marked(self, ctx: RequestContext, tools: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        proxies = self._handlers.delivery(Request.of(ctx)).proxies
        mark = {EXTENSION: {"resolvable": True}}
        return [{**one, "_meta": {**one.get("_meta", {}), **mark}} if one["name"] in proxies else one for one in tools]

    async def _resolved(self, ctx: RequestContext, call_next: CallNext) -> dict[str, Any]:
        """Return what a call would do.

        Raises:
            MCPError: The tool is not one that can be resolved, there is none such inside, or the arguments do not fit.
        """
        name = str((ctx.params or {}).get("name"))
        with self._handlers.answering(ctx, name) as request:
            proxy = self._handlers.delivery(request, name=name).proxies.get(name)
            calls = () if proxy is None else tuple(map(_checked, await tools_called(ctx, self._handlers)))
        if proxy is not None:
            inside = [await _of(component, one, call_next) for component, one in calls]
            cautious = {hint: _most_careful(hint, [one[hint] for one in inside]) for hint in _SAFE}
            return {"resultType": "complete", "name": name, "annotations": _within(proxy.component, cautious)}
        try:
            return dumped(await call_next(ctx))
        except MCPError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            said = f"{quoted(name)} is as it says of itself: it can't be resolved."
            raise MCPError(code=INVALID_PARAMS, message=said) from error


def _checked(called: Called) -> tuple[Component, RequestContext]:
    """Return the tool of a call, and the call alone; raises if there is none, or its arguments do not fit."""
    if called.component is None:
        raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {quoted(called.name)}")
    if called.component.arguments is not None:
        called.component.arguments.check(called.name, called.arguments)
    return called.component, called.alone


async def _of(component: Component, ctx: RequestContext, call_next: CallNext) -> Mapping[str, bool]:
    """Return the hints of a call: as the server of the tool says, or else as the tool does."""
    own = hints_of(component)
    try:
        said = table(dumped(await call_next(ctx)).get("annotations")) or {}
    except MCPError:  # it has no say, or can't tell: then a host goes by what the tool says
        return own
    return _within(component, {**own, **said})


def _most_careful(hint: str, given: Iterable[Any]) -> bool:
    safe = _SAFE[hint]
    return safe if all(one is safe for one in given) else not safe


def _within(component: Component, hints: Mapping[str, bool]) -> dict[str, bool]:
    """Return the hints of a call, none of which asks for more care than the tool itself does."""
    if not table(component.definition.get("annotations")):
        return {**hints}
    own = hints_of(component)
    return {hint: safe if own[hint] is safe else hints[hint] for hint, safe in _SAFE.items()}


def hints_of(component: Component) -> dict[str, bool]:
    """Return all four hints of a tool: those that it does not give are as the protocol says of such tools."""
    given = table(component.definition.get("annotations")) or {}
    reads = given.get("readOnlyHint") is True
    unless_given = {"readOnlyHint": False, "destructiveHint": not reads, "idempotentHint": reads, "openWorldHint": True}
    return {
        hint: given[hint] if isinstance(given.get(hint), bool) else otherwise
        for hint, otherwise in unless_given.items()
    }
