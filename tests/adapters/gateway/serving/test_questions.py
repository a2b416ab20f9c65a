"""What upstreams ask of their clients, in the eras of either side."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.shared.message import ServerMessageMetadata

from tests.adapters.gateway.inprocess import House, config_of, gateway_of, opened, served, wired
from tests.adapters.gateway.upstreams.shop import ANSWERS, QUESTIONS, Shop
from tests.adapters.mcp.asgi import callers_of
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.blocked import all_blocked
from toolfold import InputRequired, ProtocolError
from toolfold_adapters.gateway.serving import downstream
from toolfold_adapters.gateway.serving.dialogue import Dialogue
from toolfold_adapters.gateway.serving.downstream import RequestInProgress
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.mcp import Limit, Limits, build_server
from toolfold_adapters.mcp.principal import local_user
from toolfold_adapters.names import HANDLE_META, ONE_SERVER

pytestmark = pytest.mark.spec("GWY-1")

ERAS = pytest.mark.parametrize("client_era", ["legacy", "auto"])
UPSTREAM_ERAS = pytest.mark.parametrize("upstream_era", ["legacy", "auto"])


class Person:
    """Answers what upstreams ask of a client."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def elicit(self, context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.asked.append(params)
        return t.ElicitResult(action="accept", content={"count": 3})

    async def sample(self, context: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        self.asked.append(params)
        content = t.TextContent(type="text", text="thought")
        return t.CreateMessageResult(role="assistant", content=content, model="m")

    async def roots(self, context: Any) -> t.ListRootsResult:
        self.asked.append("roots")
        return t.ListRootsResult(roots=[t.Root(uri="file:///project", name="project")])  # type: ignore[arg-type]

    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


@ERAS
@UPSTREAM_ERAS
@pytest.mark.parametrize(
    ("tool", "part"), [("elicit", '"count":3'), ("sample", "thought"), ("roots", "file:///project")]
)
async def test_what_an_upstream_asks_is_asked_of_the_client_that_called(
    client_era: str, upstream_era: str, tool: str, part: str
) -> None:
    caller, other = Person(), Person()
    async with (
        served(House(), config_of("shop", mode=upstream_era)) as (_, server),
        Client(server, mode=client_era, **caller.callbacks()) as client,
        Client(server, mode=client_era, **other.callbacks()),
    ):
        result = await client.call_tool(tool)
    assert part in text_of(result)
    assert len(caller.asked) == 1
    assert other.asked == []


@pytest.mark.spec("GWY-18")
async def test_a_server_that_has_become_modern_asks_a_modern_client_within_its_first_call(tmp_path: Path) -> None:
    cache = DefinitionCache(tmp_path)
    async with opened(House(), config_of("shop", mode="legacy"), cache=cache):
        pass
    learned = cache.read(config_of("shop", mode="legacy").upstreams[ONE_SERVER])
    assert learned is not None
    cache.write(config_of("shop").upstreams[ONE_SERVER], learned)  # as of an earlier version of the server
    async with (
        served(House(), config_of("shop"), cache=cache) as (gateway, server),
        Client(server, mode="auto", **Person().callbacks()) as client,
    ):
        (upstream,) = gateway.upstreams.values()
        assert not upstream.modern
        assert "3" in text_of(await client.call_tool("elicit"))
        assert upstream.modern


@pytest.mark.spec("ISO-2")
async def test_a_call_that_waits_is_continued_by_a_request_for_the_same_tool_alone() -> None:
    able: dict[str, Any] = {"elicitation": {"form": {}}}
    async with served(House(), config_of("shop", mode="legacy")) as (_, server), wired(server, "auto", able) as wire:
        asked = await wire.request("tools/call", {"name": "elicit", "arguments": {}})
        (name,) = asked["inputRequests"]
        answer = {
            "requestState": asked["requestState"],
            "inputResponses": {name: {"action": "accept", "content": {"count": 3}}},
        }
        refused = await wire.request("tools/call", {"name": "cart", "arguments": {}, **answer})
        assert "no longer waiting" in str(refused["content"])
        done = await wire.request("tools/call", {"name": "elicit", "arguments": {}, **answer})
        assert '"count":3' in str(done["content"]).replace(" ", "")


@ERAS
async def test_a_client_that_can_not_be_asked_is_not_asked(client_era: str) -> None:
    async with (
        served(House(), config_of("shop", mode="legacy")) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        assert text_of(await client.call_tool("elicit")) == f"refused: {t.METHOD_NOT_FOUND}"


async def test_a_client_of_pages_alone_is_not_asked_for_a_form() -> None:
    able: dict[str, Any] = {"elicitation": {"url": {}}}
    async with served(House(), config_of("shop", mode="legacy")) as (_, server), wired(server, "legacy", able) as wire:
        answer = await wire.request("tools/call", {"name": "elicit", "arguments": {}})
    assert answer["content"][0]["text"] == f"refused: {t.METHOD_NOT_FOUND}"


async def test_a_modern_client_that_can_not_be_asked_is_refused_what_a_modern_upstream_asks_for_all_the_same() -> None:
    async with served(House(), config_of("shop")) as (_, server), Client(server, mode="2026-07-28") as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("elicit")
    assert refused.value.error.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY


class Strict(Shop):
    """A server that answers a call with the error with which what it asked for was refused."""

    async def call(self, ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult:
        related = ServerMessageMetadata(related_request_id=ctx.request_id)
        answer = await ctx.session.send_request(QUESTIONS[params.name], ANSWERS[params.name], metadata=related)
        return t.CallToolResult(content=[t.TextContent(type="text", text=answer.model_dump_json())])


@pytest.mark.spec("GWY-18")
@pytest.mark.parametrize("able", [{}, {"elicitation": {"url": {}}}])
async def test_a_modern_client_whose_call_fails_since_it_can_not_be_asked_learns_what_it_lacks(
    able: dict[str, Any],
) -> None:
    strict = House(make=lambda _: Strict())
    async with served(strict, config_of("shop", mode="legacy")) as (_, server), wired(server, "auto", able) as wire:
        with pytest.raises(ProtocolError) as refused:
            await wire.request("tools/call", {"name": "elicit", "arguments": {}})
    assert refused.value.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refused.value.data == {"requiredCapabilities": {"elicitation": {}}}


class Files(Shop):
    """A server that asks for the roots at the beginning, and takes a while to look them up before it uses them."""

    def __init__(self) -> None:
        super().__init__()
        self.server.add_notification_handler("notifications/initialized", t.NotificationParams, self.begin)

    async def begin(self, ctx: Any, params: Any) -> None:
        roots = await ctx.session.send_request(t.ListRootsRequest(), t.ListRootsResult)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        self.cart = [str(root.uri) for root in roots.roots]


async def test_an_upstream_has_taken_up_the_roots_that_it_asks_for_before_its_first_call() -> None:
    async with (
        served(House(make=lambda _: Files()), config_of("files", mode="legacy")) as (_, server),
        Client(server, mode="legacy", list_roots_callback=Person().roots) as client,
    ):
        assert text_of(await client.call_tool("cart")) == '["file:///project"]'


async def test_a_modern_client_is_asked_for_roots_within_its_first_call_though_its_group_was_opened_before() -> None:
    gateway = gateway_of(House(make=lambda _: Files()), config_of("files", "other", mode="legacy"))
    async with (
        gateway as tools,
        Client(
            build_server(tools, handles="stored", extend=gateway.extend), list_roots_callback=Person().roots
        ) as client,
    ):
        opened = await client.call_tool("open_group", {"group": "files"})
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        handle = (opened.meta or {})[HANDLE_META]
        cart = await client.call_tool("call_tool", {"name": "files__cart", "handle": handle})
        assert text_of(cart) == '["file:///project"]'


async def test_an_upstream_is_notified_that_its_clients_roots_changed() -> None:
    house = House()
    async with (
        served(house, config_of("shop", mode="legacy")) as (_, server),
        Client(server, mode="legacy", list_roots_callback=Person().roots) as client,
    ):
        await client.call_tool("cart")
        await client.session.send_notification(t.RootsListChangedNotification())
        await house.of("shop")[-1].roots_changed.wait()


async def test_a_modern_call_whose_client_never_answers_is_given_up_when_the_gateway_closes() -> None:
    house = House()
    async with (
        served(house, config_of("shop", mode="legacy")) as (_, server),
        Client(server, mode="auto", elicitation_callback=Person().elicit) as client,
    ):
        first = await client.session.call_tool("elicit", {}, allow_input_required=True)
        assert isinstance(first, t.InputRequiredResult)
        forged = await client.session.call_tool("elicit", {}, request_state="made up", allow_input_required=True)
        assert isinstance(forged, t.CallToolResult)
        assert "no longer waiting" in text_of(forged)


class Curious(Shop):
    """A server whose call `two` asks a second question beside the first, once `more` is set."""

    def __init__(self) -> None:
        super().__init__(tools=("two",))
        self.more = anyio.Event()

    async def call(self, ctx: Any, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        if params.name != "two":
            return await super().call(ctx, params)
        answers: list[str] = []

        async def ask(name: str) -> None:
            answers.append(text_of(await super(Curious, self).call(ctx, t.CallToolRequestParams(name=name))))  # type: ignore[arg-type]

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "elicit")
            await self.more.wait()
            tasks.start_soon(ask, "roots")
        return t.CallToolResult(content=[t.TextContent(type="text", text=json.dumps(answers))])


async def test_what_is_asked_while_the_client_answers_something_else_is_asked_next() -> None:
    house = House(lambda name: Curious())
    answers: list[Any] = [t.ElicitResult(action="accept", content={"count": 3}), await Person().roots(None)]
    async with (
        served(house, config_of("shop", mode="legacy")) as (_, server),
        Client(server, mode="auto", **Person().callbacks()) as client,
    ):
        asked = await client.session.call_tool("two", allow_input_required=True)
        house.of("shop")[-1].more.set()
        for answer in answers:
            await all_blocked()
            assert isinstance(asked, t.InputRequiredResult)
            (question,) = asked.input_requests or {}
            asked = await client.session.call_tool(
                "two", input_responses={question: answer}, request_state=asked.request_state, allow_input_required=True
            )
        assert isinstance(asked, t.CallToolResult)
        assert "count" in text_of(asked)
        assert "file:///project" in text_of(asked)


async def test_what_is_asked_within_a_call_that_ends_meanwhile_is_refused() -> None:
    dialogue, ended, refused = Dialogue(RequestInProgress(None), local_user()), anyio.Event(), anyio.Event()

    async def perform() -> dict[str, Any]:
        await ended.wait()
        return {"content": []}

    async def ask() -> None:
        with pytest.raises(MCPError, match="The client did not answer roots/list"):
            await dialogue.ask("roots/list", {})
        refused.set()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(dialogue.run, perform)
            tasks.start_soon(ask)
            await all_blocked()
            ended.set()
            await refused.wait()
            assert await dialogue.next() == {"content": []}


async def test_a_call_that_nobody_waits_for_takes_no_other_calls_question() -> None:
    older, newer = Dialogue(RequestInProgress(None), local_user()), Dialogue(RequestInProgress(None), local_user())
    client = downstream.DownstreamClient("principal", lambda caller: nullcontext(), capabilities={"elicitation": {}})
    calls = [RequestInProgress(None, older.ask), RequestInProgress(None, newer.ask)]
    async with anyio.create_task_group() as tasks:
        for message in ("one", "another"):
            tasks.start_soon(client.ask, "elicitation/create", {"message": message}, calls)
        await all_blocked()
        with anyio.fail_after(60):
            for each in newer, older:
                assert isinstance(await each.next(), InputRequired)
        tasks.cancel_scope.cancel()


async def test_a_call_whose_client_does_not_answer_in_time_is_cancelled_at_the_upstream() -> None:
    house = House()
    async with (
        served(house, config_of("shop", mode="legacy")) as (gateway, server),
        Client(server, mode="auto", elicitation_callback=Person().elicit) as client,
    ):
        gateway.forwarding.dialogues.patience = 0
        asked = await client.session.call_tool("elicit", {}, allow_input_required=True)
        assert isinstance(asked, t.InputRequiredResult)
        await house.of("shop")[-1].given_up.wait()


@pytest.mark.spec("GWY-12", "SAF-4")
async def test_a_legacy_client_that_never_answers_has_its_place_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downstream, "ANSWER_SECONDS", 0)
    gone = Slow()
    async with (
        served(House(), config_of("shop", mode="legacy")) as (gateway, server),
        Client(server, mode="legacy", **gone.callbacks()) as client,
    ):
        calls = gateway.clients.calls
        assert f"refused: {t.INVALID_REQUEST}" in text_of(await client.call_tool("elicit"))
        assert calls.limit.total is not None
        for _ in range(calls.limit.total):
            calls.take(None)
        assert not calls.has_room(None)


class Slow(Person):
    """A person who answers once `ready` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.asked_first = anyio.Event()
        self.ready = anyio.Event()

    async def elicit(self, context: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        self.asked_first.set()
        await self.ready.wait()
        return await super().elicit(context, params)


@pytest.mark.spec("GWY-12", "GWY-10")
async def test_a_question_that_waits_on_a_shared_server_leaves_no_other_callers_question_unanswered() -> None:
    slow, quick, answers = Slow(), Person(), list[str]()
    async with (
        served(House(), config_of("shop", mode="legacy", shared=True)) as (_, server),
        Client(server, mode="legacy", **slow.callbacks()) as one,
        Client(server, mode="legacy", **quick.callbacks()) as two,
        anyio.create_task_group() as tasks,
    ):

        async def call() -> None:
            answers.append(text_of(await one.call_tool("elicit")))

        tasks.start_soon(call)
        await slow.asked_first.wait()
        assert '"count":3' in text_of(await two.call_tool("elicit"))
        assert answers == []
        slow.ready.set()
    assert '"count":3' in answers[0]
    assert (len(slow.asked), len(quick.asked)) == (1, 1)


@pytest.mark.spec("GWY-12", "SAF-4", "SAF-7")
async def test_questions_and_calls_count_for_who_made_them_and_end_nobody_elses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = gateway_of(House(), config_of("shop", mode="legacy"))
    answers: Any = {"question-1": t.ElicitResult(action="accept", content={"count": 3})}

    async def asked(client: Client) -> t.InputRequiredResult | t.CallToolResult:
        return await client.session.call_tool("elicit", {}, allow_input_required=True)

    async def answered(client: Client, asked: Any) -> str:
        state = asked.request_state
        result = await client.session.call_tool("elicit", {}, input_responses=answers, request_state=state)
        assert isinstance(result, t.CallToolResult)
        return text_of(result)

    async with (
        gateway as tools,
        callers_of(build_server(tools, limits=Limits(calls=Limit(None, 2)), extend=gateway.extend)) as target,
        Client(target("ada"), mode="auto", elicitation_callback=Person().elicit) as ada,
        Client(target("eve"), mode="auto", elicitation_callback=Person().elicit) as eve,
    ):
        first = await asked(eve)
        refused = await asked(eve)
        assert isinstance(refused, t.CallToolResult)
        assert f"refused: {t.INVALID_REQUEST}" in text_of(refused)  # of the question, which the server makes its answer
        assert "The limit of 2 requests in progress of one caller" in caplog.text
        assert "no longer waiting" in await answered(ada, first)
        assert '"count":3' in await answered(eve, first)
        assert '"count":3' in await answered(ada, await asked(ada))
