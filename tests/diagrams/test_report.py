"""What was used, as data and as HTML, with advice (SPEC EXP-3)."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from tests.core.support import with_groups
from toolfold import ToolResult, Usage
from toolfold_diagrams import report


def usage_with(**figures: Any) -> Usage:
    """Return counters of nothing, with some figures; calls are pairs of a tool, with its group, and its calls."""
    nothing = Usage("shop")
    data = {**nothing.dump(), **figures}
    for name in ("searches", "lists"):
        data[name] = {**nothing.dump()[name], **data[name]}
    nothing.add(data)
    return nothing


def calls_of(tool: str, calls: int, errors: int = 0, seconds: float = 0.0, tokens: int = 0, bucket: int = 100) -> Any:
    return [tool, tool.rpartition(".")[0], "desk", "modern", calls, errors, seconds, tokens, {str(bucket): calls}]


@pytest.mark.spec("EXP-3")
@pytest.mark.parametrize(
    ("figures", "advice"),
    [
        (
            {"groups": {"x": {"opened": 40, "called": 0, "closed": 40}, "y": {"opened": 1, "called": 1, "closed": 0}}},
            "Group x was opened 40 times and nothing in it was called: say better what is in it, or merge it with y.",
        ),
        (
            {"groups": {"x.z": {"opened": 40, "called": 10, "closed": 0}}},
            "Group x.z was opened 40 times and 30 times nothing in it was called: say better what is in it.",
        ),
        (
            {"calls": [calls_of("x.t", 10, errors=2)]},
            "x.t failed in 2 of 10 calls: see the log, or say better what its arguments are.",
        ),
        (
            {"calls": [calls_of("x.t", 10, tokens=60_000)]},
            "x.t answers with ~6,000 tokens on average: have it return less.",
        ),
        (
            {"calls": [calls_of("x.t", 10, bucket=200)]},
            "x.t takes up to 35 s: report progress, or have it do less at a time.",
        ),
        (
            {"searches": {"asked": 10, "empty": 6, "called": 4}},
            "6 of 10 searches found nothing: describe the tools in the words of their users, or rank by meaning.",
        ),
        (
            {"searches": {"asked": 10, "empty": 0, "called": 4}},
            "6 of 10 searches found tools of which none was called: say in their descriptions what they are for, and "
            "what not.",
        ),
        (
            {"refused": {"group": 4, "ancestor": 1}},
            "5 calls were of tools whose group was closed: on_hidden='hint' names the group in the refusal.",
        ),
        (
            {"refused": {"unknown": 5}},
            "5 calls were of tools that do not exist: look whether clients use names of old.",
        ),
        (
            {"lists": {"lists": 1, "tokens": 30, "ungrouped": 20}},
            "Lists have 10 tokens more than without groups: these tools hardly need groups.",
        ),
        (
            {"prefixes": {"a": {"broken": 7, "tokens": 6_000}}},
            "a broke 7 prefixes, so ~6,000 tokens or more were billed again: have clients call its tools by call_tool, "
            "or open it from the start.",
        ),
        (
            {"calls": [calls_of("t", 70)], "tools": dict.fromkeys(["t", *"abcdef"], "")},
            "6 of 7 tools were never called (a, b, c, d, e and 1 more): leave them out, or put them in a group of "
            "their own.",
        ),
    ],
)
def test_what_stands_out_is_reported_with_what_to_do(figures: dict[str, Any], advice: str) -> None:
    assert report(usage_with(**figures)).data["advice"] == [advice]
    if "calls" in figures:
        figures = {**figures, "calls": [[*row[:4], 4, *row[5:8], {"100": 4}] for row in figures["calls"]]}
        assert report(usage_with(**figures)).data["advice"] == []


@pytest.mark.spec("EXP-3")
async def test_a_report_has_the_figures_of_what_was_called() -> None:
    tools = with_groups("a", "b")
    tools.register("t", lambda: "12345678", group="a")
    tools.register("u", lambda: ToolResult.of_text("no", is_error=True), group="a")
    tools.register("v", lambda: None, group="b")
    ticks = iter(range(100))
    tools.count_usage(lambda: float(next(ticks)))
    async with tools.open_session() as session:
        await session.call("a.activate")
        for name in ("a.t", "a.t", "a.u"):
            await session.call(name)
        session.list_tools()
    assert tools.usage is not None
    data = report(tools.usage).data
    assert json.loads(report(tools.usage).json) == data
    a_second = pytest.approx(1.0, rel=0.045)
    figures = {"p50": a_second, "p99": a_second}
    assert data["tools"][0] == {"name": "a.t", "group": "a", "calls": 2, "errors": 0, "tokens": 4, **figures}
    assert data["groups"][0] == {
        "name": "a", "opened": 1, "unused": 0, "closed": 1, "calls": 3, "errors": 1, "tokens": 5, **figures,
    }  # fmt: skip
    assert (data["total"]["calls"], data["sessions"], data["unused"]) == (4, 1, ["b.v"])
    assert [row["name"] for row in data["eras"]] == ["in process"]
    assert data["lists"]["saved"] == data["lists"]["ungrouped"] - data["lists"]["tokens"]


@pytest.mark.spec("EXP-3", "SAF-6")
def test_the_html_shows_names_as_texts_and_runs_nothing() -> None:
    figures = {"calls": [calls_of("<script>alert(1)</script>", 3)], "refused": Counter(unknown=2)}
    html = report(usage_with(**figures)).html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "<script" not in html
    assert "default-src 'none'" in html
    assert "<li>unknown: 2</li>" in html
