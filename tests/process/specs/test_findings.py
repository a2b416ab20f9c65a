"""Findings in servers over MCP: what their maintainers are given."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import invoke
from tests.preloaded import forked_toolfold
from tests.process.specs.test_blackbox import DESCRIPTION, PLAIN, plain
from toolfold_specs import confirming
from toolfold_specs.confirming import Confirming
from toolfold_specs.drivers.description import load
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.over_mcp import DriverFactory
from toolfold_specs.drivers.protocol import Era
from toolfold_specs.exchange import Exchange, Message
from toolfold_specs.kit import check
from toolfold_specs.render import write_reports
from toolfold_specs.report import Report, Result, Status, Violation
from toolfold_specs.served import Served

pytestmark = pytest.mark.spec("CNF-11")
PATIENCE = 300


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("described") / "it is described.toml"
    path.write_text(DESCRIPTION)
    return path


def checked(fault: str, description: Path, *layers: str) -> Report:
    factory = DriverFactory(lambda: plain(fault), "legacy", load(description))
    return check({"stdio, legacy": factory}, layers=layers)


@pytest.fixture(scope="module")
def findings(description: Path) -> Report:
    return checked("children stay", description, "exhaustive", "wire")


def found(report: Report, clause: str) -> Exchange:
    (violation,) = (one for one in report.violations if one.clause == clause)
    assert violation.exchange is not None
    return violation.exchange


def calls(exchange: Exchange) -> list[str]:
    """Return the tools that are called, by the server's own names."""
    return [one.content["params"]["name"] for one in exchange.messages if one.content.get("method") == "tools/call"]


def test_a_finding_has_the_messages_of_the_shortest_history(findings: Report) -> None:
    shown = found(findings, "INV-1")
    assert calls(shown) == ["close_core", "open_files", "open_files_edit", "close_files"]
    sent = [one.content["method"] for one in shown.messages if one.is_sent]
    assert sent == ["initialize", "notifications/initialized", *["tools/call"] * 4, "tools/list"]
    assert "write" in {tool["name"] for tool in shown.messages[-1].content["result"]["tools"]}


def test_a_finding_of_the_wire_has_the_requests_that_it_is_about(findings: Report) -> None:
    assert calls(found(findings, "DEL-9")) == ["no_such_tool"]
    cursors = found(findings, "LST-3").messages
    assert [one.content["params"] for one in cursors if one.content.get("method") == "tools/list"] == [
        {"cursor": "made up"}
    ]


def test_findings_are_confirmed_by_another_client(findings: Report, description: Path) -> None:
    assert {one.exchange.is_confirmed for one in findings.violations if one.exchange} == {True}
    fickle = found(checked("each answers otherwise", description, "wire"), "CTL-4")
    assert fickle.is_confirmed is False


def test_the_script_shows_a_finding_without_the_kit(findings: Report, tmp_path: Path) -> None:
    write_reports(findings, tmp_path)
    script = tmp_path / "failure-INV-1.py"
    assert script.read_text() in (tmp_path / "report.md").read_text()
    run = subprocess.run(
        [sys.executable, "-I", "-S", str(script)], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    last = run.stdout.splitlines()[-1].removeprefix("0 <- ")
    assert "write" in {tool["name"] for tool in json.loads(last)["result"]["tools"]}
    assert script.read_text().count("\n") < 40


def test_the_replay_line_works_as_it_is_printed(description: Path, tmp_path: Path) -> None:
    server = (sys.executable, str(PLAIN), "children stay")
    options = ("--describe", str(description), "--layers", "exhaustive", "-o", str(tmp_path))
    result = invoke("conform", *options, "--", *server)
    printed = result.stderr.splitlines()[-1].partition("violation: ")[2]
    assert printed in (tmp_path / "report.md").read_text().replace("failure-INV-1.json", "failure.json")
    program, *arguments = shlex.split(printed)
    assert program == "toolfold"
    again = invoke(*arguments)
    assert again.stdout.startswith("Reproduced: INV-1 is violated")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_script_reaches_a_server_over_http(era: Era) -> None:
    serve = (*forked_toolfold(), "serve", "examples.desk:tools", "--http", "--port", "0")
    with Served(serve) as served, Link(served.url(), era) as link:
        connection = link.connect()
        link.begin()
        opened = connection.reply("database__open")
        link.keep()
        connection.wait_for_change(0, PATIENCE if era == "legacy" else 0)
        meta: dict[str, Any] = {"dev.toolfold/handle": opened.handle} if era == "modern" else {}
        names = [tool["name"] for tool in connection.list_all_tools(meta)]
        violation = Violation("ACT-1", "none", link.name, "nothing is wrong", exchange=link.exchange())
        result = Result("none", "wire", link.name, ("ACT-1",), Status.FAILED, violations=(violation,))
        (result,) = Confirming().confirmed([result])
    assert "database__query" in names
    assert result.violations[0].exchange is not None
    assert result.violations[0].exchange.is_confirmed


@pytest.mark.parametrize(
    ("server", "alike"), [("input(); input()", True), ("""print('{"id": 1, "result": {}}')""", False)]
)
def test_a_request_that_is_never_answered_is_confirmed_by_another_that_waits_in_vain(
    server: str, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confirming, "PATIENCE", 3)
    asked = Message(0, is_sent=True, content={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    exchange = Exchange((sys.executable, "-c", server), [asked], frozenset({(0, 1)}))
    violation = Violation("HOOK-7", "none", "stdio, legacy", "it is never answered", exchange=exchange)
    result = Result("none", "wire", "stdio", ("HOOK-7",), Status.FAILED, violations=(violation,))
    (result,) = Confirming().confirmed([result])
    assert result.violations[0].exchange is not None
    assert result.violations[0].exchange.is_confirmed is alike
