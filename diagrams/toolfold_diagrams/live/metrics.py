"""The counters of use in Prometheus' text format, with the names that telemetry gives them (SPEC EXP-3, INT-5)."""

from __future__ import annotations

from collections.abc import Iterator

from toolfold import Usage
from toolfold.spi import extras_named

QUANTILES = (0.5, 0.99)


def exposition(usage: Usage, sessions: int) -> bytes:
    """Return the counters, and how many sessions are open, as Prometheus reads them.

    Raises:
        MissingExtra: prometheus-client is not installed.
    """
    with extras_named():
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import (
            CounterMetricFamily,
            GaugeMetricFamily,
            Metric,
            SummaryMetricFamily,
        )

    def families() -> Iterator[Metric]:
        labels = ("tool", "group", "client", "era")
        durations = SummaryMetricFamily(
            "toolfold_call_duration_seconds", "How long calls of tools take.", labels=labels
        )
        errors = CounterMetricFamily("toolfold_call_errors", "Calls with an error, or without a result.", labels=labels)
        tokens = CounterMetricFamily("toolfold_answer_tokens", "About how many tokens answers have.", labels=labels)
        for key, row in usage.calls.items():
            durations.add_metric(key, row.calls, row.seconds)
            for share in QUANTILES:
                quantile = {**dict(zip(labels, key, strict=True)), "quantile": str(share)}
                durations.add_sample(durations.name, quantile, row.percentile(share))
            errors.add_metric(key, row.errors)
            tokens.add_metric(key, row.tokens)
        yield from (durations, errors, tokens)
        of_callers = ("caller", "tool")
        did = CounterMetricFamily("toolfold_caller_calls", "Calls by who made them.", labels=of_callers)
        failed = CounterMetricFamily("toolfold_caller_errors", "Those of them with an error.", labels=of_callers)
        for caller, row in usage.callers.items():
            did.add_metric(caller, row.calls)
            failed.add_metric(caller, row.errors)
        yield from (did, failed)
        for name in ("opened", "called", "closed"):
            family = CounterMetricFamily(f"toolfold_group_{name}", f"Groups that were {name}.", labels=("group",))
            for path, openings in usage.groups.items():
                family.add_metric((path,), getattr(openings, name))
            yield family
        refused = CounterMetricFamily("toolfold_calls_refused", "Calls of what could not be called.", labels=("why",))
        for why, count in usage.refused.items():
            refused.add_metric((why,), count)
        yield refused
        for name, value in (
            ("searches", usage.searches.asked),
            ("searches_empty", usage.searches.empty),
            ("searches_called", usage.searches.called),
            ("lists", usage.lists.lists),
            ("list_tokens", usage.lists.tokens),
            ("list_tokens_ungrouped", usage.lists.ungrouped),
            ("prefixes_broken", sum(each.broken for each in usage.prefixes.values())),
            ("prefix_tokens", sum(each.tokens for each in usage.prefixes.values())),
            ("sessions_opened", usage.sessions),
        ):
            yield CounterMetricFamily(f"toolfold_{name}", name.replace("_", " "), value=value)
        yield GaugeMetricFamily("toolfold_sessions", "Sessions that are open.", value=sessions)

    class Collector:
        def collect(self) -> Iterator[Metric]:
            return families()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry)
