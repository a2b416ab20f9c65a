"""The plugin of pytest: a test for each clause."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

import toolfold_adapters.mcp  # noqa: F401 (before any test, as pytester forgets what is first imported during its runs)
import toolfold_specs.drivers.over_mcp  # noqa: F401
from tests.specs.made import PAIRS
from toolfold import ToolSet
from toolfold_specs.layers import all_checks
from toolfold_specs.suites import Suite, suite

all_checks()  # imports the layers, for the same reason
pytest_plugins = ["pytester"]
pytestmark = pytest.mark.spec("CNF-2")

COLLECTED = ("ACT-1", "ACT-4", "ACT-7", "INV-2", "INV-3")
"""The clauses that a `TinyDriver` can be checked by."""

SUITE = """
    import toolfold_specs
    from tests.specs.made import CHECKS, PAIRS, BrokenDriver, DyingDriver, TinyDriver, no_driver
    from toolfold_specs import Expectation

    runs = []

    def driver(kind=TinyDriver):
        runs.append(kind)
        return kind()

    conformance = toolfold_specs.suite({factory}, checks=CHECKS{more})

    def test_of_another_kind():
        assert len(runs) <= 2  # one is asked for its capabilities
"""


@pytest.fixture(autouse=True)
def without_plugins_of_others(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """LangChain brings a plugin that opens sockets as it is loaded; `pytester` first discards options from outside."""
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:langsmith_plugin")


def run(pytester: pytest.Pytester, *arguments: str, factory: str = "driver", more: str = "") -> pytest.RunResult:
    pytester.makepyfile(test_it=SUITE.format(factory=factory, more=more))
    return pytester.runpytest_inprocess("-W", "error", "-p", "no:cacheprovider", "--strict-markers", *arguments)


def test_creating_a_suite_runs_nothing() -> None:
    assert isinstance(suite(lambda: 1 / 0), Suite)  # type: ignore[arg-type]


def test_each_clause_that_can_be_checked_is_collected_as_a_test(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--collect-only", "-q", factory="TinyDriver")
    expected = [f"test_it.py::conformance::{clause}" for clause in COLLECTED]
    assert [line for line in result.outlines if "::" in line] == [*expected, "test_it.py::test_of_another_kind"]


def test_held_clauses_pass_and_what_no_case_showed_is_skipped_with_the_reason(pytester: pytest.Pytester) -> None:
    result = run(pytester, "-rs", "-v", factory="TinyDriver")
    shown = ("ACT-1", "ACT-4", "INV-2", "INV-3")
    result.stdout.fnmatch_lines([f"test_it.py::conformance::{clause} PASSED*" for clause in shown], consecutive=False)
    result.stdout.fnmatch_lines(["*it was never met that*"])
    result.assert_outcomes(passed=len(shown) + 1, skipped=1)


def test_the_kit_runs_once_and_only_if_one_of_its_tests_does(pytester: pytest.Pytester) -> None:
    assert run(pytester, "-q").parseoutcomes().keys() == {"passed", "skipped"}
    result = run(pytester, "-q", "-k", "another")
    result.assert_outcomes(passed=1, deselected=len(COLLECTED))


@pytest.mark.spec("CNF-3")
def test_a_violated_clause_fails_with_its_history_and_no_traceback(pytester: pytest.Pytester) -> None:
    result = run(pytester, factory="BrokenDriver")
    result.assert_outcomes(passed=result.parseoutcomes()["passed"], failed=1, skipped=result.parseoutcomes()["skipped"])
    result.stdout.fnmatch_lines(
        [
            "INV-2 (MUST): violated",
            "*given  groups a, b",
            "*1  activate(group='a')",
            "*2  activate(group='b')",
            '*got       active: [[]"a", "b"[]]',
        ]
    )
    result.stdout.no_fnmatch_line("*plugin.py*")
    result.stdout.no_fnmatch_line("*Traceback*")
    assert result.ret == 1


def test_a_clause_is_selected_by_its_id(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it=SUITE.format(factory="BrokenDriver", more=""))
    pytester.runpytest_inprocess("test_it.py::conformance::ACT-1").assert_outcomes(passed=1)
    pytester.runpytest_inprocess("test_it.py::conformance::INV-2").assert_outcomes(failed=1)


@pytest.mark.spec("CNF-4")
def test_an_expected_violation_is_an_expected_failure_and_a_stale_expectation_fails(pytester: pytest.Pytester) -> None:
    more = ", expected=[Expectation('INV-2', 'issue 12')]"
    expected = run(pytester, "-rx", factory="BrokenDriver", more=more)
    assert expected.parseoutcomes()["xfailed"] == 1
    expected.stdout.fnmatch_lines(["XFAIL *INV-2 - *issue 12*"])
    assert expected.ret == 0
    stale = run(pytester, more=more)
    stale.stdout.fnmatch_lines(["INV-2 (MUST): held, though expected to be violated", "Remove it from the expected*"])
    assert stale.ret == 1


@pytest.mark.spec("CNF-3")
@pytest.mark.parametrize(("aim", "outcome"), [("all", "failed"), ("hooks", "xfailed")])
def test_a_violation_beyond_the_levels_aimed_at_is_an_expected_failure(
    pytester: pytest.Pytester, aim: str, outcome: str
) -> None:
    pytester.makepyfile(f"""
        import toolfold_specs
        from tests.specs.made import NO_LIMIT, TinyDriver

        conformance = toolfold_specs.suite(TinyDriver, checks=[NO_LIMIT], profiles=["{aim}"])
    """)
    result = pytester.runpytest_inprocess("-rfx", "-k", "ACT-10")
    result.assert_outcomes(**{outcome: 1}, deselected=0)
    result.stdout.fnmatch_lines([f"{outcome.removesuffix('ed').upper()}*ACT-10*"])


@pytest.mark.spec("CNF-8")
def test_a_target_that_fails_fails_its_clauses_and_a_broken_driver_is_an_error(pytester: pytest.Pytester) -> None:
    died = run(pytester, factory="DyingDriver")
    assert died.parseoutcomes()["failed"] == 3
    died.stdout.fnmatch_lines(["ACT-4 (MUST): undecided", f"{PAIRS.name}: the target failed"])
    broken = run(pytester, "-k", "ACT-4", factory="lambda: type('Faulty', (TinyDriver,), {'activate': None})()")
    broken.assert_outcomes(errors=1, deselected=len(COLLECTED))
    broken.stdout.fnmatch_lines([f"{PAIRS.name} (in process): TypeError*"])


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("lambda: 1 / 0", "The target can't be checked: ZeroDivisionError: division by zero"),
        ("no_driver", "The target can't be checked: TargetFailed: It can't be started: no such file."),
        ("lambda: 5", "The target can't be checked: TypeError: <lambda> made a int, not a Driver."),
        ("'no.such.module:tools'", "The target can't be checked: ModuleNotFoundError: No module named 'no'"),
    ],
)
def test_a_target_that_cannot_be_checked_is_one_failure(pytester: pytest.Pytester, factory: str, said: str) -> None:
    result = run(pytester, factory=factory)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([said])


@pytest.mark.parametrize("wrong", [ToolSet, 5, None, [], [1], {}, {"": 5}, "nothing"])
def test_anything_else_is_refused_in_one_sentence(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"can't be checked; expected a ToolSet, \"module:attribute\""):
        suite(wrong)


TOOLS = """
    import pytest
    import toolfold_specs
    from toolfold import ToolSet

    tools = ToolSet("shop")
    tools.register_group("orders", "Take orders", {hook})

    @tools.tool(group="orders")
    def take(what: str) -> str:
        "Take an order."
        return what
"""


@pytest.mark.parametrize("target", ["tools", '"test_it:tools"'])
def test_a_tool_set_is_checked_as_clients_see_it_in_both_eras(pytester: pytest.Pytester, target: str) -> None:
    pytester.makepyfile(test_it=TOOLS.format(hook="") + f"\n    conformance = toolfold_specs.suite({target})\n")
    result = pytester.runpytest_inprocess("-v", "-rs")
    assert result.ret == 0
    shown = ("ACT-1", "ACT-4", "CTL-4", "DEL-2", "DEL-9")
    result.stdout.fnmatch_lines([f"test_it.py::conformance::{clause} PASSED*" for clause in shown])
    result.stdout.no_fnmatch_line("*HOOK-*")


@pytest.mark.parametrize(("hook", "outcome"), [("", "passed"), ("on_activate=lambda: 1 / 0", "failed")])
def test_a_fixture_checks_what_is_made_within_a_test(pytester: pytest.Pytester, hook: str, outcome: str) -> None:
    test = """
    def test_it_conforms(conforms):
        assert conforms(tools, layers=["exhaustive"]).violations == ()
"""
    pytester.makepyfile(test_it=TOOLS.format(hook=hook) + test)
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(**{outcome: 1})
    if hook:
        result.stdout.fnmatch_lines(
            ["*group orders: its hook refuses to open it*", "It could not be checked to the end*"]
        )
        result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.spec("CNF-8")
def test_a_driver_that_is_at_fault_is_an_error_of_each_test(pytester: pytest.Pytester) -> None:
    faulty = "lambda: type('Faulty', (TinyDriver,), {'activate': None})()"
    result = run(pytester, "-k", "INV", factory=faulty)
    result.assert_outcomes(errors=2, deselected=len(COLLECTED) - 1)


def test_reports_are_written_and_junit_of_pytest_has_clause_and_level(pytester: pytest.Pytester) -> None:
    run(pytester, "--junit-xml=junit.xml", factory="BrokenDriver", more=", reports='reports'")
    recorded = json.loads((pytester.path / "reports" / "failure.json").read_text())
    assert recorded["violation"]["clause"] == "INV-2"
    root = ElementTree.parse(pytester.path / "junit.xml").getroot()
    (case,) = [case for case in root.iter("testcase") if case.get("name") == "INV-2"]
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert properties == {"clause": "INV-2", "level": "MUST"}
