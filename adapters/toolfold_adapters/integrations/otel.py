"""OpenTelemetry spans and metrics of a tool set, off unless asked for (SPEC INT-5).

Names and attributes follow the semantic conventions for generative AI where they have any; the rest begins with
`toolfold.`. The parent of a span is what is current where a request begins: the span of the MCP SDK, which continues
the trace that a client sends in `_meta`, or that of an agent. Arguments, results, texts of errors, URIs of resources
and identities of sessions are not recorded, nor is a name that the catalog does not have.

    span                         attributes
    execute_tool {tool}          gen_ai.operation.name, gen_ai.tool.name, toolfold.group, error.type
    get_prompt {prompt}          gen_ai.prompt.name, toolfold.group, error.type
    read_resource                toolfold.group, error.type
    open_session, close_session  toolfold.activated, toolfold.deactivated, error.type
    transition                   toolfold.activated, toolfold.deactivated, error.type
    {phase} {group}              toolfold.group, toolfold.hook.phase, toolfold.hook.undoes, error.type
    list {kind}                  toolfold.list.items, toolfold.list.tokens

    metric                           unit       attributes
    gen_ai.execute_tool.duration     s          those of the span
    toolfold.transition.duration     s          error.type
    toolfold.hook.duration           s          those of the span
    toolfold.group.changes           {change}   toolfold.group, toolfold.group.active
    toolfold.calls.refused           {call}     toolfold.reason
    toolfold.list.items              {item}     toolfold.list.kind
    toolfold.list.tokens             {token}
    toolfold.session.active          {session}

A session that begins or ends without a group to open or close has no span. All spans and metrics have
`toolfold.tools`, the name of the tool set. Changes of groups and refused calls are the counters of use, which reports
show as well (SPEC EXP-3). Tokens are approximate (`toolfold_adapters.tokens`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from time import perf_counter
from typing import Any

from attrs import define

from toolfold import Component, ToolSet, Usage, events
from toolfold.spi import Kind, extras_named, frozen

from ..tokens import cost

with extras_named():
    from opentelemetry import context, metrics, trace
    from opentelemetry.context import Context

__all__ = ["instrument"]

SCOPE = "toolfold"
SECONDS = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
TOKENS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
REMEMBERED = 10_000
"""Of how many tools the cost is remembered."""

Attributes = dict[str, Any]


def instrument(
    tools: ToolSet,
    *,
    tracer_provider: trace.TracerProvider | None = None,
    meter_provider: metrics.MeterProvider | None = None,
) -> Callable[[], None]:
    """Record spans and metrics of a tool set from now on, and return a function that ends that.

    SPEC INT-5.

    Args:
        tools: The tool set.
        tracer_provider: Makes the spans; by default, the global provider.
        meter_provider: Makes the metrics; by default, the global provider.
    """
    tracer = trace.get_tracer(SCOPE, tracer_provider=tracer_provider)
    meter = metrics.get_meter(SCOPE, meter_provider=meter_provider)
    telemetry = _Telemetry(tools, tracer, _Instruments.of(meter))
    stop = tools.trace(telemetry.record)
    stop_counters = _observe_counters(tools, meter)

    def end() -> None:
        stop()
        stop_counters()

    return end


def _observe_counters(tools: ToolSet, meter: metrics.Meter) -> Callable[[], None]:
    """Have a meter read the counters of use and of open sessions, and return a function that ends that."""
    counters, ended = [tools.count_usage(perf_counter)], list[bool]()
    common: Attributes = {"toolfold.tools": tools.name}

    def changes(options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for path, each in counters[-1].groups.items():
            for is_active, count in ((True, each.opened), (False, each.closed)):
                if count:
                    attributes = {**common, "toolfold.group": path, "toolfold.group.active": is_active}
                    yield metrics.Observation(count, attributes)

    def refused(options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        for why, count in counters[-1].refused.items():
            yield metrics.Observation(count, {**common, "toolfold.reason": why})

    def sessions(options: metrics.CallbackOptions) -> Iterator[metrics.Observation]:
        yield metrics.Observation(0 if ended else len(tools.sessions), common)

    def end() -> None:
        ended.append(True)
        counters.append(Usage(tools.name))
        counters[-1].add(counters[0].dump())

    meter.create_observable_counter("toolfold.group.changes", [changes], "{change}", "Groups opened and closed.")
    meter.create_observable_counter("toolfold.calls.refused", [refused], "{call}", "Calls of what could not be called.")
    meter.create_observable_up_down_counter("toolfold.session.active", [sessions], "{session}", "Open sessions.")
    return end


def is_configured() -> bool:
    """Return whether the process has a global provider of spans; without one, none are made."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


@frozen
class _Instruments:
    calls: metrics.Histogram
    transitions: metrics.Histogram
    hooks: metrics.Histogram
    items: metrics.Histogram
    tokens: metrics.Histogram

    @classmethod
    def of(cls, meter: metrics.Meter) -> _Instruments:
        def duration(name: str, description: str) -> metrics.Histogram:
            return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=SECONDS)

        def sizes(name: str, unit: str, description: str) -> metrics.Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=TOKENS)

        return cls(
            calls=duration("gen_ai.execute_tool.duration", "How long calls of tools take."),
            transitions=duration("toolfold.transition.duration", "How long transitions take, with their hooks."),
            hooks=duration("toolfold.hook.duration", "How long hooks take."),
            items=sizes("toolfold.list.items", "{item}", "How many items a list has."),
            tokens=sizes("toolfold.list.tokens", "{token}", "About how many tokens a list of tools costs."),
        )


@define
class _Open:
    """A request or a hook that has begun: its span, and what its metric, if it has one, is recorded with."""

    span: trace.Span
    metric: metrics.Histogram | None
    attributes: Attributes
    outer: Context
    began: float
    error: str | None = None


class _Telemetry:
    def __init__(self, tools: ToolSet, tracer: trace.Tracer, instruments: _Instruments) -> None:
        self._tools = tools
        self._tracer = tracer
        self._instruments = instruments
        self._common: Attributes = {"toolfold.tools": tools.name}
        self._requests: dict[int, _Open] = {}
        self._idle: dict[int, str] = {}  # begins and ends of sessions, most of which do nothing
        self._hooks: dict[tuple[str, int | None], list[_Open]] = {}
        self._cost = lru_cache(REMEMBERED)(_cost)

    def record(self, event: events.Event | events.Trace) -> None:
        """Record an event."""
        match event:
            case events.Requested():
                self._requested(event)
            case events.Planned(number=int(number)):
                self._planned(number, event.activated, event.deactivated)
            case events.HookBegan():
                self._hook_began(event)
            case events.HookEnded():
                self._hook_ended(event)
            case events.Answered(number=int(number), is_error=True) if number in self._requests:
                self._requests[number].error = "tool_error"
            case events.Ended(number=number):
                self._idle.pop(number, None)
                if (begun := self._requests.pop(number, None)) is not None:
                    self._end(begun, event.error)
            case events.Listed():
                self._listed(event)
            case _:
                pass  # a failure, which ends the request or the hook where it happened

    def _requested(self, event: events.Requested) -> None:
        name, attributes, metric = "", dict[str, Any](), None
        match event.what:
            case "tool":
                name, attributes = self._named("tool", event.name, "execute_tool", "gen_ai.tool.name")
                attributes["gen_ai.operation.name"] = "execute_tool"
                metric = self._instruments.calls
            case "prompt":
                name, attributes = self._named("prompt", event.name, "get_prompt", "gen_ai.prompt.name")
            case "resource" | "resource_template":
                name, attributes = self._named(event.what, event.name, "read_resource")
            case "transition":
                name, metric = "transition", self._instruments.transitions
            case "start" | "close":
                self._idle[event.number] = "open_session" if event.what == "start" else "close_session"
                return
            case "set_fact" | "success":
                return
        self._requests[event.number] = self._begin(name, attributes, metric)

    def _planned(self, number: int, activated: tuple[str, ...], deactivated: tuple[str, ...]) -> None:
        if (activated or deactivated) and number in self._idle:
            self._requests[number] = self._begin(self._idle.pop(number), {}, None)
        if (begun := self._requests.get(number)) is not None:
            begun.span.set_attributes({"toolfold.activated": activated, "toolfold.deactivated": deactivated})

    def _named(self, kind: Kind, name: str, span: str, attribute: str | None = None) -> tuple[str, Attributes]:
        """Return the name and the attributes of the span of a call; what is unknown has no name."""
        component = self._tools.catalog.components[kind].by_name.get(name)
        if component is None:
            return span, {}
        group = component.group or (component.control[1] if component.control else None)
        attributes: Attributes = {"toolfold.group": group} if group else {}
        return (span, attributes) if attribute is None else (f"{span} {name}", {attribute: name, **attributes})

    def _hook_began(self, event: events.HookBegan) -> None:
        attributes: Attributes = {"toolfold.group": event.group, "toolfold.hook.phase": event.phase}
        if event.undoes is not None:
            attributes["toolfold.hook.undoes"] = event.undoes
        begun = self._begin(f"{event.phase} {event.group}", attributes, self._instruments.hooks)
        self._hooks.setdefault((event.session, event.number), []).append(begun)

    def _hook_ended(self, event: events.HookEnded) -> None:
        begun = self._hooks.get((event.session, event.number))
        if not begun:
            return
        self._end(begun.pop(), event.error)
        if not begun:
            del self._hooks[event.session, event.number]

    def _begin(self, name: str, attributes: Attributes, metric: metrics.Histogram | None) -> _Open:
        outer = context.get_current()
        span = self._tracer.start_span(name, attributes={**self._common, **attributes})
        context.attach(trace.set_span_in_context(span))
        return _Open(span, metric, attributes, outer, perf_counter())

    def _end(self, begun: _Open, error: BaseException | None) -> None:
        context.attach(begun.outer)  # not by a token: a generator that is given up may be closed in another context
        kind = begun.error if error is None else type(error).__name__
        attributes: Attributes = {} if kind is None else {"error.type": kind}
        if kind is not None:
            begun.span.set_attributes(attributes)
            begun.span.set_status(trace.StatusCode.ERROR)
        begun.span.end()
        if begun.metric is not None:
            begun.metric.record(perf_counter() - begun.began, {**self._common, **begun.attributes, **attributes})

    def _listed(self, event: events.Listed) -> None:
        items = len(event.items)
        attributes: Attributes = {"toolfold.list.items": items}
        self._instruments.items.record(items, {**self._common, "toolfold.list.kind": event.kind})
        if event.kind == "tool":
            attributes["toolfold.list.tokens"] = tokens = sum(map(self._cost, event.items))
            self._instruments.tokens.record(tokens, self._common)
        self._tracer.start_span(f"list {event.kind}", attributes={**self._common, **attributes}).end()


def _cost(component: Component) -> int:
    return cost((component,))
