"""OpenTelemetry spans and metrics of tool sets (SPEC INT-5)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server import MCPServer
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples import observed
from tests.adapters.mcp.support import build_server
from toolfold import Context, HookFailed, ToolError, ToolNotFound, ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.integrations.otel import instrument
from toolfold_adapters.mcp import group_server
from toolfold_adapters.tokens import cost

SECRET = "hunter2"


class Recorded:
    """What was recorded of a tool set."""

    def __init__(self) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.spans_of = TracerProvider()
        self.spans_of.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.metrics_of = MeterProvider([self._reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans, in the order in which they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def tree(self) -> list[tuple[str, str | None]]:
        """The names of the spans, each with that of its parent."""
        names = {span.context.span_id: span.name for span in self.spans if span.context}
        return [(span.name, names.get(span.parent.span_id) if span.parent else None) for span in self.spans]

    def span(self, name: str) -> ReadableSpan:
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def points(self, metric: str) -> list[tuple[dict[str, Any], Any]]:
        """Return the attributes and the values of a metric: of a histogram, the count and the sum."""
        data = self._reader.get_metrics_data()
        every = data.resource_metrics[0].scope_metrics[0].metrics if data else ()
        return [
            (
                {key: value for key, value in (point.attributes or {}).items() if key != "toolfold.tools"},
                (point.count, point.sum) if isinstance(point, HistogramDataPoint) else getattr(point, "value", None),
            )
            for one in every
            if one.name == metric
            for point in one.data.data_points
        ]


@contextmanager
def recorded(tools: ToolSet) -> Generator[Recorded]:
    result = Recorded()
    stop = instrument(tools, tracer_provider=result.spans_of, meter_provider=result.metrics_of)
    try:
        yield result
    finally:
        stop()


def bank(**options: Any) -> ToolSet:
    tools = ToolSet("bank", **options)
    tools.register_group("accounts", "Look at accounts")
    tools.register_group("transfers", "Move money", parent="accounts")
    tools.register("balance", lambda: "7", group="accounts")
    tools.register("transfer", lambda: "done", group="accounts.transfers")
    tools.register("ping", lambda: "pong")
    return tools


def error_of(span: ReadableSpan) -> Any:
    return (span.attributes or {}).get("error.type")


@pytest.mark.spec("INT-5")
async def test_nothing_is_recorded_before_it_is_asked_for_and_after_it_was_ended() -> None:
    tools = bank()
    async with tools.open_session() as session:
        await session.call("ping")
        with recorded(tools) as telemetry:
            await session.call("ping")
        await session.call("ping")
    assert telemetry.tree == [("execute_tool ping", None)]


@pytest.mark.spec("INT-5")
async def test_a_call_has_a_span_with_tool_and_group_and_a_duration() -> None:
    tools = bank()
    with recorded(tools) as telemetry:
        async with tools.open_session(active="accounts") as session:
            await session.call("accounts.balance")
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "accounts.balance"}
    expected = {**attributes, "toolfold.group": "accounts"}
    assert telemetry.span("execute_tool accounts.balance").attributes == {**expected, "toolfold.tools": "bank"}
    ((found, (count, total)),) = telemetry.points("gen_ai.execute_tool.duration")
    assert (found, count) == (expected, 1)
    assert 0 < total < 60


@pytest.mark.spec("INT-5")
async def test_what_a_handler_does_is_within_the_span_of_its_call() -> None:
    tools = bank()
    telemetry = Recorded()

    async def work(context: Context) -> str:
        with telemetry.spans_of.get_tracer("own").start_as_current_span("own"):
            await context.activate("accounts")
        return "done"

    tools.register("work", work)
    stop = instrument(tools, tracer_provider=telemetry.spans_of, meter_provider=telemetry.metrics_of)
    async with tools.open_session() as session:
        await session.call("work")
        stop()
    assert telemetry.tree == [("execute_tool work", None), ("own", "execute_tool work"), ("transition", "own")]
    assert not trace.get_current_span().get_span_context().is_valid


@pytest.mark.spec("INT-5", "HOOK-1")
async def test_transitions_and_their_hooks_are_counted_and_nested() -> None:
    tools = ToolSet("hooked")
    tools.register_group("a", on_activate=lambda: None)
    tools.register_group("b", parent="a", on_activate=lambda: None)
    with recorded(tools) as telemetry:
        async with tools.open_session() as session:
            await session.transition(activate=["a", "a.b"])
    assert telemetry.tree == [
        ("transition", None),
        ("on_activate a", "transition"),
        ("on_activate a.b", "transition"),
        ("close_session", None),
    ]
    assert (telemetry.span("transition").attributes or {})["toolfold.activated"] == ("a", "a.b")
    assert [(found, count) for found, (count, _) in telemetry.points("toolfold.transition.duration")] == [({}, 1)]
    hooks = telemetry.points("toolfold.hook.duration")
    assert [(found["toolfold.group"], found["toolfold.hook.phase"], count) for found, (count, _) in hooks] == [
        ("a", "on_activate", 1),
        ("a.b", "on_activate", 1),
    ]
    changes = telemetry.points("toolfold.group.changes")
    assert sorted((found["toolfold.group"], found["toolfold.group.active"], value) for found, value in changes) == [
        ("a", False, 1),
        ("a", True, 1),
        ("a.b", False, 1),
        ("a.b", True, 1),
    ]


@pytest.mark.spec("INT-5", "REG-9")
async def test_prompts_and_sessions_that_begin_with_groups_have_spans() -> None:
    tools = bank()
    tools.register_prompt("greet", lambda: "Hello", group="accounts")
    with recorded(tools) as telemetry:
        async with tools.open_session(active=["accounts"]) as session:
            await session.get_prompt("accounts.greet")
    assert [span.name for span in telemetry.spans] == ["open_session", "get_prompt accounts.greet", "close_session"]
    assert telemetry.span("get_prompt accounts.greet").attributes == {
        "gen_ai.prompt.name": "accounts.greet",
        "toolfold.group": "accounts",
        "toolfold.tools": "bank",
    }


@pytest.mark.spec("INT-5", "HOOK-4")
async def test_a_failed_hook_is_an_error_and_its_compensation_says_what_it_undoes() -> None:
    def fail() -> None:
        raise RuntimeError(SECRET)

    tools = ToolSet("hooked")
    tools.register_group("a", on_activate=lambda: None, on_deactivate=lambda: None)
    tools.register_group("b", parent="a", on_activate=fail)
    with recorded(tools) as telemetry:
        async with tools.open_session() as session:
            with pytest.raises(HookFailed):
                await session.transition(activate=["a", "a.b"])
    assert [(span.name, error_of(span)) for span in telemetry.spans] == [
        ("transition", "HookFailed"),
        ("on_activate a", None),
        ("on_activate a.b", "RuntimeError"),
        ("on_deactivate a", None),
    ]
    assert (telemetry.span("on_deactivate a").attributes or {})["toolfold.hook.undoes"] == "on_activate"
    assert telemetry.points("toolfold.group.changes") == []


@pytest.mark.spec("INT-5", "SAF-3", "SAF-6")
async def test_neither_arguments_nor_texts_of_errors_nor_unknown_names_are_recorded() -> None:
    def fail(password: str) -> str:
        raise ToolError(password)

    tools = bank()
    tools.register("login", fail)
    with recorded(tools) as telemetry:
        async with tools.open_session() as session:
            assert (await session.call("login", {"password": SECRET})).is_error
            for name in (SECRET, "accounts.balance"):
                with pytest.raises(ToolNotFound):
                    await session.call(name, {"x": SECRET})
            with pytest.raises(ToolNotFound):
                await session.read(f"file:///{SECRET}")
    assert [(span.name, error_of(span)) for span in telemetry.spans] == [
        ("execute_tool login", "tool_error"),
        ("execute_tool", "ToolNotFound"),
        ("execute_tool accounts.balance", "ToolNotFound"),
        ("read_resource", "ToolNotFound"),
    ]
    assert SECRET not in "".join(span.to_json() for span in telemetry.spans)
    assert SECRET not in str(telemetry.points("gen_ai.execute_tool.duration"))


@pytest.mark.spec("INT-5")
async def test_concurrent_calls_have_the_parents_of_their_own_tasks() -> None:
    tools = bank()
    both = [anyio.Event(), anyio.Event()]

    async def meet(me: int) -> str:
        both[me].set()
        await both[1 - me].wait()
        return "met"

    tools.register("meet", meet)
    with recorded(tools) as telemetry:
        tracer = telemetry.spans_of.get_tracer("own")

        async def call(me: int) -> None:
            with tracer.start_as_current_span(f"agent {me}"):
                await session.call("meet", {"me": me})

        async with tools.open_session() as session, anyio.create_task_group() as group:
            group.start_soon(call, 0)
            group.start_soon(call, 1)
    assert sorted(parent or "" for name, parent in telemetry.tree if name == "execute_tool meet") == [
        "agent 0",
        "agent 1",
    ]


@pytest.mark.spec("INT-5", "SAF-2")
async def test_a_request_that_began_before_is_left_out() -> None:
    tools = bank()
    telemetry = Recorded()

    def begin() -> str:
        instrument(tools, tracer_provider=telemetry.spans_of, meter_provider=telemetry.metrics_of)
        return "begun"

    tools.register("begin", begin)
    async with tools.open_session() as session:
        assert (await session.call("begin")).text == "begun"
        await session.call("ping")
    assert telemetry.tree == [("execute_tool ping", None)]


@pytest.mark.spec("INT-5")
async def test_lists_have_their_number_of_items_and_tokens() -> None:
    tools = bank()
    with recorded(tools) as telemetry:
        async with tools.open_session() as session:
            page = session.list_tools()
            session.list("prompt")
        conversation = Conversation(tools)
        conversation.tools()
    tokens = cost(page.tools)
    (span, _) = [one for one in telemetry.spans if one.name == "list tool"]
    assert span.attributes is not None
    assert span.attributes["toolfold.list.tokens"] == tokens
    assert telemetry.points("toolfold.list.tokens") == [({}, (2, 2 * tokens))]
    assert telemetry.points("toolfold.list.items") == [
        ({"toolfold.list.kind": "tool"}, (2, 2 * len(page.tools))),
        ({"toolfold.list.kind": "prompt"}, (1, 0)),
    ]


@pytest.mark.spec("INT-5", "SES-4")
async def test_open_sessions_are_counted_with_those_that_were_open_before() -> None:
    tools = bank()
    async with tools.open_session():
        with recorded(tools) as telemetry:
            async with tools.open_session():
                assert telemetry.points("toolfold.session.active") == [({}, 2)]
            assert telemetry.points("toolfold.session.active") == [({}, 1)]
        assert telemetry.points("toolfold.session.active") == [({}, 0)], "an end of the recording counts none"


# -- over MCP ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("INT-5")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_trace_of_a_client_goes_on_in_the_server_and_names_the_tool_that_is_called(era: Any) -> None:
    tools = bank(control="open_group")
    with recorded(tools) as telemetry:
        tracer = telemetry.spans_of.get_tracer("own")
        async with Client(build_server(tools), mode=era) as client:
            await client.list_tools()
            with tracer.start_as_current_span("agent") as agent:
                opened = await client.call_tool("open_group", {"group": "accounts"})
                meta: Any = opened.meta if era == "auto" else None
                await client.call_tool("call_tool", {"name": "accounts.balance", "arguments": {}}, meta=meta)
    balance = telemetry.span("execute_tool accounts.balance")
    assert balance.context
    assert balance.context.trace_id == agent.get_span_context().trace_id
    assert (balance.attributes or {})["toolfold.group"] == "accounts"
    assert ("transition", "execute_tool open_group") in telemetry.tree
    assert [name for name, _ in telemetry.tree if name == "list tool"] != []


@pytest.mark.spec("INT-5", "INT-1")
async def test_calls_of_an_existing_server_are_recorded_by_the_tool_set_that_groups_it() -> None:
    server = MCPServer("shop")

    @server.tool()
    def sell() -> str:
        return "sold"

    tools = ToolSet("shop", control="open_group")
    group_server(server, {"sales": ["sell"]}, tools=tools)
    with recorded(tools) as telemetry:
        async with Client(server, mode="legacy") as client:
            await client.call_tool("open_group", {"group": "sales"})
            await client.call_tool("sell", {})
    assert [
        (found["gen_ai.tool.name"], found.get("toolfold.group"))
        for found, _ in telemetry.points("gen_ai.execute_tool.duration")
    ] == [
        ("open_group", None),
        ("sell", "sales"),
    ]


@pytest.mark.spec("INT-5")
def test_the_example_reports_what_happened() -> None:
    lines = list(observed.report())
    assert "    transition toolfold.activated=('database',)" in lines
    assert "  toolfold.list.tokens: 2" in lines


@pytest.mark.spec("INT-5", "EXP-3")
async def test_openings_and_refusals_are_those_of_the_counters_of_use() -> None:
    tools = bank()
    with recorded(tools) as telemetry:
        async with tools.open_session() as session:
            await session.activate("accounts")
            with pytest.raises(ToolNotFound):
                await session.call("no_such_tool")
            assert tools.usage is not None
            assert telemetry.points("toolfold.calls.refused") == [
                ({"toolfold.reason": why}, count) for why, count in tools.usage.refused.items()
            ]
    assert tools.usage.groups["accounts"].opened == 1
    opened = {"toolfold.group": "accounts", "toolfold.group.active": True}
    assert (opened, 1) in telemetry.points("toolfold.group.changes")
    await tools.activate_group("accounts")
    assert (opened, 1) in telemetry.points("toolfold.group.changes"), "the recording has ended"
