"""`toolfold conform`: targets, reports, replay, exit statuses."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from tests.specs.made import TinyDriver
from toolfold_adapters.cli.app import program
from toolfold_specs import progress
from toolfold_specs.checks import LAYERS
from toolfold_specs.clauses import load_clauses
from toolfold_specs.command import SMOKE, conform
from toolfold_specs.driver import Operation
from toolfold_specs.drivers.toolfold import CoreDriver
from toolfold_specs.layers import all_checks
from toolfold_specs.layers.exhaustive import tour
from toolfold_specs.oracle import as_setup
from toolfold_specs.systems import distinct_systems
from toolfold_specs.targets import ERAS, Target, TargetError, settings
from toolfold_specs.trial import Trial

pytestmark = pytest.mark.spec("CNF-2")

SYSTEMS = """
from tests.specs.made import BrokenDriver, DyingDriver, TinyDriver, no_driver

number = 5

def driver():
    return TinyDriver()

def faulty():
    raise RuntimeError("the till is locked")

def wrong():
    return 5

def needs(key):
    return TinyDriver()

def ending():
    raise SystemExit(0)

class FaultyDriver(TinyDriver):
    def activate(self, group, session="main"):
        raise KeyError(group)
"""

GOODS = """
from toolfold import ToolSet

tools = ToolSet("goods")
tools.register_group("orders", "Take orders")
tools.register_group("cellar", "Count what is in store")
tools.register_exclusion("orders", "cellar")

@tools.tool(group="orders", description="Order an item.")
def place(item: str) -> str:
    return item

@tools.tool(group="cellar", description="Count an item.")
def count(item: str) -> int:
    return len(item)

def make() -> ToolSet:
    return tools

async def make_later() -> ToolSet:
    return tools
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, with `systems.py`, `goods.py` and two that can't be imported in it."""
    (tmp_path / "systems.py").write_text(SYSTEMS, encoding="utf-8")
    (tmp_path / "goods.py").write_text(GOODS, encoding="utf-8")
    (tmp_path / "ending.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    (tmp_path / "needy.py").write_text("import no_such_package\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in ("systems", "goods"):
        sys.modules.pop(name, None)


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(conform, arguments, prog_name="toolfold conform")


def vectors(*arguments: str) -> Result:
    return invoke("--layers", "vectors", *arguments)


@pytest.mark.spec("CNF-3")
@pytest.mark.parametrize(
    ("target", "status", "said"),
    [
        ("systems:TinyDriver", 0, "It conforms: "),
        ("./systems.py:TinyDriver", 0, "It conforms: "),
        ("systems:driver", 0, "It conforms: "),
        ("systems:BrokenDriver", 1, "VIOLATED  INV-2 (MUST)"),
        ("systems:DyingDriver", 1, "THE TARGET FAILED  in process\n  It ended with status 3."),
        ("systems:FaultyDriver", 2, "THE HARNESS FAILED  in process\n  KeyError: '"),
    ],
)
def test_the_status_says_whether_it_conforms_does_not_or_could_not_be_checked(
    target: str, status: int, said: str
) -> None:
    result = vectors(target)
    assert result.exit_code == status
    assert said in result.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "There is no TARGET"),
        (("systems:TinyDriver", "--", "npx"), "leave one of them out"),
        (("--",), "Nothing follows --"),
        (("systems",), "'systems' is no TARGET"),
        (("no-module:x",), "'no-module:x' is no TARGET"),
        (("ending:x",), "ending:x ends the program (status 0)"),
        (("systems:ending",), "systems:ending ends the program (status 0)"),
        (("needy.py:x",), "needy.py:x needs 'no_such_package', which is not installed."),
        (("nowhere:x",), "nowhere:x can't be found: No module named 'nowhere'"),
        (("systems:nothing",), "there is no 'nothing' in systems"),
        (("systems:number",), "systems:number is of type int"),
        (("systems:wrong",), "made a value of type int, and neither a Driver nor a ToolSet"),
        (("systems:faulty",), "RuntimeError: the till is locked (systems.py, line 10). Use --traceback"),
        (("systems:TinyDriver", "--layers", "vector"), "There is no layer 'vector'; there are exhaustive, "),
        (("nowhere.py:x",), "There is no file nowhere.py."),
        (("systems.py",), "'systems.py' is no TARGET"),
        (("systems:needs",), "systems:needs can't be called without arguments: missing a required argument: 'key'."),
        (("systems:TinyDriver", "--transport", "http"), "is reached in-process, and not http"),
        (("https://example.org/mcp", "--transport", "stdio"), "is reached http, and not stdio"),
        (("--transport", "http", "--", "npx"), "is reached stdio, and not http"),
        (("systems:TinyDriver", "--era", "both", "--replay", "nowhere.json"), "nowhere.json can't be read"),
        (
            ("systems:TinyDriver", "--layers", "vectors", "--expected-failures", "nowhere.toml"),
            "nowhere.toml can't be read",
        ),
        (("systems:no_driver",), "It can't be started: no such file."),
        (("systems:TinyDriver", "--layers", ""), "Nothing could be checked."),
        (("--era", "both", "--layers", "vectors", "--", "/no/such/program"), "/no/such/program"),
        (
            ("--layers", "vectors", "--", "/no/such/program"),
            "Nothing could be checked.\nstdio, legacy: It could not be",
        ),
    ],
)
def test_what_cannot_be_run_has_status_2_and_says_why(arguments: tuple[str, ...], said: str) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_a_traceback_is_printed_where_one_is_asked_for() -> None:
    assert "Traceback" in invoke("systems:faulty", "--traceback").stderr


@pytest.mark.spec("CNF-3")
def test_reports_are_written_and_the_command_that_replays_is_told(folder: Path) -> None:
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


@pytest.mark.spec("CNF-3")
def test_a_violation_is_replayed_until_it_does_not_show_any_more() -> None:
    vectors("systems:BrokenDriver", "-o", "reports")
    again = invoke("systems:BrokenDriver", "--replay", "reports/failure.json")
    assert again.exit_code == 1
    assert again.stdout.startswith("Reproduced: INV-2 is violated (check ")
    assert "got       active: [" in again.stdout
    repaired = invoke("systems:TinyDriver", "--replay", "reports/failure.json")
    assert repaired.exit_code == 0
    assert repaired.stdout == "Not reproduced: INV-2 does not show to be violated any more (in process).\n"
    assert repaired.stderr == ""


@pytest.mark.spec("CNF-8")
def test_a_target_that_fails_while_a_violation_is_replayed_is_said_to() -> None:
    vectors("systems:BrokenDriver", "-o", "reports")
    result = invoke("systems:DyingDriver", "--replay", "reports/failure.json")
    assert result.exit_code == 1
    assert result.stdout == "The target failed (in process): It ended with status 3.\n"


def test_a_violation_of_another_revision_is_replayed_with_a_warning(folder: Path) -> None:
    vectors("systems:BrokenDriver", "-o", "reports")
    path = folder / "reports" / "failure.json"
    recorded: dict[str, Any] = json.loads(path.read_text())
    recorded["header"] |= {"spec": "0", "kit": "0.0.1"}
    path.write_text(json.dumps(recorded))
    result = invoke("systems:TinyDriver", "--replay", str(path))
    assert result.exit_code == 0
    assert "warning: it was recorded with revision of the specification 0, and this is" in result.stderr
    assert "warning: it was recorded with version of the kit 0.0.1" in result.stderr


@pytest.mark.spec("CNF-4")
def test_an_expected_failure_passes_and_one_that_holds_again_fails(folder: Path) -> None:
    (folder / "expected.toml").write_text("[[expected]]\nclause = 'INV-2'\nreason = 'no exclusion yet'")
    expected = vectors("systems:BrokenDriver", "--expected-failures", "expected.toml")
    assert expected.exit_code == 0
    assert "VIOLATED, AS EXPECTED  INV-2" in expected.stdout
    fixed = vectors("systems:TinyDriver", "--expected-failures", "expected.toml")
    assert fixed.exit_code == 1
    assert "HOLDS AGAIN  INV-2\n  Remove it from the expected failures (no exclusion yet)." in fixed.stdout
    (folder / "expected.toml").write_text("[[expected]]\nclause = 'INV-22'\nreason = 'no exclusion yet'")
    wrong = vectors("systems:BrokenDriver", "--expected-failures", "expected.toml")
    assert wrong.exit_code == 2
    assert "there is no clause 'INV-22'" in wrong.stderr


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


def test_the_program_has_the_command_and_help_imports_nothing_heavy() -> None:
    code = """
import sys
from click.testing import CliRunner
from toolfold_adapters.cli.app import program
shown = CliRunner().invoke(program, ["--help"]).stdout
assert "conform   Check an implementation" in shown, shown
shown = CliRunner().invoke(program, ["conform", "--help"]).stdout
assert "toolfold conform shop:tools" in shown, shown
print(sorted({"hypothesis", "toolfold_specs.kit", "toolfold_specs.oracle"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_program_passes_the_status_on() -> None:
    runner = CliRunner()
    arguments = ("conform", "systems:BrokenDriver", "--layers", "vectors")
    assert runner.invoke(program, arguments, prog_name="toolfold").exit_code == 1


@pytest.mark.spec("CNF-8")
def test_what_an_implementation_logs_is_not_shown() -> None:
    result = invoke("toolfold_specs.drivers.toolfold:CoreDriver", "--layers", "vectors", "--json")
    verdicts = {line.get("id"): line.get("verdict") for line in map(json.loads, result.stdout.splitlines())}
    assert verdicts["CALL-3"] == "held"  # so a handler failed, which the library logs
    assert "secret" not in result.stderr


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize(
    ("target", "names", "is_toolfold"),
    [
        (Target("systems:TinyDriver"), ["in process"], False),
        (Target("toolfold_specs.drivers.toolfold:CoreDriver"), ["in process"], True),
        (Target("goods:tools"), ["stdio, legacy", "stdio, modern", "http, legacy", "http, modern"], True),
        (Target("goods:make"), ["stdio, legacy", "stdio, modern", "http, legacy", "http, modern"], True),
        (Target("goods:make_later"), ["stdio, legacy", "stdio, modern", "http, legacy", "http, modern"], True),
        (Target("gate.toml"), ["stdio, legacy", "stdio, modern", "http, legacy", "http, modern"], True),
        (Target("https://example.org/mcp"), ["http, legacy", "http, modern"], False),
        (Target(command=("npx", "server")), ["stdio, legacy", "stdio, modern"], False),
    ],
    ids=lambda value: value.name if isinstance(value, Target) else None,
)
def test_a_target_has_settings(target: Target, names: list[str], is_toolfold: bool) -> None:
    with settings(target, ERAS, ["stdio", "http", "in-process"]) as found:
        assert list(found.factories) == names
        assert found.is_toolfold is is_toolfold


@pytest.mark.spec("CNF-1")
def test_a_server_made_for_the_kit_is_driven_over_mcp_in_both_eras() -> None:
    vectors("systems:BrokenDriver", "-o", "reports")
    server = (sys.executable, "-m", "toolfold_specs.fixture_server")
    result = invoke("--replay", "reports/failure.json", "--", *server)
    assert result.stdout == (
        "Not reproduced: INV-2 does not show to be violated any more (stdio, legacy / stdio, modern).\n"
    )
    assert result.exit_code == 0


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_tool_set_is_served_and_checked_as_clients_see_it(transport: str) -> None:
    result = invoke("goods:tools", "--transport", transport, "--era", "legacy", "--layers", "exhaustive", "--json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    verdicts = {line.get("id"): line.get("verdict") for line in lines}
    assert lines[0]["settings"] == [f"{transport}, legacy"]
    assert (verdicts["ACT-4"], verdicts["INV-2"], result.exit_code) == ("held", "held", 0)
    assert "the server was not made for the kit" in lines[0]["left_out"]["hooks"]


@pytest.mark.spec("CNF-8")
def test_a_description_that_is_wrong_is_refused(folder: Path) -> None:
    (folder / "groups.toml").write_text("[[groups")
    result = invoke("goods:tools", "--transport", "stdio", "--describe", "groups.toml", "--layers", "vectors")
    assert result.exit_code == 2
    assert "groups.toml" in result.stderr
    assert "Traceback" not in result.stderr


def test_eras_and_transports_are_chosen() -> None:
    with settings(Target("goods:tools"), ["modern"], ["http"]) as found:
        assert list(found.factories) == ["http, modern"]


def test_a_factory_of_drivers_is_the_one_that_was_named() -> None:
    with settings(Target("systems:TinyDriver"), ERAS, ["in-process"]) as found:
        assert isinstance(found.factories["in process"](), TinyDriver)
    with pytest.raises(TargetError), settings(Target("systems:number"), ERAS, ["in-process"]):
        pass


# -- progress ---------------------------------------------------------------------------------------------------------


def test_where_there_is_no_terminal_a_line_is_told_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    times = iter([0.0, 1.0, progress.EVERY, progress.EVERY + 1, 2 * progress.EVERY])
    with progress.shown_progress(lambda: next(times)) as tell:
        for text in ("one", "two", "three", "four\x1b"):
            tell(text)
    assert capsys.readouterr().err == "toolfold: two\ntoolfold: four\\x1b\n"


def test_on_a_terminal_a_line_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    file = Terminal()
    monkeypatch.setattr(sys, "stderr", file)
    monkeypatch.setenv("TERM", "xterm-256color")
    with progress.shown_progress() as tell:
        tell("stdio, legacy: lists")
    assert "stdio, legacy: lists" in file.getvalue()


def test_every_layer_has_a_name_that_the_option_takes() -> None:
    assert set(LAYERS) >= {check.layer for check in all_checks()}


def test_smoke_tries_the_smallest_systems_alone() -> None:
    with closing(CoreDriver()) as driver:
        trial = Trial(driver)
        for size in (1, 2, 3):
            for system in distinct_systems(size):
                tour(trial, as_setup(system), [Operation("list")])
    assert trial.violations == ()
    assert trial.cases == SMOKE


def test_smoke_leaves_no_choice_of_layers() -> None:
    result = CliRunner().invoke(conform, ["--smoke", "--deep", "nowhere:nothing"])
    assert result.exit_code == 2
    assert "leave out --deep and --layers" in result.output
