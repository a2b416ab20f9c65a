"""What a server describes to each caller differently, each has as it was described to him (SPEC GWY-19, ISO-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import pytest
from attrs import define, field
from mcp import Client, MCPError
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams

from tests.adapters.gateway.callers.test_rights import ERAS, URL, Bearers, Served, row
from tests.adapters.gateway.inprocess import SECONDS, Clock
from tests.adapters.mcp.test_handle_delivery import text_of
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.callers.acting import acting
from toolfold_adapters.gateway.callers.credentials import Credentials
from toolfold_adapters.gateway.callers.keys import VARIABLE, keys_of, new_key
from toolfold_adapters.gateway.callers.logins import CallerLogins
from toolfold_adapters.gateway.config.settings import RightsConfig
from toolfold_adapters.gateway.stored import Approvals
from toolfold_adapters.gateway.upstream.life import LoginNeeded
from toolfold_adapters.mcp import Authentication, build_server, http_app
from toolfold_adapters.observe.status import STATUS_TOOL, as_text, include_status, status_of
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("GWY-19")

READS, DESTROYS = t.ToolAnnotations(read_only_hint=True), t.ToolAnnotations(destructive_hint=True)


def tool(name: str, description: str = "", argument: str = "x", annotations: t.ToolAnnotations = READS) -> t.Tool:
    schema = {"type": "object", "properties": {argument: {"type": "string"}}}
    return t.Tool(name=name, description=description, input_schema=schema, annotations=annotations)


ALICES = [tool("note", "Reads the diary of alice.", "day"), tool("common", "Says hello.")]
BOBS = [tool("note", "Burns the ledger of bob.", "page", DESTROYS), tool("common", "Says hello."), tool("extra")]


@define(eq=False)
class Board:
    """A server that lists what `lists` says to whoever has logged in, and says who calls."""

    lists: dict[str, list[t.Tool]] = field(factory=lambda: {"alice": [*ALICES], "bob": [*BOBS]})
    sessions: dict[str, Any] = field(factory=dict)
    resources: dict[str, list[str]] = field(factory=dict)
    """What it lists to each beside tools: URIs, and templates of them; it reads whatever URI it is asked for."""

    @asynccontextmanager
    async def transport(self, config: UpstreamConfig, name: str) -> AsyncGenerator[tuple[Any, Any]]:
        whose = acting.get()
        person = "" if whose is None else whose.principal.name
        if person not in self.lists:
            raise LoginNeeded("there is no credential of yours", "Log in there first.")

        async def listed(ctx: Any, params: Any) -> t.ListToolsResult:
            self.sessions[person] = ctx.session
            return t.ListToolsResult(tools=self.lists[person])

        async def call(ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
            return t.CallToolResult(content=[t.TextContent(type="text", text=f"{params.name} of {person}")])

        async def resources(ctx: Any, params: Any) -> t.ListResourcesResult:
            uris = [uri for uri in self.resources.get(person, []) if "{" not in uri]
            return t.ListResourcesResult(resources=[t.Resource(uri=uri, name=uri) for uri in uris])

        async def templates(ctx: Any, params: Any) -> t.ListResourceTemplatesResult:
            uris = [uri for uri in self.resources.get(person, []) if "{" in uri]
            own = [t.ResourceTemplate(uri_template=uri, name=uri) for uri in uris]
            return t.ListResourceTemplatesResult(resource_templates=own)

        async def content(ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
            text = f"{params.uri} of {person}"
            return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=text)])

        server = Server[Any](
            "board",
            on_list_tools=listed,
            on_call_tool=call,
            on_list_resources=resources,
            on_list_resource_templates=templates,
            on_read_resource=content,
        )
        async with (
            create_client_server_memory_streams() as ((read, write), streams),
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(server.run, *streams, server.create_initialization_options())
            yield read, write
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def served(
    board: Board, rows: Mapping[str, RightsConfig] | None = None, folder: Path | None = None, **settings: Any
) -> AsyncGenerator[Served]:
    """A gateway whose only server is used by each caller as himself."""
    upstream = UpstreamConfig(url="https://board.example/mcp", auth="caller", mode="legacy")
    config = GatewayConfig(upstreams={"board": upstream}, rights=rows or {}, **settings)
    callers = CallerLogins(Credentials(MemoryStore(), lambda: keys_of({VARIABLE: new_key()}, None)))
    clock = Clock()
    approvals = None if folder is None else Approvals(folder)
    runtime = Runtime(clock=clock, transport=board.transport, callers=callers, approvals=approvals)
    auth = Authentication.by_oauth(Bearers(), issuer="https://login.example", resource=URL)
    auth.settings.validate_token_resource = False
    with anyio.fail_after(SECONDS):
        gateway = open_gateway(config, runtime=runtime, wait=False)
        async with gateway as tools:
            app = http_app(build_server(tools, active=["board"], read_tool=True, extend=gateway.extend), auth=auth)
            async with app.lifespan():
                yield Served(gateway, app, clock)


async def opened(client: Client) -> dict[str, t.Tool]:
    """Return the tools of the server that are listed to a caller who has opened its group."""
    await client.call_tool("open_group", {"group": "board"})
    listed = await client.list_tools(cache_mode="bypass")
    return {one.name: one for one in listed.tools if one.name.startswith("board__")}


@pytest.mark.spec("ISO-1")
async def test_each_caller_is_listed_and_finds_his_own_and_calls_it() -> None:
    async with (
        served(Board()) as here,
        here.client("legacy", sub="alice") as alice,
        here.client("legacy", sub="bob") as bob,
    ):
        alices, bobs = await opened(alice), await opened(bob)
        assert {name: one.description for name, one in alices.items()} == {
            "board__note": "Reads the diary of alice.",
            "board__common": "Says hello.",
        }
        assert {name: one.description for name, one in bobs.items()} == {
            "board__note": "Burns the ledger of bob.",
            "board__common": "Says hello.",
            "board__extra": "",
        }
        assert [*alices["board__note"].input_schema["properties"]] == ["day"]
        assert [*bobs["board__note"].input_schema["properties"]] == ["page"]
        assert bobs["board__note"].annotations == DESTROYS
        assert [text_of(await one.call_tool("board__note", {})) for one in (alice, bob)] == [
            "note of alice",
            "note of bob",
        ]


@pytest.mark.spec("ISO-1")
@pytest.mark.parametrize("era", ERAS)
async def test_no_text_of_one_caller_is_in_what_another_reads(era: str) -> None:
    async with served(Board()) as here, here.client(era, sub="alice") as alice, here.client(era, sub="bob") as bob:
        for one, own, others in ((alice, "diary", "ledger"), (bob, "ledger", "diary")):
            said = text_of(await one.call_tool("open_group", {"group": "board"}))
            for query in ("reads", "burns"):
                said += text_of(await one.call_tool("find_tools", {"query": query}))
            said += str((await one.list_tools(cache_mode="bypass")).tools)
            assert own in said
            assert others not in said
        assert "board__extra" not in text_of(await alice.call_tool("find_tools", {"query": "extra"}))
        refused = await alice.call_tool("call_tool", {"name": "board__extra", "arguments": {}})
        assert refused.is_error
        through = await bob.call_tool("call_tool", {"name": "board__extra", "arguments": {}})
        assert text_of(through) == "extra of bob"


@pytest.mark.spec("ISO-2")
@pytest.mark.parametrize("era", ERAS)
async def test_a_right_to_read_goes_by_what_a_tool_says_of_itself_to_that_caller(era: str) -> None:
    async with (
        served(Board(), {"*": row("read")}) as here,
        here.client(era, sub="bob") as bob,
        here.client(era, sub="alice") as alice,
    ):
        for name in ("call_tool", "read_tool"):
            asked = {"name": "board__note", "arguments": {}}
            assert text_of(await alice.call_tool(name, asked)) == "note of alice"
            assert (await bob.call_tool(name, asked)).is_error
        assert text_of(await bob.call_tool("call_tool", {"name": "board__common"})) == "common of bob"


async def test_what_can_not_be_registered_of_one_caller_is_missing_for_him_alone() -> None:
    board = Board()
    board.lists["alice"] = [t.Tool(name="note", description="x", input_schema={"type": "object", "$ref": "#/nowhere"})]
    async with (
        served(board) as here,
        here.client("legacy", sub="alice") as alice,
        here.client("legacy", sub="bob") as bob,
    ):
        await opened(alice)
        assert len(await opened(bob)) == 3


async def test_who_changes_what_he_is_listed_is_notified_and_nobody_else() -> None:
    board = Board()
    told: list[str] = []
    async with served(board) as here:

        def noting(name: str) -> Any:
            async def note(message: Any) -> None:
                if isinstance(message, t.ToolListChangedNotification):
                    told.append(name)

            return note

        async with (
            here.client("legacy", sub="alice", on_message=noting("alice")) as alice,
            here.client("legacy", sub="bob", on_message=noting("bob")) as bob,
        ):
            await opened(alice)
            await opened(bob)
            told.clear()
            board.lists["bob"].append(tool("new"))
            await board.sessions["bob"].send_tool_list_changed()
            while "board__new" not in {one.name for one in (await bob.list_tools(cache_mode="bypass")).tools}:
                await anyio.lowlevel.checkpoint()
            await alice.list_tools(cache_mode="bypass")
            await alice.call_tool("board__common", {})
            assert "board__new" not in {one.name for one in (await alice.list_tools(cache_mode="bypass")).tools}
    assert set(told) == {"bob"}


OF_ALICE = ["mem://alice/plans/merger", "mem://alice/files/{name}"]
PROBES = [
    "mem://alice/plans/merger",
    "mem://ALICE/plans/merger",
    "mem://alice/plans/./merger",
    "mem://alice/files/one",
    "mem://ALICE/files/one",
    "mem://alice/plans/other",
]


async def answer_to(client: Client, uri: str) -> str:
    """Return what is read at a URI, or the kind of the refusal: a link to log in by is another each time."""
    try:
        (content,) = (await client.read_resource(uri)).contents
    except MCPError as error:
        return "unknown" if "Unknown resource" in str(error) else f"refused: {error.error.code}"
    assert isinstance(content, t.TextResourceContents)
    return content.text


@pytest.mark.spec("ISO-1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("rows", [None, {"*": row("destructive")}])
async def test_what_resources_one_caller_is_listed_another_can_not_tell(
    era: str, rows: Mapping[str, RightsConfig] | None
) -> None:
    board = Board(resources={"alice": OF_ALICE, "bob": ["mem://shared/a"]})
    async with (
        served(board, rows) as here,
        here.client(era, sub="alice") as alice,
        here.client(era, sub="bob") as bob,
        here.client(era, sub="eve") as eve,
    ):
        await opened(bob)
        before = [[await answer_to(one, uri) for uri in PROBES] for one in (bob, eve)]
        await opened(alice)
        assert [await answer_to(alice, uri) for uri in PROBES[::3]] == [f"{uri} of alice" for uri in PROBES[::3]]
        assert [[await answer_to(one, uri) for uri in PROBES] for one in (bob, eve)] == before
        assert before[0] == [f"{uri} of bob" for uri in PROBES]
        assert "unknown" not in before[1]
        assert len({*before[1]}) == 1


@pytest.mark.spec("ISO-1", "GWY-6")
@pytest.mark.parametrize("first", ["alice", "bob"])
async def test_what_a_tool_is_called_does_not_depend_on_what_others_are_listed(first: str) -> None:
    board = Board({"alice": [tool("do it")], "bob": [tool("do_it", annotations=DESTROYS), tool("do.it")]})
    told: list[Any] = []

    async def note(message: Any) -> None:
        told.append(message)

    async with (
        served(board) as here,
        here.client("legacy", sub="alice", on_message=note if first == "alice" else None) as alice,
        here.client("legacy", sub="bob", on_message=note if first == "bob" else None) as bob,
    ):
        clients = {"alice": alice, "bob": bob}
        one, other = clients.pop(first), *clients.values()
        names = [*await opened(one)]
        told.clear()
        others = [*await opened(other)]
        assert [*await opened(one)] == names
        assert not [message for message in told if isinstance(message, t.ToolListChangedNotification)]
        of = {name: text_of(await one.call_tool(name, {})) for name in names}
        of |= {name: text_of(await other.call_tool(name, {})) for name in others}
        assert of == {
            "board__do_it": "do_it of bob",
            "board__do_it_8816e4": "do it of alice",
            "board__do_it_b510f7": "do.it of bob",
        }


@pytest.mark.spec("GWY-11")
async def test_what_changes_for_one_caller_is_withheld_from_him_until_it_is_approved(tmp_path: Path) -> None:
    board = Board()
    async with served(board, folder=tmp_path, on_change="quarantine") as here:
        async with here.client("legacy", sub="alice") as alice, here.client("legacy", sub="bob") as bob:
            assert len(await opened(alice)) == 2
            assert len(await opened(bob)) == 3
        board.lists["alice"][0] = tool("note", "Sends the diary away.")
        for link in here.gateway.upstreams["board"].links:
            link.stop()
        async with here.client("legacy", sub="alice") as alice, here.client("legacy", sub="bob") as bob:
            assert [*await opened(alice)] == ["board__common"]
            assert len(await opened(bob)) == 3
            assert text_of(await bob.call_tool("board__note", {})) == "note of bob"
            refused = await alice.call_tool("call_tool", {"name": "board__note", "arguments": {}})
            assert "withheld until its operator has approved it" in text_of(refused)
            assert [one.withheld for one in here.gateway.status] == [True]
            approvals = Approvals(tmp_path, serving=False)
            entry = here.gateway.config.entry("board")
            ((whose, changed),) = approvals.waiting(entry).items()
            assert "alice" in whose
            assert [*changed] == [("tool", "note")]
            assert any("Sends the diary away" in line for line in changed["tool", "note"])
            assert not approvals.approve_waiting(entry)
            assert approvals.waiting(entry) == {}
            await here.gateway.reconfigure(here.gateway.config)
            assert len(await opened(alice)) == 2
            assert text_of(await alice.call_tool("board__note", {})) == "note of alice"
            assert [one.withheld for one in here.gateway.status] == [False]


async def test_an_operator_sees_who_uses_a_server_as_himself_and_a_caller_how_it_does_for_him() -> None:
    board = Board()
    del board.lists["bob"]
    async with served(board) as here:
        include_status(here.gateway.tools, here.gateway.status_for)
        async with here.client("legacy", sub="alice") as alice, here.client("legacy", sub="bob") as bob:
            await opened(alice)
            await opened(bob)
            lines = [as_text(one) for one in await status_of(here.gateway.tools, here.gateway.status)]
            assert any("as themselves: alice is ready, bob has to log in" in one for one in lines)
            mine = {
                one: text_of(await client.call_tool(STATUS_TOOL, {}))
                for one, client in (("alice", alice), ("bob", bob))
            }
        assert "alice is ready" in mine["alice"]
        assert "2 tools" in mine["alice"]
        assert "bob" not in mine["alice"]
        assert "alice" not in mine["bob"]
        assert "bob has to log in" in mine["bob"]


async def test_of_callers_beyond_a_number_the_one_who_was_listed_longest_ago_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolfold_adapters.gateway.callers.listed.MOST", 1)
    async with (
        served(Board()) as here,
        here.client("legacy", sub="alice") as alice,
        here.client("legacy", sub="bob") as bob,
    ):
        assert len(await opened(alice)) == 2
        assert len(await opened(bob)) == 3
        assert text_of(await alice.call_tool("call_tool", {"name": "board__note"})) == "note of alice"
