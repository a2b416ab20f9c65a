"""The examples as programs of their own: their demonstrations, and each one served by the command line."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from examples.assistant import build
from examples.assistant.savings import table
from tests.cli.support import environment, server
from tests.examples.callers import connected
from tests.preloaded import forked
from tests.process.conftest import ROOT


def demonstration(name: str, **variables: str) -> str:
    """Return the output of `python -m examples.NAME`, which must succeed."""
    done = subprocess.run(
        forked("-m", f"examples.{name}"),
        cwd=ROOT,
        env=environment(None, **variables),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def by_label(text: str) -> dict[str, str]:
    """Return the lines of an output, each by what precedes its first colon."""
    return {label.strip(): rest.strip() for label, _, rest in (line.partition(":") for line in text.splitlines())}


@pytest.mark.spec("AGT-4")
def test_the_assistant_prints_a_conversation_and_the_table_of_savings() -> None:
    printed = demonstration("assistant")
    assert "[groups loaded: google_gmail, google_calendar;" in printed
    for line, row in zip(printed.splitlines()[-4:], table(build()), strict=True):
        assert line.startswith(row.scenario)
        numbers = [int(one.replace(",", "")) for one in re.findall(r"-?[\d,]+", line.removeprefix(row.scenario))]
        costs = [(cost.before, cost.after, round(cost.saved)) for cost in (row.document, row.here)]
        assert numbers == [*costs[0], *costs[1]]


def test_the_automation_hub_demonstrates_document_a() -> None:
    lines = by_label(demonstration("automation_hub"))
    assert lines["A closed group"] == "Unknown tool: file_ops.write_file"
    assert lines["Open"] == "hello.txt has 6 characters."
    assert lines["What they serve"] == "Hello."
    assert "call database.activate first" in lines["Parents go first"]
    assert "Another client is writing" in lines["A hook that fails"]
    assert "Closed to make room: database.write." in lines["Exclusion"]
    assert lines["A plugin's tool"] == "3"
    assert lines["To another client"] == "database"


def test_the_telemetry_demonstration_ends_with_the_gate_closed_in_another_session() -> None:
    first, *_, last = demonstration("browser_telemetry").strip().split("\n\n")
    for part in (first, last):
        assert [line.split()[0] for line in part.splitlines()[1:]] == ["observe", "query_dom"]
    assert "websocket_events (1000)" in last


def test_the_toolkit_demonstrates_document_d() -> None:
    lines = by_label(demonstration("toolkit"))
    assert lines["Housekeeping"] == "tools: (forget_notes) [Housekeeping]"
    assert lines["Defaults"] == "hello hello"
    assert "maximum of 10" in lines["Out of bounds"]
    assert lines["Hidden, called"] == "1"
    assert lines["In a group"] == '{"week": 41, "orders": 23}'
    assert "result.orders" in lines["Wrong result"]
    assert lines["Unlocked"] == "tools: reindex [Power]"


@pytest.mark.spec("PRO-4")
def test_modern_cli_reports_which_programs_are_installed_and_runs_some(tmp_path: Path) -> None:
    for name in ("test", "env"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    printed = demonstration("modern_cli", PATH=os.pathsep.join((str(tmp_path), *os.get_exec_path())))
    assert "\n> fs_exists " in printed
    assert "It does not exist." in printed
    assert "one argument | not a pipe `not run`" in printed
    assert "[error] env failed: it was stopped, because it took longer than 1 s." in printed
    assert "[error] There is no group 'kubernetes'." in printed


@pytest.mark.spec("DEL-10", "GRP-3", "GRP-6", "MOD-5", "PRO-2", "PRO-4")
@pytest.mark.parametrize(
    ("target", "calls", "answer"),
    [
        (
            ("examples.assistant:tools",),
            [("load_tool_group", {"group_name": "google_gmail"}), ("gmail_search", {"labels": "unread"})],
            "ines@example.org",
        ),
        (
            ("examples.automation_hub:tools",),
            [("plugins__open", {}), ("plugins__count_words", {"text": "one two"})],
            "2",
        ),
        (
            ("examples.browser_telemetry:tools",),
            [("observe", {"what": "logs"}), ("configure", {"action": "visit", "amount": 200})],
            "",
        ),
        (("examples.modern_cli:tools", "--profile", "explore"), [("permissions", {"mode": "640"})], "rw-r-----"),
        (("examples.toolkit:tools",), [("say", {"message": "hello"})], "hello"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
async def test_an_example_is_served_by_the_command_line(
    target: tuple[str, ...], calls: list[tuple[str, dict[str, Any]]], answer: str
) -> None:
    """Among them document C's manual verification 1, and document E's example of a client's configuration."""
    async with connected(server("serve", *target, cwd=ROOT), "auto") as client:
        text = ""
        for name, arguments in calls:
            failed, text = await client.call(name, arguments)
            assert not failed, text
        assert answer in text
