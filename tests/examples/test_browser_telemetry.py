"""Document B's example server: the document's eight test scenarios, availability tables and counts.

Each is driven as a client would, in three ways: a session in this process, and real MCP clients of both eras. Its gate
is in test_browser_telemetry_gate.py.
"""

import ast
import json
from itertools import islice
from typing import Any

import pytest

from examples.browser_telemetry import page_tools, tools
from examples.browser_telemetry.events import Action, Event, visit
from examples.browser_telemetry.telemetry import Telemetry
from tests.cli.support import invoke
from tests.examples.callers import Connect, connected
from tests.examples.telemetry import (
    ACTION,
    BODY,
    CONNECTION,
    ENTRY,
    ERROR,
    FRAME,
    PARAMETERS,
    SNAPSHOT,
    counts,
    modes_of,
    observe,
)
from toolfold_adapters.mcp import build_server

# The eight scenarios


@pytest.mark.spec("MOD-5", "MOD-1")
async def test_document_b_scenario_1_a_fresh_server_lists_observe_and_query_dom(
    page: Telemetry, connect: Connect
) -> None:
    async with connect(page_tools(page)) as client:
        assert await client.names() == ["observe", "query_dom"]
        assert await modes_of(client, "observe") == ["errors", "logs", "page"]


@pytest.mark.spec("MOD-5", "DEL-8")
async def test_document_b_scenario_1_literally_for_a_server_without_call_tool() -> None:
    async with connected(build_server(tools(), legacy_call_tool=False), "legacy") as client:
        assert list(await client.listed()) == ["observe", "query_dom"]


@pytest.mark.spec("MOD-5", "MOD-1")
async def test_document_b_scenario_2_network_bodies_bring_network_and_after_an_observation_har(
    page: Telemetry, connect: Connect
) -> None:
    async with connect(page_tools(page)) as client:
        page.record(BODY)
        assert await modes_of(client, "observe") == ["errors", "logs", "network", "page"]
        assert "generate" not in await client.names()
        await observe(client)
        assert await modes_of(client, "generate") == ["pr_summary", "sarif", "har"]


@pytest.mark.spec("MOD-5", "SES-6")
async def test_document_b_scenario_3_the_first_observation_lifts_the_disclosure(
    page: Telemetry, connect: Connect
) -> None:
    async with connect(page_tools(page)) as client:
        await observe(client, "errors")
        assert await client.names() == ["analyze", "configure", "generate", "observe", "query_dom"]


@pytest.mark.spec("MOD-5", "MOD-1")
async def test_document_b_scenario_4_actions_bring_actions_timeline_reproduction_and_test(
    page: Telemetry, connect: Connect
) -> None:
    async with connect(page_tools(page)) as client:
        await observe(client)
        before = {name: await modes_of(client, name) for name in ("observe", "analyze", "generate")}
        page.record(ACTION)
        gained = {name: set(await modes_of(client, name)) - set(modes) for name, modes in before.items()}
        assert gained["observe"] == {"actions"}
        assert gained["analyze"] == {"changes", "timeline"}
        assert gained["generate"] == {"reproduction", "test", "pr_summary"}


@pytest.mark.spec("MOD-5", "MOD-1")
async def test_document_b_scenario_5_a_performance_snapshot_brings_vitals_and_performance(
    page: Telemetry, connect: Connect
) -> None:
    async with connect(page_tools(page)) as client:
        await observe(client)
        page.record(SNAPSHOT)
        assert await modes_of(client, "observe") == ["errors", "logs", "vitals", "page"]
        assert await modes_of(client, "analyze") == ["performance", "accessibility", "changes"]


@pytest.mark.spec("MOD-5", "MOD-2")
async def test_document_b_scenario_6_configure_has_all_modes_and_no_counts(page: Telemetry, connect: Connect) -> None:
    async with connect(page_tools(page)) as client:
        assert await modes_of(client, "configure") == []
        await observe(client)
        for events in ((), (BODY,), (ACTION, SNAPSHOT, ENTRY)):
            page.record(*events)
            assert await modes_of(client, "configure") == ["visit", "clear", "capacity"]
            definitions = await client.listed()
            assert "_meta" not in definitions["configure"]
            assert "_meta" not in definitions["query_dom"]


@pytest.mark.spec("MOD-5", "MOD-2")
async def test_document_b_scenario_7_counts_are_the_sizes_of_the_buffers(connect: Connect) -> None:
    page = Telemetry(capacity=3)
    async with connect(page_tools(page)) as client:
        assert await counts(client) == {"observe": {"errors": 0, "logs": 0}}
        await observe(client)
        page.record(ENTRY, ERROR, BODY, BODY, ACTION, SNAPSHOT)
        page.record(*[ACTION] * 9)  # more than there is room for
        assert await counts(client) == {
            "observe": {"errors": 1, "logs": 2, "network": 2, "actions": 3, "vitals": 1},
            "analyze": {"performance": 1, "api": 1, "timeline": 3},
            "generate": {"reproduction": 3, "test": 3, "har": 2},
        }
        page.record(ENTRY, ENTRY, ENTRY, FRAME, CONNECTION)  # the error is the oldest, and goes
        assert (await counts(client))["observe"] == {
            "errors": 0,
            "logs": 3,
            "network": 2,
            "websocket_events": 1,
            "websocket_status": 1,
            "actions": 3,
            "vitals": 1,
        }
        for name, definition in (await client.listed()).items():
            if "available_modes" in definition.get("_meta", {}):
                assert definition["_meta"]["available_modes"] == await modes_of(client, name)


@pytest.mark.spec("MOD-5", "MOD-1", "MOD-4")
async def test_document_b_scenario_8_network_without_actions_is_listed_and_callable(
    page: Telemetry, connect: Connect
) -> None:
    async with connect(page_tools(page)) as client:
        page.record(BODY)
        modes = await modes_of(client, "observe")
        assert ("network" in modes, "actions" in modes) == (True, False)
        failed, text = await client.call("observe", {"what": "actions"})
        nonsense = await client.call("observe", {"what": "nonsense"})
        assert failed
        assert (failed, text.replace("actions", "nonsense")) == nonsense
        assert not (await client.call("observe", {"what": "network"}))[0]


# The availability tables

OBSERVATIONS = (
    "errors",
    "logs",
    "network",
    "websocket_events",
    "websocket_status",
    "actions",
    "vitals",
    "page",
)
ALWAYS: dict[str, list[str]] = {
    "observe": ["errors", "logs", "page"],
    "analyze": ["accessibility"],
    "generate": ["sarif"],
    "configure": ["visit", "clear", "capacity"],
}
BROUGHT: list[tuple[Event, dict[str, set[str]]]] = [
    (ENTRY, {"analyze": {"changes"}, "generate": {"pr_summary"}}),
    (
        BODY,
        {"observe": {"network"}, "analyze": {"api", "changes"}, "generate": {"pr_summary", "har"}},
    ),
    (FRAME, {"observe": {"websocket_events"}, "analyze": {"changes"}}),
    (CONNECTION, {"observe": {"websocket_status"}, "analyze": {"changes"}}),
    (
        ACTION,
        {
            "observe": {"actions"},
            "analyze": {"changes", "timeline"},
            "generate": {"reproduction", "test", "pr_summary"},
        },
    ),
    (SNAPSHOT, {"observe": {"vitals"}, "analyze": {"performance", "changes"}, "generate": {"pr_summary"}}),
]


@pytest.mark.spec("MOD-5", "MOD-1")
@pytest.mark.parametrize(("event", "brought"), BROUGHT, ids=[type(event).__name__ for event, _ in BROUGHT])
async def test_document_b_tables_each_buffer_brings_its_modes_and_no_others(
    page: Telemetry, connect: Connect, event: Event, brought: dict[str, set[str]]
) -> None:
    async with connect(page_tools(page)) as client:
        await observe(client)
        assert {name: await modes_of(client, name) for name in ALWAYS} == ALWAYS
        page.record(event)
        gained = {name: set(await modes_of(client, name)) - set(modes) for name, modes in ALWAYS.items()}
        assert {name: modes for name, modes in gained.items() if modes} == brought
        page.clear()
        assert {name: await modes_of(client, name) for name in ALWAYS} == ALWAYS


@pytest.mark.spec("MOD-5", "MOD-1", "MOD-4")
async def test_document_b_tables_all_modes_in_order_and_each_can_be_called_exactly_while_listed(
    page: Telemetry, connect: Connect
) -> None:
    everything = {
        "observe": list(OBSERVATIONS),
        "analyze": ["performance", "api", "accessibility", "changes", "timeline"],
        "generate": ["reproduction", "test", "pr_summary", "sarif", "har"],
    }
    async with connect(page_tools(page)) as client:
        await observe(client)
        for events in ((), (ENTRY, ERROR, BODY, FRAME, CONNECTION, ACTION, SNAPSHOT)):
            page.record(*events)
            for name, modes in everything.items():
                listed = await modes_of(client, name)
                called = [mode for mode in modes if not (await client.call(name, {PARAMETERS[name]: mode}))[0]]
                assert called == listed
            assert await client.names() == ["analyze", "configure", "generate", "observe", "query_dom"]
        assert {name: await modes_of(client, name) for name in everything} == everything


# The example itself


def test_the_visitor_does_the_same_for_the_same_seed_and_fills_every_buffer() -> None:
    page = Telemetry(capacity=10)
    page.record(*islice(visit(seed=7), 500))
    assert list(islice(visit(seed=7), 500)) == list(islice(visit(seed=7), 500))
    assert list(islice(visit(seed=8), 50)) != list(islice(visit(seed=7), 50))
    counted = page.counts()
    assert (counted.logs, counted.network, counted.websocket_events, counted.actions, counted.vitals) == (10,) * 5
    assert counted.errors == sum(line.level == "error" for line in page.console)


async def test_every_mode_answers_with_the_content_of_the_buffers() -> None:
    page = Telemetry()
    page.record(ENTRY, ERROR, BODY, FRAME, CONNECTION, ACTION, SNAPSHOT, Action(8, "type", "#search", "mug"))
    async with page_tools(page).open_session() as session:

        async def ask(tool: str, **arguments: str) -> Any:
            return (await session.call(tool, arguments)).structured

        assert (await ask("observe", what="errors"))["items"][0]["text"] == ERROR.text
        assert (await ask("observe", what="network"))["total"] == 1
        assert (await ask("analyze", target="api")) == {"api": {"GET /api/items": [200]}}
        assert len((await ask("analyze", target="accessibility"))["accessibility"]) == 3
        assert [one["at"] for one in (await ask("analyze", target="timeline"))["timeline"]] == [2, 6, 8]
        assert (await ask("analyze", target="performance"))["performance"]["largest_paint"] == 1200
        script = 'page.click("#checkout")\npage.fill("#search", "mug")'
        assert (await ask("generate", format="reproduction"))["reproduction"] == script
        assert (await ask("generate", format="har"))["har"]["log"]["entries"][0]["time"] == 12
        assert len((await ask("generate", format="sarif"))["sarif"]["runs"][0]["results"]) == 3
        assert [one["id"] for one in (await ask("query_dom", path=".//button"))["elements"]] == [
            "add-to-cart",
            "checkout",
        ]
        assert (await session.call("query_dom", {"path": "///"})).is_error
        assert (await session.call("configure", {"action": "capacity", "amount": 0})).is_error
        assert not (await session.call("configure", {"action": "capacity", "amount": 2})).is_error
        page.record(ENTRY, ENTRY, ENTRY)
        assert (await ask("observe", what="logs"))["total"] == 2


@pytest.mark.spec("MOD-5", "SAF-6")
async def test_values_reported_by_a_page_are_never_code_in_generated_scripts() -> None:
    page, text = Telemetry(), '"); import os; os.abort()  # \\'
    page.record(Action(1, "navigate", text), Action(2, "click", text), Action(3, "type", text, text))
    async with page_tools(page).open_session() as session:
        await session.call("observe", {"what": "actions"})
        script = (await session.call("generate", {"format": "test"})).structured["test"]
    calls = [node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    assert [[ast.literal_eval(one) for one in call.args] for call in calls] == [[text], [text], [text, text]]


@pytest.mark.spec("MOD-1")
def test_inspect_shows_the_modes_that_are_available_now() -> None:
    target = "examples.browser_telemetry:tools"
    assert "* observe (what: errors, logs, page)" in invoke("inspect", target, "--tools").stdout
    (root, gate) = json.loads(invoke("inspect", target, "--json").stdout)["groups"]
    assert [tool.get("modes") for tool in root["tools"]] == [["errors", "logs", "page"], None]
    assert [tool["listed"] for tool in gate["tools"]] == [False] * 3
