"""`toolfold conform`: targets, reports, replay, exit statuses."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from io import StringIO
from pathlib import Path
from threading import Event
from typing import Any
from xml.etree import ElementTree

import anyio
import anyio.to_thread
import pytest
from click.testing import Result

from tests.cli.support import invoke
from tests.specs.made import NO_LIMIT, PAIRS, UNKNOWN, BrokenDriver, TinyDriver
from toolfold import ConfigError
from toolfold_cli import runs
from toolfold_cli.conform import ERAS, _Output
from toolfold_cli.drivers import BUILT_BY, IN_PROCESS, TRANSPORTS, driver_factories
from toolfold_cli.targets import parse_target
from toolfold_specs.checks import SMOKE, Options
from toolfold_specs.clauses import load_clauses
from toolfold_specs.driver import Operation, TargetFailed
from toolfold_specs.drivers.connection import Connection
from toolfold_specs.drivers.over_mcp import DriverFactory
from toolfold_specs.drivers.process import Command
from toolfold_specs.drivers.sessions import McpDriver
from toolfold_specs.kit import KitRun
from toolfold_specs.layers import all_checks
from toolfold_specs.layers.exhaustive import tour
from toolfold_specs.oracle import as_setup
from toolfold_specs.runs import TestRun
from toolfold_specs.systems import distinct_systems
from verification.library.driver import CoreDriver
from verification.mutants.engine import Engine
from verification.mutants.server import Fixture

pytestmark = pytest.mark.spec("CNF-2")

SYSTEMS = """
from tests.specs.made import BrokenDriver, DyingDriver, TinyDriver, no_driver

number = 5
made, another = TinyDriver(), TinyDriver()

def driver():
    return TinyDriver()

def wrong():
    return 5

def ending():
    raise SystemExit(0)

class FaultyDriver(TinyDriver):
    def activate(self, group, session="main"):
        raise KeyError(group)
"""


@pytest.fixture(autouse=True)
def folder(shop: Path) -> Path:
    """The current folder, with `shop.py` and `systems.py` in it."""
    (shop / "systems.py").write_text(SYSTEMS, encoding="utf-8")
    return shop


def conform(*arguments: str) -> Result:
    return invoke("conform", *arguments)


def vectors(*arguments: str) -> Result:
    return conform("--layers", "vectors", *arguments)


@pytest.mark.spec("CNF-3")
def test_reports_are_written_and_the_command_that_replays_is_printed(folder: Path) -> None:
    result = vectors("systems:BrokenDriver", "-o", "reports")
    assert result.exit_code == 1
    assert "toolfold conform --replay reports/failure.json systems:BrokenDriver" in result.stderr
    names = {path.name for path in (folder / "reports").iterdir()}
    assert names >= {"report.txt", "report.jsonl", "report.md", "junit.xml", "badge.json", "failure.json"}
    root = ElementTree.parse(folder / "reports" / "junit.xml").getroot()
    assert [suite.get("name") for suite in root] == ["in process"]


@pytest.mark.spec("CNF-3")
def test_json_lines_are_all_that_is_printed_if_they_are_asked_for() -> None:
    result = vectors("systems:BrokenDriver", "--json", "--seed", "3")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert (result.exit_code, lines[0]["exit_status"]) == (1, 1)
    assert (lines[0]["header"]["target"], lines[0]["header"]["seed"]) == ("systems:BrokenDriver", "3")
    assert lines[-1]["type"] == "clause"


def test_a_violation_of_another_revision_is_replayed_with_a_warning(folder: Path) -> None:
    vectors("systems:BrokenDriver", "-o", "reports")
    path = folder / "reports" / "failure.json"
    recorded: dict[str, Any] = json.loads(path.read_text())
    recorded["header"] |= {"spec": "0", "kit": "0.0.1"}
    path.write_text(json.dumps(recorded))
    result = conform("systems:TinyDriver", "--replay", str(path))
    assert result.exit_code == 0
    assert "warning: it was recorded with version 0 of the specification; this is" in result.stderr
    assert "warning: it was recorded with version 0.0.1 of the kit" in result.stderr


def test_checks_and_clauses_are_listed() -> None:
    checks = json.loads(vectors("--list-checks", "--json").stdout)
    assert [check["name"] for check in checks] == [check.name for check in all_checks(["vectors"])]
    clauses = json.loads(vectors("--list-clauses", "--json").stdout)
    assert [clause["id"] for clause in clauses] == [clause.id for clause in load_clauses()]
    assert any(clause["checks"] for clause in clauses)
    table = vectors("--list-clauses")
    assert table.exit_code == 0
    assert table.stdout.startswith("CLAUSE")
    assert "ACT-10" in table.stdout
    assert vectors("--list-checks").stdout.startswith("LAYER")


@pytest.mark.spec("CNF-8")
def test_the_log_of_the_implementation_is_not_printed() -> None:
    result = conform("verification.library.driver:CoreDriver", "--layers", "vectors", "--json")
    verdicts = {line.get("id"): line.get("verdict") for line in map(json.loads, result.stdout.splitlines())}
    assert verdicts["CALL-3"] == "held"  # so a handler failed, which the library logs
    assert "secret" not in result.stderr


# -- settings ---------------------------------------------------------------------------------------------------------

OVER_HTTP = ["http, legacy", "http, modern"]
OVER_STDIO = ["stdio, legacy", "stdio, modern"]


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("systems:TinyDriver", ["in process"]),
        ("shop:tools", [*OVER_STDIO, *OVER_HTTP]),
        ("shop:make", [*OVER_STDIO, *OVER_HTTP]),
        ("shop:make_later", [*OVER_STDIO, *OVER_HTTP]),
        ("gate.toml", [*OVER_STDIO, *OVER_HTTP]),
        ("https://example.org/mcp", OVER_HTTP),
        ("-- npx server", OVER_STDIO),
    ],
)
def test_a_target_has_settings(text: str, names: list[str]) -> None:
    _, is_command, command = text.partition("-- ")
    target = parse_target(None if is_command else text, command.split())
    assert target.arguments == text
    with driver_factories(target, ERAS, [*TRANSPORTS, IN_PROCESS]) as factories:
        assert list(factories) == names


def test_eras_and_transports_are_chosen() -> None:
    with driver_factories(parse_target("shop:tools"), ["modern"], ["http"]) as factories:
        assert list(factories) == ["http, modern"]


def test_a_server_finds_the_modules_that_the_command_finds(folder: Path) -> None:
    target = parse_target("shop:tools", app_dir=folder)
    with driver_factories(target, ["legacy"], ["stdio"]) as factories:
        factory = factories["stdio, legacy"]
    assert isinstance(factory, DriverFactory)
    command = factory.address()
    assert isinstance(command, Command)
    assert command.command[1:] == (
        "-m",
        "toolfold_cli",
        "serve",
        "--many-clients",
        "--app-dir",
        str(folder),
        "shop:tools",
    )


def test_a_factory_of_drivers_is_the_one_that_was_named() -> None:
    with driver_factories(parse_target("systems:TinyDriver"), ERAS, [IN_PROCESS]) as factories:
        assert isinstance(factories["in process"](), TinyDriver)
    with pytest.raises(ConfigError), driver_factories(parse_target("systems:number"), ERAS, [IN_PROCESS]):
        pass


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Generator[Event]:
    """What the command `slow` waits for, a server in this process, before it answers the tool of that name."""
    told = Event()

    class Slow(Fixture):
        async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Any:
            if name == "slow":
                await anyio.to_thread.run_sync(told.wait, abandon_on_cancel=True)
            return await super().call(ctx, name, arguments)

        async def notify(self, ctx: Any, session: Any) -> None:
            pass

    monkeypatch.setattr("toolfold_cli.drivers._address", lambda *_: lambda: Slow(Engine).server())
    yield told
    told.set()


@pytest.mark.spec("CNF-8")
def test_a_request_may_take_as_long_as_was_given(told: Event) -> None:
    with ExitStack() as stack:
        hasty, patient = (stack.enter_context(_slow(timeout)) for timeout in (0.5, 60))
        waiting = patient.start_call("slow")
        with pytest.raises(TargetFailed, match=r"It did not answer tools/call within 0\.5 seconds"):
            hasty.reply("slow")
        assert not waiting.done
        told.set()
        assert waiting.reply() is not None


@contextmanager
def _slow(timeout: float) -> Generator[Connection]:
    target = parse_target(None, ["slow"])
    with driver_factories(target, ["legacy"], ["stdio"], timeout=timeout) as factories:
        driver = factories["stdio, legacy"]()
    assert isinstance(driver, McpDriver)
    with closing(driver):
        yield driver.main


@pytest.mark.usefixtures("told")
@pytest.mark.spec("CNF-11")
def test_limits_of_time_are_obeyed_and_repeated_in_the_command_that_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(Connection, "wait_for_change", lambda _, seen, seconds: waited.append(seconds))
    limits = ("--response-timeout", "20.5", "--start-timeout", "40.5", "--notice-grace", "0.25")
    result = vectors("--era", "legacy", "-o", "reports", *limits, "--", "slow")
    assert result.exit_code == 0  # of the levels that are asked for
    assert set(waited) == {0.25}
    command = result.stderr.partition("to replay the first violation: toolfold ")[2]
    assert command.startswith(f"conform --replay reports/failure.json {' '.join(limits)} -- slow")
    waited.clear()
    again = invoke(*shlex.split(command))
    assert (again.exit_code, set(waited)) == (1, {0.25})
    assert again.stdout.startswith("Reproduced: NTF-1 is violated")


# -- progress ---------------------------------------------------------------------------------------------------------


def test_without_a_terminal_progress_is_a_line_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.0, runs.INTERVAL, runs.INTERVAL + 1, 2 * runs.INTERVAL])
    with runs.show_progress(600, lambda: next(times)) as show:
        for text in ("one", "two", "three", "four\x1b"):
            show(text)
    assert capsys.readouterr().err == (
        "toolfold: two (15 s of at most 600 s)\ntoolfold: four\\x1b (30 s of at most 600 s)\n"
    )


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_each_finding_is_a_line_as_soon_as_it_is_known() -> None:
    found, known = list[str](), list[int]()

    def shown(line: str) -> None:
        found.append(line)
        known.append(len(output.run.report().results) if output.run else 0)

    output = _Output(None, as_json=True, progress=runs.Progress(lambda _: None, shown))
    checks = (UNKNOWN, PAIRS, NO_LIMIT, PAIRS)
    output.run = KitRun(BrokenDriver, Options(checks=checks, found=output.found))
    report = output.run.perform()
    assert [line.partition("  ")[0] for line in found] == ["INV-2", "ACT-10"]
    assert found[0].startswith("INV-2  open b: ")
    assert known[0] <= known[1] <= len(report.results)


@pytest.mark.parametrize(("stream", "shown"), [(Terminal, "ACT-1  it is open\n"), (StringIO, "")])
def test_findings_are_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, stream: type[StringIO], shown: str
) -> None:
    file = stream()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", "xterm-256color")
    with runs.show_progress(600) as progress:
        progress.print_line("ACT-1  it is open")
    assert shown in file.getvalue()
    assert bool(file.getvalue()) is bool(shown)


def test_on_a_terminal_progress_is_a_status_line(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", "xterm-256color")
    with runs.show_progress(600) as show:
        show("stdio, legacy: lists")
    assert "stdio, legacy: lists" in file.getvalue()


def test_smoke_checks_only_the_systems_of_up_to_three_groups() -> None:
    with closing(CoreDriver()) as driver:
        test_run = TestRun(driver)
        for size in (1, 2, 3):
            for system in distinct_systems(size):
                tour(test_run, as_setup(system), [Operation("list")])
    assert test_run.violations == ()
    assert test_run.cases == SMOKE["budget"]


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("language", sorted(BUILT_BY))
def test_a_starter_is_written_to_a_new_folder_with_what_to_do_next(folder: Path, language: str) -> None:
    result = conform("--starter", language, "mine/here")
    assert result.stdout == f"cd mine/here\ntoolfold conform --driver -- {BUILT_BY[language]}\n"
    (file,) = [path for path in (folder / "mine" / "here").rglob("*") if path.stem in ("driver", "main", "Driver")]
    assert "toolfold conform --driver -- " in file.read_text()
    again = conform("--starter", language, "mine/here")
    assert again.exit_code == 1
    assert again.stderr == "toolfold: mine/here is not empty: name a folder for the starter alone.\n"
