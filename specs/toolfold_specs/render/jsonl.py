"""A report as JSON lines, and a violation as JSON that can be replayed; both are described by `schema.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from attrs import asdict

from ..report import ClauseVerdict, Report, Result, Violation
from .trace import counts

VERSION = 1
"""The version of both formats, which only a new member leaves unchanged."""


def jsonl(report: Report) -> str:
    """Return a line for the report, one for each result, and one for each clause."""
    return "".join(f"{_dumped(line)}\n" for line in _lines(report))


def jsonl_of(result: Result) -> str:
    """Return the line of one result."""
    return f"{_dumped(_result(result))}\n"


def failure(report: Report, violation: Violation) -> str:
    """Return the text of a `failure.json`: a violation and the header of its run."""
    data = {
        "type": "failure",
        "version": VERSION,
        "header": dict(report.header),
        "violation": violation_as_json(violation),
    }
    return f"{_dumped(data, indent=2)}\n"


def violation_as_json(violation: Violation) -> dict[str, Any]:
    """Return a violation as JSON data."""
    return {
        "clause": violation.clause,
        "check": violation.check,
        "setting": violation.setting,
        "message": violation.message,
        "setup": None if violation.setup is None else violation.setup.to_json(),
        "history": [operation.to_json() for operation in violation.history],
        "expected": dict(violation.expected),
        "got": dict(violation.got),
        **({} if violation.exchange is None else {"exchange": violation.exchange.to_json()}),
    }


def _dumped(data: Any, indent: int | None = None) -> str:
    """Return JSON text that every parser accepts: an unpaired surrogate becomes a question mark."""
    whole = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace")
    return json.dumps(json.loads(whole), indent=indent)


def _lines(report: Report) -> Iterator[dict[str, Any]]:
    yield {
        "type": "report",
        "version": VERSION,
        "header": dict(report.header),
        "settings": list(report.settings),
        "left_out": dict(report.left_out),
        "expected": [asdict(expectation) for expectation in report.expected],
        "stale": [asdict(expectation) for expectation in report.stale],
        "counts": dict(counts(report.rows)),
        "profiles": list(report.profiles),
        "exit_status": report.exit_status,
    }
    yield from map(_result, report.results)
    verdicts = {setting: _verdicts(report.rows_in(setting)) for setting in report.settings}
    for row in report.rows:
        yield {**_clause(row), "settings": {name: found[row.clause.id] for name, found in verdicts.items()}}


def _result(result: Result) -> dict[str, Any]:
    return {
        "type": "result",
        "check": result.check,
        "layer": result.layer,
        "setting": result.setting,
        "clauses": list(result.clauses),
        "status": result.status.value,
        "reason": result.reason,
        "cases": result.cases,
        "seconds": round(result.seconds, 6),
        "violations": list(map(violation_as_json, result.violations)),
        "hidden": list(map(violation_as_json, result.hidden)),
    }


def _clause(row: ClauseVerdict) -> dict[str, Any]:
    return {
        "type": "clause",
        "id": row.clause.id,
        "section": row.clause.section,
        "level": row.level,
        "profile": row.clause.profile,
        "verdict": row.verdict.value,
        "reason": row.reason,
        "checks": list(row.checks),
        "violations": len(row.violations),
    }


def _verdicts(rows: Iterable[ClauseVerdict]) -> dict[str, str]:
    return {row.clause.id: row.verdict.value for row in rows}
