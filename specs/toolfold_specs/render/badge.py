"""A badge, as the JSON that shields.io expects of an endpoint."""

from __future__ import annotations

import json

from ..report import Report, Verdict


def badge(report: Report) -> str:
    """Return the JSON text of a badge: how many clauses hold, or how many fail the run."""
    held = sum(row.verdict is Verdict.HELD for row in report.rows)
    failing = sum(row.fails for row in report.rows)
    if report.exit_status == 0:
        message, colour = f"{held} clauses hold", "brightgreen"
    elif report.exit_status == 1:
        message, colour = (f"{failing} clauses fail" if failing else "expectations are stale"), "red"
    else:
        message, colour = "not checked", "lightgrey"
    return f"{json.dumps({'schemaVersion': 1, 'label': 'toolfold', 'message': message, 'color': colour})}\n"
