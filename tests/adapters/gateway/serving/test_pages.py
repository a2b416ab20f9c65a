"""Pages that an upstream has a user visit before it answers, in the eras of either side (SPEC GWY-18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.adapters.gateway.inprocess import House, config_of, opened, served, wired
from tests.adapters.gateway.upstreams.shop import Context, Shop
from tests.adapters.mcp.test_call_tools import call as one_call
from toolfold import ProtocolError
from toolfold_adapters.gateway.serving.pages import COMPLETE, ELICIT
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-18")

ABLE: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}
URL = "https://example.org/pay?n=1&name=%C3%A9"
PAGE = {"mode": "url", "message": "Pay first.", "url": URL, "elicitationId": "p-1"}
QUESTION = {key: value for key, value in PAGE.items() if key != "elicitationId"}


class Paid(Shop):
    """A server whose tool `buy` has the user pay on a page, which `pay` says is done; it is asked for in each way."""

    def __init__(self) -> None:
        super().__init__(tools=("buy", "ask", "pay"))
        self.paid = False
        self.calls = 0
        self.session: Any = None

    async def call(self, ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult | t.InputRequiredResult:
        modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        self.session = ctx.session
        if params.name == "pay":
            await self.pay(ctx.session)
        elif params.name in ("buy", "ask"):
            self.calls += 1
            if modern and not params.input_responses:
                asked = t.ElicitRequest.model_validate({"method": ELICIT, "params": QUESTION})
                return t.InputRequiredResult(input_requests={"page": asked}, request_state="s")
            if params.name == "ask" and not modern:
                asked = t.ElicitRequest.model_validate({"method": ELICIT, "params": PAGE})
                answer = await ctx.session.send_request(asked, t.ElicitResult)
                return said(f"it is {answer.action}ed")
            if not (modern or self.paid):
                raise UrlElicitationRequiredError([t.ElicitRequestURLParams.model_validate(PAGE)], "Pay first.")
        return said("done")

    async def pay(self, session: Any) -> None:
        self.paid = True
        done = t.ElicitCompleteNotificationParams(elicitation_id="p-1")
        await session.send_notification(t.ElicitCompleteNotification(params=done))


def said(text: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=text)])


def text_of(answer: Mapping[str, Any]) -> str:
    return str(answer["content"][0]["text"])


class User:
    """A client of the gateway, which answers for its user, and what reached it."""

    def __init__(self, action: str = "accept") -> None:
        self.action = action
        self.asked: list[Mapping[str, Any]] = []
        self.notified: list[tuple[str, Mapping[str, Any]]] = []
        self.done = anyio.Event()

    async def answer(self, method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
        self.asked.append(params)
        return {"action": self.action}

    def note(self, method: str, params: Mapping[str, Any], cause: object) -> None:
        if method == COMPLETE:
            self.notified.append((method, params))
            self.done.set()

    @asynccontextmanager
    async def at(self, server: Any, era: ConnectMode, able: Mapping[str, Any] = ABLE) -> AsyncGenerator[Wire]:
        async with wired(server, era, able, self.answer, self.note) as wire:
            yield wire


def house() -> House:
    return House(lambda name: Paid())


BUY = {"name": "buy", "arguments": {}}
WAYS = pytest.mark.parametrize("way", ["by its name", "by call_tool"])


def asking(way: str) -> dict[str, Any]:
    given = {"name": "shop__buy", "arguments": {}}
    return given if way == "by its name" else {"name": "call_tool", "arguments": given}


@asynccontextmanager
async def shops(of: House, **settings: Any) -> AsyncGenerator[Any]:
    """A server in front of a gateway of two servers, so that it has groups and `call_tool`."""
    async with opened(of, config_of("shop", "other", **{"mode": "legacy", **settings})) as (gateway, _):
        active = [group.path for group in gateway.tools.catalog.groups]
        yield build_server(gateway.tools, active=active, handles="stored", extend=gateway.extend, call_tools=True)


@WAYS
async def test_a_refusal_with_pages_passes_whole(way: str) -> None:
    async with shops(house()) as server, User().at(server, "legacy") as client:
        with pytest.raises(ProtocolError) as refused:
            await client.request("tools/call", asking(way))
    assert (refused.value.code, refused.value.message) == (t.URL_ELICITATION_REQUIRED, "Pay first.")
    assert refused.value.data == {"elicitations": [PAGE]}


async def test_of_several_calls_one_that_needs_a_page_is_to_be_made_alone() -> None:
    async with shops(house()) as server, User().at(server, "legacy") as client:
        given = {"name": "call_tools", "arguments": {"calls": [one_call("shop__buy")]}}
        answer = await client.request("tools/call", given)
    assert answer["content"][0]["text"].strip() == "[1] shop__buy failed:\nPay first. Call it alone."


@pytest.mark.parametrize("tool", ["buy", "ask"])
async def test_that_a_page_is_done_reaches_who_was_sent_there_and_nobody_else_on_a_shared_connection(
    tool: str,
) -> None:
    of, alice, bob = house(), User(), User()
    async with (
        served(of, config_of("shop", mode="legacy", shared=True)) as (_, server),
        alice.at(server, "legacy") as client,
        bob.at(server, "legacy") as other,
    ):
        if tool == "buy":
            with pytest.raises(ProtocolError):
                await client.request("tools/call", BUY)
        else:  # nobody else has called, so it is known who is asked
            assert text_of(await client.request("tools/call", {"name": "ask"})) == "it is accepted"
        await other.request("tools/call", {"name": "cart"})
        await of.of("shop")[-1].pay(of.of("shop")[-1].session)
        await alice.done.wait()
        await anyio.wait_all_tasks_blocked()
    assert alice.notified == [(COMPLETE, {"elicitationId": "p-1"})]
    assert bob.notified == []


async def test_a_page_of_which_nothing_is_known_is_done_for_nobody_on_a_shared_connection() -> None:
    of, alice, bob = house(), User(), User()
    async with (
        served(of, config_of("shop", mode="legacy", shared=True)) as (_, server),
        alice.at(server, "legacy") as client,
        bob.at(server, "legacy") as other,
    ):
        await client.request("tools/call", {"name": "cart"})
        await other.request("tools/call", {"name": "cart"})
        await of.of("shop")[-1].pay(of.of("shop")[-1].session)
        await anyio.wait_all_tasks_blocked()
    assert alice.notified == bob.notified == []


async def answered(client: Wire, asked: dict[str, Any], given: dict[str, Any], action: str) -> dict[str, Any]:
    """Return what comes of a call once the page that it asks for is answered with an action."""
    (key,) = asked["inputRequests"]
    again = {**given, "inputResponses": {key: {"action": action}}, "requestState": asked["requestState"]}
    return await client.request("tools/call", again)


@WAYS
async def test_a_modern_client_is_asked_to_visit_the_page_that_a_legacy_upstream_refuses_with(way: str) -> None:
    of, user, given = house(), User(), asking(way)
    async with shops(of) as server, user.at(server, "auto") as client:
        asked = await client.request("tools/call", given)
        (question,) = asked["inputRequests"].values()
        assert (asked["resultType"], question) == ("input_required", {"method": ELICIT, "params": QUESTION})
        shop, answers = of.of("shop")[-1], list[dict[str, Any]]()

        async def answer() -> None:
            answers.append(await answered(client, asked, given, "accept"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            await anyio.wait_all_tasks_blocked()
            assert (answers, shop.calls) == ([], 1)  # the user is on the page
            await shop.pay(shop.session)
    assert (text_of(answers[0]), shop.calls) == ("done", 2)
    assert user.notified == []


async def test_a_server_that_never_says_that_a_page_is_done_is_called_again_after_a_while() -> None:
    of, user = house(), User()
    async with served(of, config_of("shop", mode="legacy")) as (gateway, server), user.at(server, "auto") as client:
        asked = await client.request("tools/call", BUY)
        for upstream in gateway.upstreams.values():
            for link in upstream.links:
                link.pages.patience = 0
        again = await answered(client, asked, BUY, "accept")
        assert again["resultType"] == "input_required"
        of.of("shop")[-1].paid = True
        assert text_of(await answered(client, again, BUY, "accept")) == "done"


async def test_a_page_that_a_user_does_not_want_to_visit_fails_the_call() -> None:
    async with served(house(), config_of("shop", mode="legacy")) as (_, server), User().at(server, "auto") as client:
        asked = await client.request("tools/call", BUY)
        answer = await answered(client, asked, BUY, "decline")
    assert answer["isError"]
    assert text_of(answer) == "The page that the server needs visited first was not opened: Pay first."


@pytest.mark.parametrize("able", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_a_modern_client_that_knows_no_pages_learns_that_it_would_have_to(able: dict[str, Any]) -> None:
    async with (
        served(house(), config_of("shop", mode="legacy")) as (_, server),
        User().at(server, "auto", able) as client,
    ):
        with pytest.raises(ProtocolError) as refused:
            await client.request("tools/call", BUY)
    assert refused.value.code == t.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refused.value.message == f"Pay first: visit {URL}, then ask again."
    assert refused.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


async def test_a_client_that_knows_no_pages_is_not_sent_to_one_over_a_shared_connection() -> None:
    user = User()
    async with (
        served(house(), config_of("shop", mode="legacy", shared=True)) as (_, server),
        user.at(server, "legacy", {"elicitation": {"form": {}}}) as client,
    ):
        with pytest.raises(ProtocolError, match="does not answer elicitation/create"):
            await client.request("tools/call", {"name": "ask"})
    assert user.asked == []


@WAYS
@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_a_legacy_client_is_sent_to_the_page_of_a_modern_upstream_with_an_id_that_is_done_in_the_end(
    way: str, action: str
) -> None:
    user = User(action)
    async with shops(house(), mode="auto") as server, user.at(server, "legacy") as client:
        assert text_of(await client.request("tools/call", asking(way))) == "done"
        await user.done.wait()
    (asked,) = user.asked
    assert {**asked, "elicitationId": "p-1"} == PAGE
    assert user.notified == [(COMPLETE, {"elicitationId": asked["elicitationId"]})]


async def test_a_modern_client_and_a_modern_upstream_have_the_page_as_it_is() -> None:
    async with served(house(), config_of("shop", mode="auto")) as (_, server), User().at(server, "auto") as client:
        asked = await client.request("tools/call", BUY)
        assert asked["inputRequests"] == {"page": {"method": ELICIT, "params": QUESTION}}
        assert asked["requestState"] == "s"
        assert text_of(await answered(client, asked, BUY, "accept")) == "done"


async def test_a_program_has_the_pages_in_the_error() -> None:
    async with opened(house(), config_of("shop", mode="legacy")) as (_, session):
        with pytest.raises(ProtocolError) as refused:
            await session.call("buy")
    assert refused.value.data == {"elicitations": [PAGE]}
