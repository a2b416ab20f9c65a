"""What passes between clients and upstreams, in the eras of either side."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as t
import pytest
from mcp import Client, MCPError

from tests.adapters.gateway.inprocess import House, config_of, opened, served, wired
from tests.adapters.gateway.serving.test_questions import Person
from tests.adapters.mcp.test_handle_delivery import text_of
from toolfold_adapters.gateway.upstream.handshake import ConnectMode

pytestmark = pytest.mark.spec("GWY-1")

ERAS = pytest.mark.parametrize("client_era", ["legacy", "auto"])
UPSTREAM_ERAS = pytest.mark.parametrize("upstream_era", ["legacy", "auto"])


@ERAS
@UPSTREAM_ERAS
async def test_an_upstream_learns_what_the_client_can_do(client_era: str, upstream_era: str) -> None:
    async with (
        served(House(), config_of("shop", mode=upstream_era)) as (_, server),
        Client(server, mode=client_era, list_roots_callback=Person().roots) as client,
    ):
        declared = json.loads(text_of(await client.call_tool("capabilities")))
    assert set(declared) == {"roots"}


@pytest.mark.spec("GWY-7")
@ERAS
@UPSTREAM_ERAS
async def test_arguments_and_meta_arrive_as_they_were_given(client_era: str, upstream_era: str) -> None:
    arguments = {"item": 5, "unknown": [None, {"x": 1.5}]}
    meta: Any = {"example.org/trace": "t"}
    async with (
        served(House(), config_of("shop", mode=upstream_era)) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        given = json.loads(text_of(await client.call_tool("echo", arguments, meta=meta)))
    assert given == {"arguments": arguments, "meta": meta}


async def test_legacy_clients_of_one_server_do_not_see_each_others_state() -> None:
    async with (
        served(House(), config_of("shop", mode="legacy")) as (_, server),
        Client(server, mode="legacy") as one,
        Client(server, mode="legacy") as two,
    ):
        await one.call_tool("add", {"item": "bread"})
        assert text_of(await two.call_tool("cart")) == "[]"
        assert text_of(await one.call_tool("cart")) == '["bread"]'


async def test_a_connection_is_shared_where_that_is_declared() -> None:
    async with (
        opened(House(), config_of("shop", shared=True)) as (gateway, one),
        gateway.tools.open_session(active=one.active) as two,
    ):
        await one.call("add", {"item": "bread"})
        assert (await two.call("cart")).text == '["bread"]'


@pytest.mark.spec("GWY-10")
@pytest.mark.parametrize(("settings", "starts"), [({"shared": True}, 1), ({"mode": "auto"}, 2)])
async def test_ten_clients_do_not_start_ten_copies_of_an_upstream_that_is_shared_or_has_no_sessions(
    settings: dict[str, Any], starts: int
) -> None:
    """One copy answers them all; an upstream whose era was not known is started once more to find out."""
    house = House()
    async with served(house, config_of("shop", **settings)) as (_, server), AsyncExitStack() as stack:
        for _ in range(10):
            client = await stack.enter_async_context(Client(server, mode="legacy"))
            assert text_of(await client.call_tool("echo"))
        assert house.count("shop") == starts


async def test_a_connection_of_a_client_ends_with_it() -> None:
    house = House()
    async with opened(house, config_of("shop", mode="legacy")) as (gateway, session):
        async with gateway.tools.open_session(active=session.active) as other:
            await other.call("cart")
            (upstream,) = gateway.upstreams.values()
            assert upstream.status.connections == 1
        while upstream.status.connections:
            await anyio.lowlevel.checkpoint()


@ERAS
@UPSTREAM_ERAS
async def test_log_messages_reach_the_client_that_wants_them_before_the_result(
    client_era: str, upstream_era: str
) -> None:
    seen: list[t.LoggingMessageNotificationParams] = []

    async def log(params: t.LoggingMessageNotificationParams) -> None:
        seen.append(params)

    async with (
        served(House(), config_of("shop", mode=upstream_era)) as (_, server),
        Client(server, mode=client_era, logging_callback=log, log_level="info") as client,
    ):
        await client.call_tool("say")
        assert [(one.level, one.data, one.logger) for one in seen] == [("warning", {"n": 1}, "shop")]


async def test_the_log_level_of_a_client_is_set_at_its_upstreams() -> None:
    house = House()
    async with (
        served(house, config_of("shop", mode="legacy")) as (_, server),
        Client(server, mode="legacy") as client,
    ):
        await client.call_tool("cart")
        await client.session.send_request(
            t.SetLevelRequest(params=t.SetLevelRequestParams(level="error")), t.EmptyResult
        )
        assert house.of("shop")[-1].level == "error"


@ERAS
@UPSTREAM_ERAS
async def test_progress_and_cancellation_pass(client_era: ConnectMode, upstream_era: str) -> None:
    house = House()
    seen: list[Any] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with (
        served(house, config_of("shop", mode=upstream_era)) as (_, server),
        wired(server, client_era) as client,
    ):
        await client.request("tools/call", {"name": "steps"}, on_progress=note)
        assert seen == [(step, 3, f"step {step}") for step in range(3)]
        shop = house.of("shop")[-1]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, "tools/call", {"name": "wait"})
            await shop.waiting.wait()
            tasks.cancel_scope.cancel()
        await shop.cancelled.wait()


@ERAS
@UPSTREAM_ERAS
async def test_prompts_resources_and_templates_pass_with_all_that_is_in_them(
    client_era: str, upstream_era: str
) -> None:
    async with (
        served(House(), config_of("shop", mode=upstream_era)) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        (prompt,) = (await client.list_prompts()).prompts
        said = await client.get_prompt(prompt.name, {"who": "you"})
        (resource,) = (await client.list_resources()).resources
        (template,) = (await client.list_resource_templates()).resource_templates
        read = await client.read_resource(str(resource.uri))
        item = await client.read_resource("shop://items/a%20b")
    assert (said.description, (said.meta or {})["p"]) == ("d", 1)
    assert said.messages[0].content.text == "Hello you"  # type: ignore[union-attr]
    assert (resource.mime_type, template.uri_template) == ("text/plain", "shop://items/{name}")
    assert read.contents[0].meta == {"r": 1}
    assert item.contents[0].text == "at shop://items/a%20b"  # type: ignore[union-attr]


@pytest.mark.spec("GWY-7")
@ERAS
async def test_arguments_of_a_prompt_are_the_upstreams_to_judge(client_era: str) -> None:
    async with served(House(), config_of("shop")) as (_, server), Client(server, mode=client_era) as client:
        assert (await client.get_prompt("greet")).messages[0].content.text == "Hello None"  # type: ignore[union-attr]


@ERAS
@UPSTREAM_ERAS
@pytest.mark.parametrize("servers", [("shop",), ("shop", "other")])
async def test_completions_come_from_the_upstream_that_has_the_prompt_or_template(
    client_era: str, upstream_era: str, servers: tuple[str, ...]
) -> None:
    async with (
        served(House(), config_of(*servers, mode=upstream_era)) as (_, server),
        Client(server, mode=client_era) as client,
    ):
        prompt = (await client.list_prompts()).prompts[0]
        ref = t.PromptReference(name=prompt.name)
        assert (await client.complete(ref, {"name": "who", "value": "y"})).completion.values == ["ref/prompt y"]
        template = t.ResourceTemplateReference(uri="shop://items/{name}")
        found = await client.complete(template, {"name": "name", "value": "x"})
        assert found.completion.values == ["ref/resource x"]
        with pytest.raises(MCPError, match="Unknown prompt: nothing"):
            await client.complete(t.PromptReference(name="nothing"), {"name": "who", "value": ""})


@pytest.mark.parametrize("slow", [{0, 1, 2}, {2}], ids=["always", "at last"])
async def test_all_progress_is_reported_before_the_result_to_a_slow_client_too(slow: set[float]) -> None:
    seen: list[float] = []

    async def slowly(progress: float, total: float | None, message: str | None) -> None:
        for _ in range(1000 if progress in slow else 0):
            await anyio.lowlevel.checkpoint()
        seen.append(progress)

    async with opened(House(), config_of("shop", mode="legacy")) as (_, session):
        await session.call("steps", progress=slowly)
        assert seen == [0, 1, 2]


async def test_progress_that_nobody_takes_does_not_harm_the_call() -> None:
    async def gone(progress: float, total: float | None, message: str | None) -> None:
        raise RuntimeError("the client has gone")

    async with opened(House(), config_of("shop", mode="legacy")) as (_, session):
        assert (await session.call("steps", progress=gone)).text == "[]"


@pytest.mark.spec("GWY-3")
async def test_a_call_does_not_wait_for_what_can_not_be_passed_on_any_more() -> None:
    house = House()
    begun, never = anyio.Event(), anyio.Event()
    answers: list[str] = []

    async def stuck(progress: float, total: float | None, message: str | None) -> None:
        begun.set()
        await never.wait()

    async with opened(house, config_of("shop", mode="legacy")) as (_, session), anyio.create_task_group() as tasks:

        async def call() -> None:
            answers.append((await session.call("steps", progress=stuck)).text)

        tasks.start_soon(call)
        await begun.wait()
        await house.kill("shop")
    assert len(answers) == 1


async def test_a_client_that_takes_nothing_holds_up_no_other_on_a_shared_connection() -> None:
    stuck = anyio.Event()

    async def never(progress: float, total: float | None, message: str | None) -> None:
        stuck.set()
        await anyio.sleep_forever()

    async with (
        opened(House(), config_of("shop", shared=True)) as (gateway, one),
        gateway.tools.open_session(active=one.active) as two,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: one.call("steps", progress=never))
        await stuck.wait()
        assert (await two.call("steps")).text == "[]"
        tasks.cancel_scope.cancel()
