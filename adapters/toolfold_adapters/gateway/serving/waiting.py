"""Has calls wait for the servers that they need, or says what is the matter with these (SPEC GWY-4, GWY-11).

Without a cache, a gateway is open before it knows what its servers offer. A call that opens a group of such a server,
or calls one of its tools, waits until it has started or failed, which takes `start_timeout` at most. A search can be of
any server: it waits for all that are starting, but not for long, and goes without those that are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types

from toolfold.spi import table

from ...mcp.handlers import RequestHandlers
from ...names import WIRE_SEPARATOR
from ..upstream.upstream import Upstream
from .downstream import ServerContext

if TYPE_CHECKING:
    from ..gateway import Gateway

SEARCH_SECONDS = 5.0


class Waiting:
    """Answers calls of tools once the servers that they need have started."""

    def __init__(self, gateway: Gateway, handlers: RequestHandlers) -> None:
        self._gateway = gateway
        self._handlers = handlers

    async def call(self, ctx: ServerContext, params: types.CallToolRequestParams) -> Any:
        """Answer a call of a tool."""
        if (withheld := self._withheld(params.name, params.arguments or {})) is not None:
            return _refusal(withheld)
        needed, named = self._needed(params.name, params.arguments or {})
        if not needed:
            return self._inside(params) or await self._handlers.call(ctx, params)
        with self._handlers.answering(ctx, params.name), anyio.move_on_after(None if named else SEARCH_SECONDS):
            await _found_out(needed if named else [one for one in needed if not one.reason])
        missing = " ".join(f"{one.name} {one.condition}" for one in needed if one.known is None)
        if not missing:
            return self._inside(params) or await self._handlers.call(ctx, params)
        text = f"{missing} Ask again later, or do without."
        if named:
            return _refusal(text)
        answer = await self._handlers.call(ctx, params)
        result = table(answer)
        if result is None or "content" not in result:
            return answer
        note = {"type": "text", "text": f"Not all servers have said what they offer. {text}"}
        return {**result, "content": [*result["content"], note]}

    def _inside(self, params: types.CallToolRequestParams) -> types.CallToolResult | None:
        """Return the groups of a server that was listed as one itself until it had started, if that is opened."""
        catalog = self._gateway.tools.catalog
        component = catalog.tools.get(params.name)
        if component is None or component.control is None or component.control[0] != "load":
            return None
        assert component.loader is not None
        server = (params.arguments or {}).get(component.loader.argument)
        if not isinstance(server, str) or server in catalog.index or server not in self._gateway.config.upstreams:
            return None
        own = self._gateway.registration.groups_of(server)
        lines = [f"- {one.path}: {one.description}" for one in catalog.groups if one.path in own and one.controls]
        text = "\n".join([f"{server} is no group now: its tools are in these. Open the one that you need.", *lines])
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)]) if lines else None

    def _withheld(self, name: str, arguments: Mapping[str, Any]) -> str | None:
        """Return why a tool is not there that changed since it was approved, if one is called (SPEC GWY-11)."""
        if name in self._gateway.reserved:
            name = str(arguments.get("name"))
        if name in self._gateway.tools.catalog.tools or not self._gateway.registration.withholds(name):
            return None
        return f"The tool {name!r} has changed and is withheld until its operator has approved it: `toolfold approve`."

    def _needed(self, name: str, arguments: Mapping[str, Any]) -> tuple[list[Upstream], bool]:
        """Return the servers of which nothing is known that a call needs, and whether it names them."""
        unknown = list(self._gateway.unknown)
        if unknown and name in self._gateway.reserved:
            name, arguments = str(arguments.get("name")), {"arguments": arguments.get("arguments")}
        catalog = self._gateway.tools.catalog
        component = catalog.tools.get(name)
        if not unknown or (component is not None and component.control is None):
            return [], False
        if component is not None and component.control is not None and component.control[0] == "find":
            return unknown, False
        texts = {name, *_texts(arguments)}
        config = self._gateway.config
        named = [one for one in unknown if not config.prefixed or any(_is_of(one.key, text) for text in texts)]
        if named:
            return named, True
        known = catalog.index.keys() - set(config.paths().values())
        return ([], False) if component is not None and texts & known else (unknown, False)


def _refusal(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)


async def _found_out(upstreams: Iterable[Upstream]) -> None:
    async with anyio.create_task_group() as tasks:
        for upstream in upstreams:
            tasks.start_soon(upstream.found_out)


def _is_of(server: str, name: str) -> bool:
    """Return whether a tool or a group is a server's, or the group of all that it has, by its name."""
    return name == server or name.startswith((f"{server}{WIRE_SEPARATOR}", f"{server}."))


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts anywhere in the arguments of a call."""
    left: list[Any] = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            left += cast("Mapping[str, Any]", one).values()
        elif isinstance(one, list):
            left += one
