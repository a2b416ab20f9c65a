"""What a call would do, before it is made: of the tools that call others, what those inside would (SPEC NXT-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client import advertise
from mcp.server import Server
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from tests.adapters.gateway.inprocess import Clock, House, config_of, gateway_of
from tests.adapters.mcp.support import build_server
from tests.adapters.mcp.test_handle_delivery import MODERN, opened
from tests.adapters.mcp.test_ways_of_calling import process_of_one_client
from toolfold import ToolSet
from toolfold_adapters.gateway import Runtime, open_gateway
from toolfold_adapters.gateway.stored import Approvals
from toolfold_adapters.mcp.extensions.drafts import drafts
from toolfold_adapters.names import HANDLE_META

pytestmark = pytest.mark.spec("NXT-2")

EXTENSION = "io.modelcontextprotocol/tool-resolution"
DECLARED = [advertise(EXTENSION, {})]
RESOLVE = "tools/resolve"
HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")

TOOLS: Mapping[str, tuple[Mapping[str, Any], tuple[bool, bool, bool, bool]]] = {
    "look": ({"readOnlyHint": True}, (True, False, True, True)),
    "wipe": ({}, (False, True, False, True)),
    "add": ({"destructiveHint": False, "openWorldHint": False}, (False, False, False, False)),
    "set": ({"idempotentHint": True, "openWorldHint": False}, (False, True, True, False)),
}
"""The hints that each tool gives, and all four of a call of it."""


class _Params(types.RequestParams):
    name: Any = None
    arguments: Any = None


class _Request(types.Request[_Params, str]):
    method: str


class _Answer(types.Result):
    name: str | None = None
    annotations: dict[str, bool] | None = None


def make_files(ran: list[str] | None = None, **settings: Any) -> ToolSet:
    """Return tools that say how far they reach, all in a group."""
    tools = ToolSet("files", run_in_thread=False, **settings)
    tools.register_group("files", "Files")

    def handler(arguments: dict[str, Any]) -> str:
        (list[str]() if ran is None else ran).append("ran")
        return "done"

    schema = {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
    for name, (hints, _) in TOOLS.items():
        more: Any = {"annotations": hints} if hints else {}
        tools.register(name, handler, description=name, input_schema=schema, group="files", **more)
    return tools


def made(tools: ToolSet | None = None, given: tuple[str, ...] = ("resolve",), **options: Any) -> Server[Any]:
    options = {"read_tool": True, "call_tools": True, "active": ["files"], **options}
    return build_server(make_files() if tools is None else tools, extend=drafts(given), **options)


@asynccontextmanager
async def resolving(server: Any) -> AsyncGenerator[Client]:
    async with Client(server, mode=MODERN, extensions=DECLARED) as client:
        yield client


async def resolved(client: Client, name: Any, arguments: Any, **meta: Any) -> tuple[bool, ...]:
    """Return the four hints of a call."""
    params = _Params.model_validate({"name": name, "arguments": arguments, "_meta": meta})
    answer = await client.session.send_request(_Request(method=RESOLVE, params=params), _Answer)
    assert answer.name == name
    assert answer.annotations is not None
    assert set(answer.annotations) == {*HINTS}
    return tuple(answer.annotations[hint] for hint in HINTS)


async def refused(client: Client, name: Any, arguments: Any, **meta: Any) -> types.ErrorData:
    with pytest.raises(MCPError) as error:
        await resolved(client, name, arguments, **meta)
    return error.value.error


async def test_the_tools_that_call_others_are_marked_for_clients_that_ask() -> None:
    async with resolving(made()) as asking, Client(made(), mode=MODERN) as other:
        marked = {tool.name: (tool.meta or {}).get(EXTENSION) for tool in (await asking.list_tools()).tools}
        page = await other.list_tools()
    mark = {"resolvable": True}
    assert {name for name, found in marked.items() if found == mark} == {"call_tool", "read_tool", "call_tools"}
    assert {name for name, found in marked.items() if found not in (None, mark)} == set()
    assert [tool.name for tool in page.tools if EXTENSION in (tool.meta or {})] == []
    assert page.cache_scope == "private"


@pytest.mark.parametrize("name", TOOLS)
async def test_a_call_is_as_the_tool_inside_says_of_itself(name: str) -> None:
    ran = list[str]()
    async with resolving(made(make_files(ran))) as client:
        said = await resolved(client, "call_tool", {"name": f"files.{name}", "arguments": {"path": "a"}})
    assert (said, ran) == (TOOLS[name][1], [])


async def test_several_calls_are_as_the_most_dangerous_of_them() -> None:
    async with resolving(made()) as client:
        both = {"calls": [{"name": "files.set"}, {"name": "files.add", "arguments": {"path": "a"}}]}
        assert await resolved(client, "call_tools", both) == (False, True, False, False)
        reading = {"calls": [{"name": "files.look"}]}
        assert await resolved(client, "call_tools", reading) == TOOLS["look"][1]


async def test_what_only_reads_asks_for_no_more_care_than_it_says_itself_and_calls_nothing_else() -> None:
    tools = make_files()
    odd = {"readOnlyHint": True, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False}
    nothing: Any = lambda arguments: None  # noqa: E731
    tools.register("odd", nothing, description="x", input_schema={"type": "object"}, group="files", annotations=odd)
    async with resolving(made(tools)) as client:
        assert await resolved(client, "read_tool", {"name": "files.odd"}) == (True, False, True, False)
        assert await resolved(client, "call_tool", {"name": "files.odd"}) == (True, True, False, False)
        assert (await refused(client, "read_tool", {"name": "files.wipe"})).code == types.INVALID_PARAMS


async def test_the_state_is_that_of_the_handle_which_a_call_gives_or_its_request_carries() -> None:
    async with resolving(made(active=[])) as client:
        inside = {"name": "files.look"}
        assert (await refused(client, "call_tool", inside)).code == types.INVALID_PARAMS
        handle = await opened(client, "files")
        assert await resolved(client, "call_tool", {**inside, "handle": handle}) == TOOLS["look"][1]
        assert await resolved(client, "call_tool", inside, **{HANDLE_META: handle}) == TOOLS["look"][1]
        assert (await refused(client, "call_tool", {**inside, "handle": "made up"})).code == types.INVALID_PARAMS


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("call_tool", {"name": "files.look", "arguments": {"path": 7}}),
        ("call_tool", {"name": "files.look", "arguments": {"other": "a"}}),
        ("call_tool", {"name": "files.gone"}),
        ("call_tool", {"arguments": {}}),
        ("call_tool", "files.look"),
        ("call_tools", {"calls": []}),
        ("call_tools", {"calls": [{"name": "files.look"}, {"name": "files.gone"}]}),
        ("files.look", {}),
        ("files.gone", {}),
        (7, {}),
    ],
)
async def test_what_is_no_call_or_no_tool_that_is_marked_is_refused(name: Any, arguments: Any) -> None:
    async with resolving(made()) as client:
        assert (await refused(client, name, arguments)).code == types.INVALID_PARAMS


@pytest.mark.parametrize("settings", [None, {"more": True}])
async def test_a_client_that_does_not_declare_the_extension_is_refused(settings: Any) -> None:
    declared = [] if settings is None else [advertise(EXTENSION, settings)]
    async with Client(made(), mode=MODERN, extensions=declared) as client:
        error = await refused(client, "call_tool", {"name": "files.look"})
        assert [tool.name for tool in (await client.list_tools()).tools if EXTENSION in (tool.meta or {})] == []
    assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}


async def test_without_the_draft_there_is_no_such_method_and_nothing_is_declared() -> None:
    async with resolving(made(given=("tags",))) as client:
        assert (await refused(client, "call_tool", {"name": "files.look"})).code == types.METHOD_NOT_FOUND
        assert EXTENSION not in str(await client.session.send_discover(MODERN))
    async with resolving(made()) as client:
        capabilities = (await client.session.send_discover(MODERN))["capabilities"]
        assert capabilities["extensions"][EXTENSION] == {}


async def test_the_era_before_has_no_such_method() -> None:
    async with Client(made(), mode="legacy", extensions=DECLARED) as client:
        assert (await refused(client, "call_tool", {"name": "files.look"})).code == types.METHOD_NOT_FOUND
        assert [tool.name for tool in (await client.list_tools()).tools if EXTENSION in (tool.meta or {})] == []


def with_hooks(done: list[str]) -> ToolSet:
    """Return tools in a group whose hooks are noted."""
    tools = ToolSet("files", run_in_thread=False)
    opened = lambda: done.append("opened")  # noqa: E731
    tools.register_group("files", "Files", on_activate=opened, on_deactivate=lambda: done.append("closed"))
    nothing: Any = lambda arguments: None  # noqa: E731
    hints = TOOLS["look"][0]
    tools.register("look", nothing, description="x", input_schema={"type": "object"}, group="files", annotations=hints)
    return tools


async def test_a_client_with_a_process_of_its_own_has_one_state_which_resolving_does_not_begin() -> None:
    done, inside = list[str](), {"name": "files.look"}
    tools = with_hooks(done)
    with process_of_one_client():
        async with resolving(made(tools)) as client:
            assert await resolved(client, "call_tool", inside) == TOOLS["look"][1]
            assert (done, tools.sessions) == ([], ())
            await client.call_tool("call_tool", inside)
            assert done == ["opened"]
            await client.call_tool("files.deactivate", {})
            assert (await refused(client, "call_tool", inside)).code == types.INVALID_PARAMS
            assert done == ["opened", "closed"]


async def test_a_group_that_a_call_would_open_is_not_opened() -> None:
    tools = make_files()
    with process_of_one_client():
        async with resolving(made(tools, active=[])) as client:
            assert await resolved(client, "call_tool", {"name": "files.look"}) == TOOLS["look"][1]
            assert tools.sessions == ()


class Upstream:
    """A server whose tool says how far it reaches, and that of a call it may reach less far, or further."""

    def __init__(self, said: Any, description: str = "x") -> None:
        self.said, self.asked = said, list[Any]()
        tools = ToolSet("disk", run_in_thread=False)
        given = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": False}
        nothing: Any = lambda arguments: None  # noqa: E731
        tools.register("erase", nothing, description=description, input_schema={"type": "object"}, annotations=given)
        self.server = build_server(tools)
        if said is not None:
            self.server.extensions[EXTENSION] = {}
            self.server.add_request_handler(RESOLVE, _Params, self.resolve)

    async def resolve(self, ctx: ServerRequestContext[Any, Any], params: _Params) -> dict[str, Any]:
        self.asked.append((params.name, params.arguments))
        if isinstance(self.said, Exception):
            raise self.said
        return {"resultType": "complete", "name": "erase", "annotations": dict(zip(HINTS, self.said, strict=True))}


STATIC = (False, True, False, False)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ((True, False, True, False), (True, False, True, False)),
        ((True, False, True, True), (True, False, True, False)),
        (("yes", False, None, False), (False, False, False, False)),
        (MCPError(code=types.INTERNAL_ERROR, message="can't tell"), STATIC),
        (None, STATIC),
    ],
    ids=["reaches less far", "never further than it says", "says nonsense", "can't tell", "has no such method"],
)
async def test_a_gateway_asks_the_server_of_the_tool_inside(said: Any, answered: tuple[bool, ...]) -> None:
    upstream, other = Upstream(said), Upstream((True, False, True, False))
    house = House({"disk": upstream, "other": other}.__getitem__)
    async with (gateway := gateway_of(house, config_of("disk", "other"))) as tools:
        active = [group.path for group in tools.catalog.groups]
        server = build_server(tools, active=active, handles="stored", extend=drafts(["resolve"], gateway.extend))
        async with resolving(server) as client:
            given = {"name": "disk__erase", "arguments": {"path": "/"}}
            assert await resolved(client, "call_tool", given) == answered
    assert (upstream.asked, other.asked) == ([] if said is None else [("erase", {"path": "/"})], [])


@pytest.mark.spec("SAF-1")
@pytest.mark.parametrize("given", ["disk__erase", "call_tool"])
@pytest.mark.parametrize("asked_for", [True, False], ids=["by us", "as a server's extension"])
async def test_a_server_has_no_say_on_a_tool_that_has_changed_since_it_was_approved(
    given: str, asked_for: bool, tmp_path: Path
) -> None:
    approvals, inside = Approvals(tmp_path), {"name": "disk__erase", "arguments": {}}
    for description in ("x", "Erases more"):
        safe, other = (True, False, True, False), Upstream(None)
        house = House({"disk": Upstream(safe, description), "other": other}.__getitem__)
        runtime = Runtime(clock=Clock(), transport=house.transport, approvals=approvals)
        gateway = open_gateway(config_of("disk", "other"), runtime=runtime)
        async with gateway as tools:
            extend = drafts(["resolve"], gateway.extend) if asked_for else gateway.extend
            active = [group.path for group in tools.catalog.groups]
            async with resolving(build_server(tools, active=active, handles="stored", extend=extend)) as client:
                params = inside if given != "call_tool" else {"name": "call_tool", "arguments": inside}
                if description == "x":
                    assert await resolved(client, **params) == safe
                elif asked_for and given == "call_tool":
                    assert await resolved(client, **params) == (False, True, False, True)
                else:
                    with pytest.raises(MCPError, match="has changed since it was approved"):
                        await resolved(client, **params)
