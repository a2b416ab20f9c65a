"""What OpenTelemetry costs a call and a list: nothing that can be measured unless it is asked for (SPEC INT-5)."""

from __future__ import annotations

from functools import partial
from time import perf_counter

import anyio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from toolfold import Session, ToolSet, events
from toolfold_adapters.integrations.otel import instrument

from .harness import Row, turn_by_turn

INNER = 200


def measure(*, quick: bool) -> list[Row]:
    """Return what a call and a list cost without telemetry, after it was ended, and with it."""
    return anyio.run(_measure, 20 if quick else 100)


async def _measure(samples: int) -> list[Row]:
    never, ended, recording = _tools(), _tools(), _tools()
    instrument(ended)()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter := InMemorySpanExporter()))
    instrument(recording, tracer_provider=tracers, meter_provider=MeterProvider([InMemoryMetricReader()]))
    async with never.open_session() as one, ended.open_session() as two, recording.open_session() as three:
        ways = [partial(_used, session, exporter) for session in (one, two, three)]
        without, off, on = [each / INNER for each in await turn_by_turn(ways, samples=samples)]
    guards = _guards()
    return [
        Row(what="a call and a list, telemetry ended against never begun", value=off / without, unit="×", target=1.05),
        Row(
            what="of a call and a list, the checks for telemetry",
            value=guards / without,
            unit="×",
            target=0.01,
            note=f"{guards * 1e9:,.0f} ns",
        ),
        Row(
            what="a call and a list, recorded",
            value=on,
            unit="µs",
            note=f"{without * 1e6:,.3g} µs without; SDK with exporters in memory, two spans",
        ),
    ]


def _tools() -> ToolSet:
    tools = ToolSet("observed")
    for number in range(60):
        tools.register(f"tool_{number}", lambda: "done", description="Do something useful")
    return tools


def _guards() -> float:
    """Return the seconds of the checks that a call and a list make, where nothing is observed."""
    observers = ToolSet("none").observers
    start = perf_counter()
    for _ in range(100 * INNER):
        with observers.requested("s", "tool", "t"):
            observers.answered("s", False)
        assert events.Requested not in observers.listeners
    return (perf_counter() - start) / (100 * INNER)


async def _used(session: Session, exporter: InMemorySpanExporter) -> None:
    for _ in range(INNER):
        session.list_tools()
        await session.call("tool_0", {})
    exporter.clear()
