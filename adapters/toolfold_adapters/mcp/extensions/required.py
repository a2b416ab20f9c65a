"""`requiredCapabilities`: what a client must be able to do for a tool (a draft; SPEC NXT-2).

An author says in a tool's meta what the tool may ask its client for and can't do without, by the methods of requests:
`meta={ASKS_META: ["elicitation/create"]}`. Lists then say which capabilities that needs, to every client the same, and
a call from a client without them is refused before the tool runs, also by a tool that calls others. What a tool asks
for without having said so is refused when it asks, as the protocol has it. Of other servers, what their tools say is
passed on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import define
from mcp.server.context import CallNext, HandlerResult
from mcp.server.lowlevel import Server

from toolfold import Catalog, Component, ConfigError
from toolfold.spi import array, quoted, table

from ..answer.asked import NEEDED, capabilities_of, has, lacking, needed_by_method, needed_for
from ..answer.render import dumped
from ..handlers import RequestContext, RequestHandlers
from ..request import Request, is_modern

log = logging.getLogger("toolfold.mcp")

ASKS_META = "dev.toolfold/asks"
"""In the meta of a tool: the methods, or one, of what it may ask its client for and can't do without."""
REQUIRED_META = "io.modelcontextprotocol/requiredCapabilities"
DEPTH = 4
"""How deep capabilities are read that another server says a tool needs: such as a setting of an extension's."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")


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
    handlers.checks.append(_check)


def _wrong(catalog: Catalog) -> Iterator[str]:
    """Yield what is wrong with the tools that say that they ask for what nobody answers."""
    for tool in catalog.tools.values():
        if unknown := [one for one in _asks(tool.definition) if not needed_by_method(one)]:
            yield f"{tool.name}: {ASKS_META} has {quoted(str(unknown[0]))}; there are {', '.join(NEEDED)}."


@define(eq=False)
class Required:
    """Middleware of a server, which adds to lists what tools need."""

    _handlers: RequestHandlers
    _catalog: Catalog

    async def __call__(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Answer a request of the modern era that lists tools; of any other, let others."""
        if ctx.request_id is None or not is_modern(ctx) or ctx.method != "tools/list":
            return await call_next(ctx)
        if (catalog := self._handlers.tools.catalog) is not self._catalog:
            self._catalog = catalog
            for wrong in _wrong(catalog):
                log.warning("%s", wrong)
        answer = dumped(await call_next(ctx))
        return {**answer, "tools": [_annotated(one) for one in answer["tools"]]}


def _check(request: Request, tool: Component) -> None:
    """Refuse to call a tool for a client of the modern era that does not declare what the tool needs."""
    if request.modern and not has(capabilities_of(request.ctx), needed := needed_by(tool.definition)):
        raise lacking(needed)


def needed_by(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the capabilities that a tool needs of its clients, by its definition."""
    meta = table(definition.get("_meta")) or {}
    return _capabilities(meta.get(REQUIRED_META), DEPTH) or needed_for(_asks(definition))


def _capabilities(given: Any, depth: int) -> dict[str, Any]:
    """Return what is a capability of what another server says, who may say anything: objects and flags, by name."""
    found = (table(given) or {}).items() if depth else ()
    known = ((name, one) for name, one in found if _NAME.fullmatch(name) and (one is True or table(one) is not None))
    return {name: one is True or _capabilities(one, depth - 1) for name, one in known}


def _asks(definition: Mapping[str, Any]) -> Sequence[Any]:
    """Return what a tool says that it asks for: a list, or one method."""
    given = (table(definition.get("_meta")) or {}).get(ASKS_META, [])
    methods = array(given)
    return [given] if methods is None else methods


def _annotated(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition with what its tool needs; what else another server says there is left out."""
    meta, needed = table(definition.get("_meta")) or {}, needed_by(definition)
    if not needed and REQUIRED_META not in meta:
        return definition
    others = {key: one for key, one in meta.items() if key != REQUIRED_META}
    return {**definition, "_meta": {**others, **({REQUIRED_META: needed} if needed else {})}}
