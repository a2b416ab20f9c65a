"""The doors to what a server offers, and what bounds each: closed groups, profiles, rights, quarantine (SPEC ISO-2).

A row is a request for something of the server `out`. Where nothing bounds the caller it comes through: it says a word
of the server, or the server is asked. Where something does, neither happens. A new kind of guard is a row of `GUARDS`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from inspect import isawaitable
from itertools import product
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as t
import pytest
from attrs import evolve, fields, frozen
from mcp.server import Server

from tests.adapters.gateway.inprocess import SECONDS, Clock, House, config_of, refuse, wired, without_extensions
from tests.adapters.gateway.upstreams.shop import Context, Shop
from tests.adapters.mcp.asgi import URL, Endpoint, endpoint_of
from tests.blocked import all_blocked
from toolfold import ProtocolError, Session, ToolfoldError, include_stubs, invoke, stubs
from toolfold.spi import KINDS
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, open_gateway
from toolfold_adapters.gateway.config.settings import GroupConfig, ProfileConfig, RightsConfig
from toolfold_adapters.gateway.gateway import ANY_URI
from toolfold_adapters.gateway.serving.extensions import RESOLVE
from toolfold_adapters.gateway.serving.tasks import ABLE, LIST, METHODS, TaskIds
from toolfold_adapters.gateway.stored import Approvals
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire, connect
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.address.signed import KEY_VARIABLE
from toolfold_adapters.mcp.answer.render import dumped
from toolfold_adapters.mcp.principal import NOBODY, Principal
from toolfold_adapters.names import GROUPS_EXTENSION, HANDLE_META
from toolfold_adapters.observe.status import STATUS_TOOL, include_status
from toolfold_adapters.skills import read_skill
from toolfold_adapters.transport.http_client import http_transport
from toolfold_cli.serve import Beside

pytestmark = pytest.mark.spec("ISO-2")

SECRET = "word of out"
ERAS: tuple[ConnectMode, ...] = ("legacy", "auto")
KEY = "a-key-of-sixteen-characters"
URIS = {"listed": "out://list", "by template": "out://items/1", "unlisted": "out://unlisted"}
SPELLINGS = (
    "OUT://list",
    "out://LIST",
    "out://%6cist",
    "out://%256Cist",
    "out://./list",
    "out://x/../list",
    "out://list/",
    "out:///list",
    "out:list",
    "out://list?page=1",
    "out://list#top",
    "out://list;v=1",
    "out:\\\\list",
    "out://ada@list:80",
    "out://list.",
    "OUT://items/1",
    "out://ITEMS/1",
    "out://%69tems/1",
    "out://x/../items/1",
)
"""Other spellings of what `out` lists, which a server may take for the same."""
GROUPS: dict[str, Any] = {where: {GROUPS_EXTENSION: {}} for where in ("extensions", "experimental")}
CALL = {"name": "out__take", "arguments": {}}


class Vault(Shop):
    """A server that says a word with everything, and notes what it is asked beside lists."""

    def __init__(self, name: str, *, changed: bool = False) -> None:
        super().__init__()
        self.name = name
        self.word = f"a word of {name}" + (", changed" if changed else "")
        self.server.instructions = self.word
        self.asked: list[str] = []
        self.server.middleware.append(self.introduce)
        for method in (*METHODS, LIST, RESOLVE, f"{name}/look"):
            self.server.add_request_handler(method, t.RequestParams, self.beside)

    async def introduce(self, ctx: Context, call_next: Any) -> Any:
        """Say that calls can be tasks, and that there is an extension of its own."""
        answer = await call_next(ctx)
        if ctx.method != "initialize":
            return answer
        given = dumped(answer)
        able = {"tasks": ABLE, "experimental": {f"example.org/{self.name}": {}}}
        return {**given, "capabilities": {**given["capabilities"], **able}}

    async def beside(self, ctx: Context, params: Any) -> dict[str, Any]:
        """Answer what the SDK knows nothing of."""
        self.asked.append(ctx.method)
        state = {"taskId": "t-1", "status": "working", "statusMessage": self.word, "ttl": None}
        state |= dict.fromkeys(("createdAt", "lastUpdatedAt"), "2026-01-01T00:00:00Z")
        return {"tasks": [state]} if ctx.method == LIST else {**state, "name": "take"}

    async def list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        schema: dict[str, Any] = {"type": "object"}
        hints = t.ToolAnnotations(read_only_hint=True)
        tool = t.Tool(name="take", description=self.word, input_schema=schema, annotations=hints)
        view = {"ui": {"resourceUri": f"ui://{self.name}/view", "visibility": ["app"]}}
        own = f"view_{self.name}"
        of_view = t.Tool(name=own, description=self.word, input_schema=schema, annotations=hints, _meta=view)
        return t.ListToolsResult(tools=[tool, of_view])

    async def list_prompts(self, ctx: Context, params: Any) -> t.ListPromptsResult:
        arguments = [t.PromptArgument(name="who")]
        return t.ListPromptsResult(prompts=[t.Prompt(name="greet", description=self.word, arguments=arguments)])

    async def list_resources(self, ctx: Context, params: Any) -> t.ListResourcesResult:
        resource = t.Resource(name="list", uri=f"{self.name}://list", description=self.word)
        return t.ListResourcesResult(resources=[resource])

    async def list_templates(self, ctx: Context, params: Any) -> t.ListResourceTemplatesResult:
        template = t.ResourceTemplate(name="i", uri_template=f"{self.name}://items/{{x}}", description=self.word)
        return t.ListResourceTemplatesResult(resource_templates=[template])

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> Any:
        self.asked.append(ctx.method)
        return t.CallToolResult(content=[t.TextContent(type="text", text=self.word)])

    async def prompt(self, ctx: Context, params: t.GetPromptRequestParams) -> t.GetPromptResult:
        self.asked.append(ctx.method)
        return await super().prompt(ctx, params)

    async def read(self, ctx: Context, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        self.asked.append(ctx.method)
        return await super().read(ctx, params)

    async def complete(self, ctx: Context, params: t.CompleteRequestParams) -> t.CompleteResult:
        self.asked.append(ctx.method)
        return await super().complete(ctx, params)

    async def subscribe(self, ctx: Context, params: t.SubscribeRequestParams) -> t.EmptyResult:
        self.asked.append(ctx.method)
        return await super().subscribe(ctx, params)


def vault(changed: str, name: str) -> Vault:
    return Vault(name, changed=name == changed)


@pytest.fixture(autouse=True)
def key_of_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the ids of tasks signed as those of the table are."""
    monkeypatch.setenv(KEY_VARIABLE, KEY)


# -- the table --------------------------------------------------------------------------------------------------------


@frozen
class Door:
    """A request: its method, its parameters, and in which eras there is such a request."""

    method: str
    params: Mapping[str, Any] = {}
    eras: tuple[ConnectMode, ...] = ERAS
    needs_group: bool = False
    """Whether it is for what is in a group, and so is closed by a closed group, too."""
    says_why: bool = False
    """Whether it may say that a server of the caller's is withheld, by the server's name."""

    @property
    def opens(self) -> str:
        """What of the server's it leads to: a method, or a tool or resource of the gateway's own."""
        name = str(self.params.get("name" if self.method == "tools/call" else "uri"))
        return name if name in OWN else self.method

    def closed_by(self, guard: str) -> bool:
        """Whether a guard is to close it; where nothing bounds it, it is open."""
        return not (guard == "closed group" and not self.needs_group) and not (guard == "quarantine" and self.says_why)


FIND = {"query": "take"}
ADA = Principal("ada", "issuer", "client")
TASK, TASK_OF_ADA = ({"taskId": TaskIds([KEY]).of("out", "t-1", one.key)} for one in (NOBODY, ADA))
STUBS = ("toolfold://stubs.py", "toolfold://stubs.ts")
OWN = ("open_group", "find_tools", "call_tool", "read_tool", "call_tools", STATUS_TOOL, *STUBS)
DOORS: dict[str, Door] = {
    "tools listed": Door("tools/list"),
    "a tool called": Door("tools/call", CALL, needs_group=True),
    "a group opened": Door("tools/call", {"name": "open_group", "arguments": {"group": "out"}}),
    "a group opened by a search": Door("tools/call", {"name": "find_tools", "arguments": {**FIND, "open": True}}),
    "a search": Door("tools/call", {"name": "find_tools", "arguments": FIND}),
    "call_tool": Door("tools/call", {"name": "call_tool", "arguments": CALL}, needs_group=True),
    "read_tool": Door("tools/call", {"name": "read_tool", "arguments": CALL}, needs_group=True),
    "call_tools": Door("tools/call", {"name": "call_tools", "arguments": {"calls": [CALL]}}, needs_group=True),
    "prompts listed": Door("prompts/list"),
    "a prompt": Door("prompts/get", {"name": "out__greet"}),
    "resources listed": Door("resources/list"),
    "templates listed": Door("resources/templates/list"),
    **{f"a resource, {how}": Door("resources/read", {"uri": uri}) for how, uri in URIS.items()},
    **{f"a subscription, {how}": Door("resources/subscribe", {"uri": uri}, ("legacy",)) for how, uri in URIS.items()},
    **{
        f"a stream, {how}": Door("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}}, ("auto",))
        for how, uri in URIS.items()
    },
    **{f"a resource spelled {uri}": Door("resources/read", {"uri": uri}) for uri in SPELLINGS},
    **{f"a subscription spelled {uri}": Door("resources/subscribe", {"uri": uri}, ("legacy",)) for uri in SPELLINGS},
    "a completion for a prompt": Door(
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "out__greet"}, "argument": {"name": "who", "value": "a"}},
    ),
    "a completion for a template": Door(
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "out://items/{x}"}, "argument": {"name": "x", "value": "a"}},
    ),
    **{f"a task, by {method}": Door(method, TASK) for method in METHODS},
    "tasks listed": Door(LIST, eras=("legacy",)),
    "a view": Door("resources/read", {"uri": "ui://out/view"}),
    "a tool called by a view": Door("tools/call", {"name": "view_out", "arguments": {}}, needs_group=True),
    "a call resolved": Door(RESOLVE, CALL, needs_group=True),
    "a method of its extension": Door("out/look"),
    "groups listed": Door("groups/list"),
    "a group disclosed": Door("groups/get", {"name": "out"}),
    "how servers are doing": Door("tools/call", {"name": STATUS_TOOL}, says_why=True),
    **{f"stubs at {uri}": Door("resources/read", {"uri": uri}) for uri in STUBS},
}
NO_DOORS = {
    "ping": "says nothing",
    "initialize": "its instructions are those of groups that are open, see test_instructions_are_bounded",
    "server/discover": "as initialize",
    "logging/setLevel": "reaches the servers that a session uses already",
    "resources/unsubscribe": "ends what a subscription began",
    "skills/list": "a gateway's skills are files of its operator's, whose doors are the rows of SKILLS",
    "skills/get": "as skills/list",
    "close_group": "closes what open_group opened",
    "read_result": "reads on in an answer that the same session has had, see tests/adapters/mcp/test_long_results.py",
    ANY_URI: "is what resources/read of a URI that nobody lists is registered as",
}
"""Handlers and control tools through which nothing of a server is reached, and why."""
NO_HANDLERS = (RESOLVE, "out/look")
"""Methods that no handler of a gateway is for: what is none of the protocol is passed on before."""


# -- ways to serve ----------------------------------------------------------------------------------------------------

CONFIG = config_of("in", "out", mode="legacy").model_copy(
    update={
        "profiles": {
            "narrow": ProfileConfig(active=("in",)),
            "wide": ProfileConfig(active=("in", "out")),
            "child": ProfileConfig(active=("in", "out"), available=("*",), within="narrow"),
        }
    }
)
GUARDS: dict[str, dict[str, Any]] = {
    "nothing": {"active": ("in", "out")},
    "profile": {"profile": "narrow"},
    "profile of a parent": {"profile": "child"},
    "right": {"active": ("in", "out")},
    "right to a profile": {"active": ("in", "out")},
    "quarantine": {"active": ("in", "out")},
    "closed group": {"active": ("in",)},
}


RIGHTS = {
    "right": {"*": RightsConfig(access="destructive", servers=("in",))},
    "right to a profile": {"*": RightsConfig(access="read", profile="narrow")},
}


def config_for(guard: str) -> GatewayConfig:
    update = {"on_change": "quarantine"} if guard == "quarantine" else {"rights": RIGHTS.get(guard, {})}
    return CONFIG.model_copy(update=update)


@asynccontextmanager
async def guarded(guard: str, folder: Path) -> AsyncGenerator[tuple[Gateway, House]]:
    """Open a gateway; under quarantine all that `out` offers has changed since it was approved."""
    quarantine, config = guard == "quarantine", config_for(guard)
    for changed in (False, True) if quarantine else (False,):
        house = House(partial(vault, "out" if changed else ""))
        runtime = Runtime(clock=Clock(), transport=house.transport, approvals=Approvals(folder) if quarantine else None)
        gateway = open_gateway(config, runtime=runtime)
        with anyio.fail_after(SECONDS):
            async with gateway:
                if changed == quarantine:
                    include_stubs(gateway.tools)
                    include_status(gateway.tools, gateway.status_for)
                    yield gateway, house


def server_of(gateway: Gateway, guard: str, **options: Any) -> Server[Any]:
    given = {"call_tools": True, "read_tool": True, "handle_key": KEY, **GUARDS[guard], **options}
    return build_server(gateway.tools, extend=gateway.extend, **given)


def came_through(house: House, said: Any) -> bool:
    """Return whether anything of `out` reached a caller, or anything of the caller's `out`."""
    asked = [method for vault in house.of("out") for method in vault.asked]
    return bool(asked) or any(word in json.dumps(said) for word in (SECRET, "server out:"))


async def answer(served: Server[Any] | Endpoint, era: ConnectMode, door: Door, meta: Mapping[str, Any] = {}) -> Any:
    """Return what a client of its own is answered."""
    async with client_of(served, era, GROUPS if is_of_groups(door) else {}) as wire:
        return await answered(wire, door, meta)


def is_of_groups(door: Door) -> bool:
    """Return whether only a client of the draft extension has this request."""
    return door.method.startswith("groups/")


def client_of(
    served: Server[Any] | Endpoint, era: ConnectMode, able: Mapping[str, Any]
) -> AbstractAsyncContextManager[Wire]:
    return wired(served, era, able) if isinstance(served, Server) else over_http(served, era, able)


async def answered(wire: Wire, door: Door, meta: Mapping[str, Any] = {}) -> Any:
    """Return what is answered, or the message of an error; of a stream nothing, once no task has anything to do."""
    said: list[Any] = []

    async def ask() -> None:
        try:
            said.append(await wire.request(door.method, {**door.params, **({"_meta": meta} if meta else {})}))
        except ProtocolError as error:
            said.append(str(error))

    if door.method != "subscriptions/listen":
        await ask()
        return said[0]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        await all_blocked()
        while anyio.to_thread.current_default_thread_limiter().borrowed_tokens:
            await all_blocked()
        tasks.cancel_scope.cancel()
    return None


@asynccontextmanager
async def over_http(endpoint: Endpoint, era: ConnectMode, able: Mapping[str, Any]) -> AsyncGenerator[Wire]:
    """A client that gets messages as they are, as `wired` does, over HTTP."""
    make: Any = partial(httpx2.AsyncClient, transport=httpx2.ASGITransport(endpoint.app))
    transport = http_transport(URL, {}, None, make)
    async with connect(transport, era, able, refuse, lambda method, params, cause: None) as wire:
        yield without_extensions(wire)


async def come_through(
    house: House, served: Server[Any] | Endpoint, rows: Mapping[str, Door], able: Mapping[str, Any] = {}
) -> set[tuple[str, ConnectMode]]:
    """Return the rows through which something comes, by era, for a client that asks for one after the other."""
    through = set[tuple[str, ConnectMode]]()
    for era, of_groups in product(ERAS, (False, True)):
        asked = [name for name, door in rows.items() if era in door.eras and is_of_groups(door) is of_groups]
        if asked:
            async with client_of(served, era, GROUPS if of_groups else able) as wire:
                for name in asked:
                    if came_through(house, await answered(wire, rows[name])):
                        through.add((name, era))
                    for vault in house.of("out"):
                        vault.asked.clear()
    return through


@pytest.mark.parametrize("guard", GUARDS)
async def test_a_door_is_open_where_nothing_bounds_it_and_closed_where_something_does(
    guard: str, tmp_path: Path
) -> None:
    rows = {name: door for name, door in DOORS.items() if door.closed_by(guard)}
    async with guarded(guard, tmp_path) as (gateway, house):
        through = await come_through(house, server_of(gateway, guard), rows)
    cases = {(name, era) for name, door in rows.items() for era in door.eras}
    assert through == (cases if guard == "nothing" else set())


@pytest.mark.parametrize("guard", GUARDS)
async def test_a_door_is_so_for_a_caller_that_has_lists_of_its_own(guard: str, tmp_path: Path) -> None:
    rows = {
        name: door
        for name, door in DOORS.items()
        if "auto" in door.eras
        and not door.method.startswith(("subscriptions/", "groups/"))  # they have no delivery of their own
        and door.closed_by(guard)
    }
    through: set[str] = set()
    async with guarded(guard, tmp_path) as (gateway, house):
        server = server_of(gateway, guard, delivery="principal")
        async with endpoint_of(server, authenticated=True) as endpoint:
            for name, door in rows.items():
                own = evolve(door, params=TASK_OF_ADA) if door.params is TASK else door
                said = await posted(endpoint, own, {"authorization": "Bearer ada"})
                if came_through(house, said.text):
                    through.add(name)
                for vault in house.of("out"):
                    vault.asked.clear()
    others = {"call_tool", "read_tool", "call_tools"}  # are for clients that don't list again
    assert through == (set(rows) - others if guard == "nothing" else set())


async def posted(endpoint: Endpoint, door: Door, headers: Mapping[str, str], query: str = "") -> Any:
    name = door.params.get({"resources/read": "uri", **dict.fromkeys(METHODS, "taskId")}.get(door.method, ""))
    named = {} if name is None else {"mcp-name": name}
    return await endpoint.post(door.method, dict(door.params), query, {**named, **headers})


@frozen
class Way:
    """Another way to a gateway than a pipe with handles of its own: options of the server, and what a client can do."""

    options: Mapping[str, Any] = {}
    able: Mapping[str, Any] = {}
    http: bool = False


WAYS = {
    "HTTP": Way(http=True),
    "stored handles": Way({"handles": "stored"}),
    "a client of the draft": Way(able=GROUPS),
    "a client of the draft over HTTP": Way(able=GROUPS, http=True),
}
BY_CONTROLS = {"tools/list", "open_group", "find_tools", "call_tool", "read_tool", "call_tools"}
"""What clients of the draft extension for groups have other requests for."""


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_door_is_so_in_every_delivery_and_over_every_transport(way: str, guard: str, tmp_path: Path) -> None:
    drafted = bool(WAYS[way].able)  # such a client opens groups by itself
    rows = {name: one for name, one in DOORS.items() if " spelled " not in name and one.closed_by(guard)}
    rows = {name: one for name, one in rows.items() if not (drafted and guard == "closed group")}
    cases: set[tuple[str, ConnectMode]] = {(name, era) for name, door in rows.items() for era in door.eras}
    async with guarded(guard, tmp_path) as (gateway, house), AsyncExitStack() as stack:
        served: Any = server_of(gateway, guard, **WAYS[way].options)
        if WAYS[way].http:
            served = await stack.enter_async_context(endpoint_of(served))
        through = await come_through(house, served, rows, WAYS[way].able)
    open_ones = {(name, era) for name, era in cases if not (drafted and rows[name].opens in BY_CONTROLS)}
    assert through == (open_ones if guard == "nothing" else set())


STEPS = "skill://steps/SKILL.md"
SKILLS: dict[str, Door] = {
    "skills listed": Door("skills/list", eras=("auto",)),
    "a skill": Door("skills/get", {"uri": STEPS}, ("auto",)),
    "its file": Door("resources/read", {"uri": STEPS}),
    "a file beside it": Door("resources/read", {"uri": "skill://steps/more.md"}),
    "its group opened": Door("tools/call", {"name": "open_group", "arguments": {"group": "steps"}}),
    "a search": Door("tools/call", {"name": "find_tools", "arguments": {"query": "steps", "open": True}}),
    "groups listed": Door("groups/list"),
    "its group disclosed": Door("groups/get", {"name": "steps"}),
    "tools listed": Door("tools/list"),
}
"""The doors to a skill and its files, which a profile bounds; clients of the extension read them in closed groups."""


@pytest.mark.parametrize("delivery", ["auto", "principal"])
@pytest.mark.parametrize("profile", ["with", "narrow"])
async def test_a_profile_bounds_skills_and_their_files(profile: str, delivery: Any, tmp_path: Path) -> None:
    folder = tmp_path / "steps"
    folder.mkdir()
    (folder / "SKILL.md").write_text(f"---\nname: steps\ndescription: A {SECRET}\n---\nA {SECRET}\n")
    (folder / "more.md").write_text(f"A {SECRET}\n")
    profiles = {**CONFIG.profiles, "with": ProfileConfig(active=("in",), available=("steps",))}
    config = CONFIG.model_copy(update={"skills": (read_skill(folder),), "profiles": profiles})
    gateway = open_gateway(config, runtime=Runtime(clock=Clock(), transport=House(partial(vault, "")).transport))
    with anyio.fail_after(SECONDS):
        async with gateway:
            server = build_server(gateway.tools, extend=gateway.extend, profile=profile, delivery=delivery)
            for name, door in SKILLS.items():
                for era in door.eras:
                    if delivery == "principal" and era == "auto":
                        continue  # needs a caller, see the test of these
                    said = json.dumps(await answer(server, era, door))
                    assert (SECRET in said) == (profile == "with"), (name, era)


BOUNDS = ["profile", "right"]
STATES = ["known", "quarantined", "failed", "starting"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "name", ["a tool called", "call_tool", "read_tool", "call_tools", "a group opened", "a search"]
)
@pytest.mark.parametrize("guard", BOUNDS)
async def test_outside_a_profile_or_right_a_server_is_answered_as_one_that_there_is_not(
    guard: str, state: str, name: str, tmp_path: Path
) -> None:
    """Whatever state it is in, and it isn't waited for."""
    config = config_for(guard).model_copy(update={"on_change": "quarantine"})
    approvals = Approvals(tmp_path)
    said = "", ""
    for changed in [False, True] if state == "quarantined" else [False]:
        house = House(
            partial(vault, "out" if changed else ""),
            gates={"out": anyio.Event()} if state == "starting" else {},
            broken={"out"} if state == "failed" else set(),
        )
        runtime = Runtime(clock=Clock(), transport=house.transport, approvals=approvals)
        gateway = open_gateway(config, runtime=runtime, wait=False)
        with anyio.fail_after(SECONDS):
            async with gateway:
                for upstream in gateway.upstreams.values():
                    if upstream.key not in house.gates:
                        await upstream.found_out()
                if changed or state != "quarantined":
                    server = server_of(gateway, guard)
                    said = await said_of(server, DOORS[name], "out"), await said_of(server, DOORS[name], "nil")
    assert said[0].replace("out", "nil") == said[1]
    assert "in__take" in said[0] if name == "a search" else "nil" in said[1]


async def said_of(server: Server[Any], door: Door, name: str) -> str:
    params = json.loads(json.dumps(door.params).replace('"out', f'"{name}'))
    return json.dumps(await answer(server, "legacy", Door(door.method, params)))


async def test_a_handle_from_elsewhere_opens_no_door(tmp_path: Path) -> None:
    """A server of the same key without a profile made it, in which `out` is open."""
    async with guarded("profile", tmp_path) as (gateway, house):
        opened = await answer(server_of(gateway, "nothing", active=()), "auto", DOORS["a group opened"])
        handle = opened["content"][0]["text"].split()[1]
        house.of("out")[-1].asked.clear()
        wide, narrow = (server_of(gateway, guard, active=()) for guard in ("nothing", "profile"))
        for server, comes in ((wide, True), (narrow, False)):
            for name in ("tools listed", "a tool called", "a resource, listed", "a group disclosed"):
                said = await answer(server, "auto", DOORS[name], {HANDLE_META: handle})
                assert came_through(house, said) is comes, name
            house.of("out")[-1].asked.clear()


async def asked(wire: Wire, name: str, meta: Mapping[str, Any] = {}) -> Any:
    """What is answered over a connection, or the message of an error."""
    try:
        return await wire.request(DOORS[name].method, {**DOORS[name].params, **({"_meta": meta} if meta else {})})
    except ProtocolError as error:
        return str(error)


@pytest.mark.parametrize("handles", ["auto", "stored"])
async def test_a_handle_opens_no_door_once_its_caller_has_no_right_to_it_any_more(handles: Any, tmp_path: Path) -> None:
    async with guarded("nothing", tmp_path) as (gateway, house):
        server = server_of(gateway, "nothing", active=(), handles=handles)
        async with wired(server, "auto") as wire:
            opened = await asked(wire, "a group opened")
            meta = {HANDLE_META: opened["content"][0]["text"].split()[1]}
            for comes in (True, False):
                for name in ("tools listed", "a tool called", "a resource, listed"):
                    house.of("out")[-1].asked.clear()
                    assert came_through(house, await asked(wire, name, meta)) is comes, name
                await gateway.reconfigure(config_for("right"))


@pytest.mark.parametrize("name", ["a tool called", "a resource, listed", "tools listed", "a group opened"])
async def test_a_connection_opens_no_door_once_its_caller_has_no_right_to_it_any_more(
    name: str, tmp_path: Path
) -> None:
    async with guarded("nothing", tmp_path) as (gateway, house), wired(server_of(gateway, "nothing"), "legacy") as wire:
        for comes in (True, False, True):
            assert came_through(house, await asked(wire, name)) is comes
            house.of("out")[-1].asked.clear()
            await gateway.reconfigure(config_for("right" if comes else "nothing"))


BY_URL = ["?groups=out", "?profile=wide", "?groups=in,out&profile=wide"]
BY_HEADER = [{"toolfold-groups": "out"}, {"toolfold-profile": "wide"}]


@pytest.mark.parametrize(("query", "headers"), [*((url, {}) for url in BY_URL), *(("", one) for one in BY_HEADER)])
@pytest.mark.parametrize("guard", [*BOUNDS, "right to a profile"])
async def test_a_selection_by_url_or_header_opens_no_door(
    guard: str, query: str, headers: dict[str, str], tmp_path: Path
) -> None:
    async with guarded(guard, tmp_path) as (gateway, house), endpoint_of(server_of(gateway, guard)) as endpoint:
        for name, door in DOORS.items():
            if "auto" in door.eras and door.method != "subscriptions/listen":
                answered = await posted(endpoint, door, headers, query)
                assert not came_through(house, answered.text), name


@pytest.mark.parametrize("guard", ["nothing", *BOUNDS])
async def test_instructions_are_bounded(guard: str, tmp_path: Path) -> None:
    async with guarded(guard, tmp_path) as (gateway, _), wired(server_of(gateway, guard), "legacy") as wire:
        assert ("out" in (wire.facts.instructions or "")) == (guard == "nothing")


IN_PROCESS: dict[str, Callable[[Session], Any]] = {
    "a list of tools": lambda session: [one.definition for one in session.list_tools().tools],
    "a list of groups": lambda session: [one.description for one in session.list_groups()],
    "a call": lambda session: session.call("out__take", {}),
    "a prompt": lambda session: session.get_prompt("out__greet"),
    "a resource": lambda session: session.read("out://list"),
    "a resource that nobody lists": lambda session: session.read("out://unlisted"),
    "a program": lambda session: invoke(session, "out__take"),
    "stubs": lambda session: stubs(session.view(), "python"),
}


@pytest.mark.parametrize("profile", ["narrow", "wide"])
async def test_programs_in_the_process_are_bounded_by_the_profile_of_their_session(
    profile: str, tmp_path: Path
) -> None:
    async with guarded("nothing", tmp_path) as (gateway, house):
        for name, door in IN_PROCESS.items():
            async with gateway.tools.open_session(profile) as session, session.fork() as fork:
                for one in (session, fork):
                    try:
                        said = door(one)
                        said = str(await said if isawaitable(said) else said)
                    except ToolfoldError as error:
                        said = str(error)
                    assert came_through(house, said) == (profile == "wide"), name
            for vault in house.of("out"):
                vault.asked.clear()


@pytest.mark.parametrize(
    "door",
    [
        "a resource, listed",
        "a resource, by template",
        "a subscription, by template",
        *(f"a resource spelled {uri}" for uri in SPELLINGS),
    ],
)
async def test_what_is_withheld_is_not_asked_for_where_only_one_server_can_have_it(door: str, tmp_path: Path) -> None:
    for changed in (False, True):
        house = House(partial(vault, "out" if changed else ""))
        config = config_of("out", mode="legacy").model_copy(update={"on_change": "quarantine"})
        runtime = Runtime(clock=Clock(), transport=house.transport, approvals=Approvals(tmp_path))
        gateway = open_gateway(config, runtime=runtime)
        with anyio.fail_after(SECONDS):
            async with gateway as tools:
                said = await answer(build_server(tools, extend=gateway.extend), "legacy", DOORS[door])
                assert came_through(house, said) is not changed


def test_what_a_gateway_is_served_with_has_rows_too() -> None:
    beside = {"stubs", "status_tool"}  # see `guarded`
    nothing_to_read = {"telemetry", "trace", "usage", "store"}
    assert {one.name for one in fields(Beside)} == beside | nothing_to_read


@pytest.mark.spec("GWY-12")
@pytest.mark.parametrize("guard", ["nothing", *BOUNDS])
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_outside_a_profile_no_server_is_started(guard: str, era: ConnectMode) -> None:
    house = House(partial(vault, ""))
    gateway = open_gateway(config_for(guard), runtime=Runtime(clock=Clock(), transport=house.transport), wait=False)
    with anyio.fail_after(SECONDS):
        async with gateway as tools:
            include_status(tools, gateway.status_for)
            server = server_of(gateway, guard, active=())
            for door in DOORS.values():
                if era in door.eras:
                    said = await answer(server, era, door)
                    assert guard == "nothing" or not came_through(house, said)
            for upstream in gateway.upstreams.values():
                if house.count(upstream.key):
                    await upstream.found_out()
    assert (house.count("in") > 0, house.count("out") > 0) == (True, guard == "nothing")


@pytest.mark.parametrize("profile", ["wide", "part"])
async def test_the_status_counts_what_the_caller_may_use(profile: str) -> None:
    groups = {"few": GroupConfig(description="Few", tools=("out__take",)), "all": GroupConfig(tools=("*",))}
    profiles = {"part": ProfileConfig(active=("few",)), "wide": ProfileConfig(active=("few", "all"))}
    config = CONFIG.model_copy(update={"groups": groups, "profiles": profiles})
    gateway = open_gateway(config, runtime=Runtime(clock=Clock(), transport=House(Two).transport))
    with anyio.fail_after(SECONDS):
        async with gateway as tools, tools.open_session(profile) as session:
            counts = {one.name: one.tools for one in gateway.status_for(session)}
    assert counts == ({"out": 1} if profile == "part" else {"in": 2, "out": 2})


class Two(Vault):
    """A server with two tools."""

    async def list_tools(self, ctx: Context, params: Any) -> t.ListToolsResult:
        take, _ = (await super().list_tools(ctx, params)).tools
        return t.ListToolsResult(tools=[take, take.model_copy(update={"name": "give"})])


async def test_every_handler_and_control_tool_has_a_row(tmp_path: Path) -> None:
    async with guarded("nothing", tmp_path) as (gateway, _):
        server = server_of(gateway, "nothing")
        components = gateway.tools.catalog.components
        find = gateway.registration.find
        own = {name for kind in KINDS for name in components[kind].by_name if find(kind, name) is None}
        found = {*server._request_handlers, *own, *gateway.reserved} - {"tools/call"}
    assert found - {door.opens for door in DOORS.values()} - NO_DOORS.keys() == set()
    assert {door.opens for door in DOORS.values()} - {"tools/call", *NO_HANDLERS} <= found
