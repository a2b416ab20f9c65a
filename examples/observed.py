"""OpenTelemetry spans and metrics of the desk, collected in memory and printed: `python -m examples.observed`.

A program that has set up OpenTelemetry calls `instrument(tools)`, and its own providers export them.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

import anyio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from examples.desk import tools
from toolfold import ToolNotFound
from toolfold_adapters.integrations.otel import instrument


async def work() -> None:
    """Do what an agent might do: list, open a group, call its tools, and one that is closed."""
    async with tools.open_session() as session:
        session.list_tools()
        await session.call("database.activate")
        session.list_tools()
        await session.call("database.query", {"sql": "select 1"})
        with suppress(ToolNotFound):
            await session.call("database.write.insert", {"table": "t", "row": {}})


def report() -> Iterator[str]:
    """Yield the lines of a report on `work`."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    stop = instrument(tools, tracer_provider=provider, meter_provider=MeterProvider([reader]))
    try:
        anyio.run(work)
    finally:
        stop()
    spans = sorted(exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
    yield "spans"
    for span in spans:
        yield f"  {'  ' * _depth(span, spans)}{span.name}{_shown(span.attributes or {})}"
    yield "metrics"
    data = reader.get_metrics_data()
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else ():
        for point in metric.data.data_points:
            amount = getattr(point, "count", None) or getattr(point, "value", 0)
            yield f"  {metric.name}: {amount}{_shown(point.attributes or {})}"


def _depth(span: ReadableSpan, spans: list[ReadableSpan]) -> int:
    parent = next(
        (one for one in spans if span.parent and one.context and one.context.span_id == span.parent.span_id), None
    )
    return 0 if parent is None else 1 + _depth(parent, spans)


def _shown(attributes: Mapping[str, object]) -> str:
    left_out = ("toolfold.tools", "gen_ai.operation.name")
    return "".join(f" {key}={value}" for key, value in attributes.items() if value != () and key not in left_out)


if __name__ == "__main__":
    print("\n".join(report()))
