"""A server of the working group's experiment on deterministic groups, made of a tool set: an adapter for its checks.

Its directory, its groups and its calls are those of a tool set that is served over MCP: `groups/list`, `groups/get` and
`tools/call` of a client that declares the draft extension, and `tools/list` of one that does not. The experiment adds
entries with the size and the digest of a definition, and a revision, which is the digest of all that a caller may see,
both of the canonical JSON of RFC 8785.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import reduce
from hashlib import sha256
from operator import or_
from typing import Any

import mcp_types as types
import rfc8785
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import build_server
from tests.adapters.mcp.test_disclosure import DECLARED, asked
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import ToolError, ToolSet, Visibility

Json = dict[str, Any]

EXPERIMENT = "experimental/deterministic-groups"
MOST_NAMES = 50


def digest(value: Any) -> str:
    """Return the digest of a value's canonical JSON."""
    return f"sha256:{sha256(rfc8785.dumps(value)).hexdigest()}"


def entry_of(tool: Json) -> Json:
    """Return what a manifest says of a tool, without its schema and description."""
    size = len(rfc8785.dumps(tool))
    return {"name": tool["name"], "digest": digest(tool), "size": size, "annotations": tool.get("annotations", {})}


def invalid(**data: Any) -> MCPError:
    return MCPError(code=types.INVALID_PARAMS, message="Invalid params", data=data)


class Catalog:
    """A tool set that serves a fixture to one caller, who is allowed some of its tools."""

    def __init__(self, fixture: Json, allowed: Iterable[str]) -> None:
        self.allowed = set(allowed)
        self.tools = ToolSet("experiment", control="none")
        self._register(fixture)

    async def replace(self, fixture: Json) -> None:
        """Serve another fixture from now on."""
        for group in self.tools.groups():
            await self.tools.unregister_group(group.path)
        self._register(fixture)
        self.tools.notify_list_changed()

    def _register(self, fixture: Json) -> None:
        for name, description in fixture["groups"].items():
            self.tools.register_group(name, description, selectable=True)
        for tool in fixture["tools"]:
            self._register_tool(tool)

    def _register_tool(self, tool: Json) -> None:
        name, about = str(tool["name"]), tool["_meta"][EXPERIMENT]
        in_groups = reduce(or_, (Visibility.group(group) for group in about["groups"]))

        def call() -> str:
            if not about["callable"]:
                raise ToolError(f"{name} is not available now")
            return f"ran {name}"

        self.tools.register(
            name,
            call,
            group=about["groups"][0],
            flat=True,
            visibility=in_groups & Visibility.when(lambda view: name in self.allowed),
            description=tool["description"],
            input_schema=tool["inputSchema"],
            annotations=tool["annotations"],
            meta=tool["_meta"],
        )


class Adapter:
    """Answers the experiment's requests.

    Args:
        catalog: What is served.
        declared: A client that declares the draft extension.
        plain: One that does not, whose lists are flat.
        manifest: Whether the methods of the experiment are offered.
    """

    def __init__(self, catalog: Catalog, declared: Client, plain: Client, *, manifest: bool) -> None:
        self._catalog = catalog
        self._declared = declared
        self._plain = plain
        self._manifest = manifest
        self._methods = {"initialize": self._initialize, "tools/list": self._list, "tools/call": self._call}
        if manifest:
            self._methods |= {
                "tools/manifest": self._entries,
                "tools/describe": self._describe,
                "experimental/groups/list": self._directory,
                "experimental/groups/expand": self._expand,
            }

    async def request(self, request: Json) -> Json:
        """Return the response to a JSON-RPC request."""
        try:
            answer = self._methods.get(request["method"])
            if answer is None:
                raise MCPError(code=types.METHOD_NOT_FOUND, message="Method not found")
            outcome = {"result": await answer(request.get("params") or {})}
        except MCPError as error:
            outcome = {"error": error.error.model_dump(exclude_none=True)}
        return {"jsonrpc": "2.0", "id": request["id"], **outcome}

    async def replace_fixture(self, fixture: Json) -> None:
        """Serve another fixture."""
        await self._catalog.replace(fixture)

    async def set_allowed(self, names: Iterable[str]) -> None:
        """Change what the caller is allowed."""
        self._catalog.allowed = set(names)

    # -- the methods --------------------------------------------------------------------------------------------------

    async def _initialize(self, params: Json) -> Json:
        capabilities = self._plain.server_capabilities.model_dump(by_alias=True, exclude_none=True)
        if self._manifest:
            capabilities["tools"] = {**capabilities["tools"], "manifest": True}
            capabilities["experimental"] = {**capabilities.get("experimental", {}), EXPERIMENT: {"version": 1}}
        return {"capabilities": capabilities}

    async def _list(self, params: Json) -> Json:
        listed = (await self._plain.list_tools(cache_mode="bypass")).tools
        return {"tools": [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]}

    async def _call(self, params: Json) -> Json:
        call = types.CallToolRequestParams(name=params["name"], arguments=params["arguments"])
        try:
            result = await self._declared.session.send_request(types.CallToolRequest(params=call), types.CallToolResult)
        except MCPError as error:
            raise invalid(unknownNames=[params["name"]]) if error.code == types.INVALID_PARAMS else error from None
        return {
            **({"isError": True} if result.is_error else {}),
            "content": [one.model_dump() for one in result.content],
        }

    async def _entries(self, params: Json) -> Json:
        return {"entries": (await self._view())["entries"]}

    async def _describe(self, params: Json) -> Json:
        names = params.get("names")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise invalid(reason="names")
        if not names:
            raise invalid(reason="empty")
        if len(names) > MOST_NAMES:
            raise invalid(maxNames=MOST_NAMES)
        tools = (await self._view())["tools"]
        if unknown := [name for name in names if name not in tools]:
            raise invalid(unknownNames=unknown)
        return {"tools": [tools[name] for name in names]}

    async def _directory(self, params: Json) -> Json:
        view = await self._view()
        return {"groups": view["groups"], "revision": view["revision"]}

    async def _expand(self, params: Json) -> Json:
        view = await self._view()
        if params.get("id") not in view["members"]:
            raise invalid(reason="unknownGroup")
        if params.get("revision") != view["revision"]:
            raise invalid(reason="staleView")
        members = view["members"][params["id"]]
        return {"entries": [one for one in view["entries"] if one["name"] in members], "revision": view["revision"]}

    async def _view(self) -> Json:
        """Return what the caller may see now: groups, their members, definitions, entries, and the revision of all."""
        tools: dict[str, Json] = {}
        members: dict[str, list[str]] = {}
        groups: list[Json] = []
        for group in (await asked(self._declared, "groups/list")).groups or []:
            contents = (await asked(self._declared, "groups/get", name=group["name"])).contents or {}
            found = {tool["name"]: tool for tool in contents.get("tools", [])}
            tools |= found
            members[group["name"]] = list(found)
            groups.append({"id": group["name"], "description": group["description"], "count": len(found)})
        entries = [entry_of(tools[name]) for name in sorted(tools)]
        revision = digest({"groups": groups, "entries": entries, "members": members})
        return {"tools": tools, "members": members, "groups": groups, "entries": entries, "revision": revision}


@asynccontextmanager
async def adapter_of(fixture: Json, allowed: Iterable[str], options: Mapping[str, Any]) -> AsyncGenerator[Adapter]:
    """Yield an adapter with clients of its own."""
    catalog = Catalog(fixture, allowed)
    server = build_server(catalog.tools, active=list(fixture["groups"]), legacy_call_tool=False)
    async with Client(server, mode=MODERN, extensions=DECLARED) as declared, Client(server, mode="legacy") as plain:
        yield Adapter(catalog, declared, plain, manifest=options.get("manifest", True))
