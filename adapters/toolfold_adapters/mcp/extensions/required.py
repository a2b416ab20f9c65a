"""`requiredCapabilities`: what a client must be able to do for a tool (a draft; SPEC NXT-2).

An author says in a tool's meta what the tool may ask its client for and can't do without, by the methods of requests:
`meta={ASKS_META: ["elicitation/create"]}`. Lists then say which capabilities that needs, to every client the same, and
a call from a client without them is refused before anything is done. What a tool asks for without having said so is
refused when it asks, as the protocol has it: what it did before that is done, and its author is warned. Of other
servers, what their tools say is passed on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from attrs import define
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from toolfold import Catalog, ConfigError, ToolfoldError
from toolfold.spi import array, enumerated, quoted, table

from ..answer.render import dumped
from ..handlers import RequestContext, RequestHandlers
from ..request import is_modern
from .called import Called, capabilities_of, lacking, tools_called

log = logging.getLogger("toolfold.mcp")

ASKS_META = "dev.toolfold/asks"
"""In the meta of a tool: the methods, or one, of what it may ask its client for and can't do without."""
REQUIRED_META = "io.modelcontextprotocol/requiredCapabilities"
URL = "elicitation/create?mode=url"
"""The method of an elicitation that has its user visit a page."""

NEEDED: Mapping[str, Mapping[str, Any]] = {
    "elicitation/create": {"elicitation": {}},
    URL: {"elicitation": {"url": {}}},
    "sampling/createMessage": {"sampling": {}},
    "roots/list": {"roots": {}},
}
"""The capabilities that a client has who answers a method."""


def required_capabilities(server: Server[Any], handlers: RequestHandlers) -> None:
    """Have a server say what its tools need of clients: what `build_server` takes as `extend`.

    Raises:
        ConfigError: A tool says that it asks for something else than `NEEDED` has. One that is registered later is
            listed as if it did not, and logged.
    """
    catalog = handlers.tools.catalog
    for wrong in _wrong(catalog):
        raise ConfigError(wrong)
    server.middleware.insert(0, Required(handlers, catalog))


def _wrong(catalog: Catalog) -> Iterator[str]:
    """Yield what is wrong with the tools that say that they ask for what nobody answers."""
    for tool in catalog.tools.values():
        if unknown := [one for one in _asks(tool.definition) if not _needed(one)]:
            yield f"{tool.name}: {ASKS_META} has {quoted(str(unknown[0]))}; there are {', '.join(NEEDED)}."


@define(eq=False)
class Required:
    """Middleware of a server, which adds to lists what tools need, and refuses calls from clients without."""

    _handlers: RequestHandlers
    _catalog: Catalog

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answer a request of the modern era that calls a tool, or lists tools; of any other, let others."""
        if ctx.request_id is None or not is_modern(ctx) or ctx.method not in ("tools/list", "tools/call"):
            return await call_next(ctx)
        if ctx.method == "tools/list":
            if (catalog := self._handlers.tools.catalog) is not self._catalog:
                self._catalog = catalog
                for wrong in _wrong(catalog):
                    log.warning("%s", wrong)
            answer = dumped(await call_next(ctx))
            return {**answer, "tools": [_annotated(one) for one in answer["tools"]]}
        able, tools = capabilities_of(ctx), [one.component for one in await self._called(ctx) if one.component]
        for tool in tools:
            if not _has(able, needed := needed_by(tool.definition)):
                raise lacking(needed)
        answer = dumped(await call_next(ctx))
        asked = [_method(one) for one in (table(answer.get("inputRequests")) or {}).values()]
        if not _has(able, needed := needed_for(asked)):
            names = enumerated([tool.name for tool in tools])
            log.warning("%s asked for %s, and has to say so in %s", names, ", ".join(asked), ASKS_META)
            raise lacking(needed)
        return answer

    async def _called(self, ctx: RequestContext) -> tuple[Called, ...]:
        """Return the tools that a request calls; none if it can call none, which its answer says then."""
        try:
            return await tools_called(ctx, self._handlers)
        except (MCPError, ToolfoldError):
            return ()


def needed_by(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities that a tool needs of its clients, by its definition."""
    meta = table(definition.get("_meta")) or {}
    return table(meta.get(REQUIRED_META)) or needed_for(_asks(definition))


def _asks(definition: Mapping[str, Any]) -> Sequence[Any]:
    """Return what a tool says that it asks for: a list, or one method."""
    given = (table(definition.get("_meta")) or {}).get(ASKS_META, [])
    methods = array(given)
    return [given] if methods is None else methods


def needed_for(methods: Iterable[Any]) -> dict[str, Any]:
    """Return the capabilities of a client who answers all of these methods; one that is not known counts for none."""
    needed: dict[str, Any] = {}
    for method in methods:
        for name, inner in _needed(method).items():
            needed[name] = {**needed.get(name, {}), **inner}
    return needed


def _needed(method: Any) -> Mapping[str, Any]:
    return NEEDED.get(method, {}) if isinstance(method, str) else {}


def _method(request: Any) -> str:
    asked = table(request) or {}
    is_url = (table(asked.get("params")) or {}).get("mode") == "url"
    return URL if is_url and asked.get("method") == "elicitation/create" else str(asked.get("method"))


def _annotated(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    needed = needed_by(definition)
    return {**definition, "_meta": {**definition["_meta"], REQUIRED_META: needed}} if needed else definition


def _has(able: Mapping[str, Any], needed: Mapping[str, Any]) -> bool:
    """Return whether capabilities have every key that is needed, at every depth."""
    for name, inner in needed.items():
        found = able.get(name)
        if found is None or not _has(table(found) or {}, table(inner) or {}):
            return False
    return True
