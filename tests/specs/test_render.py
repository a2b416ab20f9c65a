"""Reports in text, JSON lines, JUnit, Markdown, and as a badge."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from attrs import evolve
from jsonschema_rs import validator_for
from rich.console import Console

import toolfold_specs.render
from tests.specs.made import CLAUSES, LONGER, WEAK, WRONG, failing, report, result, step
from toolfold_specs.driver import Group, Operation, Setup, Tool
from toolfold_specs.render import badge, failure, jsonl, junit, markdown, write_reports
from toolfold_specs.render.text import show, text
from toolfold_specs.render.trace import differing, finding, plain, steps, to_fix
from toolfold_specs.report import Expectation, Report, Status

pytestmark = pytest.mark.spec("CNF-3")

HOSTILE = "\x1b[2J\x00 <b>|`*\n\ud800"
SCHEMA = json.loads(Path(toolfold_specs.render.__file__).with_name("schema.json").read_text(encoding="utf-8"))


def hostile() -> Report:
    wrong = evolve(WRONG, message=HOSTILE, check=HOSTILE, setting=HOSTILE, got={"text": HOSTILE})
    return report(
        result(HOSTILE, ["ACT-4"], Status.FAILED, setting=HOSTILE, violations=(wrong,)),
        result("x", ["ACT-1"], Status.DIED, setting=HOSTILE, reason=HOSTILE),
        left_out={"persistence": HOSTILE},
        expected=[Expectation("ACT-10", HOSTILE)],
    )


def junit_rules(root: Any) -> None:
    """Check the shape that readers of JUnit's XML rely on."""
    assert root.tag == "testsuites"
    for suite in root:
        cases = suite.findall("testcase")
        assert suite.tag == "testsuite"
        assert int(suite.get("tests")) == len(cases)
        assert {child.tag for child in suite} <= {"properties", "testcase"}
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(attribute)) == len(suite.findall(f"testcase/{tag}"))
        assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
        for case in cases:
            assert case.get("classname")
            assert len(case.findall("failure") + case.findall("error") + case.findall("skipped")) <= 1
        assert all(set(one.attrib) == {"name", "value"} for one in suite.iter("property"))


# -- the steps of a violation ------------------------------------------------------------------------------------------


def test_a_violation_is_rendered_step_by_step() -> None:
    assert list(steps(WRONG)) == [
        "given  groups a, b, b.c",
        "       exclusion {a, b}",
        "    1  activate(group='a')",
        "    2  activate(group='b')",
        '       expected  active: ["b"]',
        '       got       active: ["a", "b"]',
    ]


def test_everything_in_a_setup_is_rendered() -> None:
    setup = Setup(
        groups=[Group("a", hooks=["on_activate"]), Group("b", deactivator=False)],
        tools=[Tool("t", "a", when="always", hidden=True, does="refuse", input_schema={"type": "object"}), Tool("u")],
        max_active=1,
        evict_oldest=True,
        pinned=["a"],
        page_size=2,
        relevant_controls=True,
    )
    assert list(steps(evolve(WRONG, setup=setup, history=(), expected={}, got={}))) == [
        "given  groups a (hooks on_activate), b (no deactivator)",
        '       tools a.t (always; hidden; refuse; input {"type": "object"}), u',
        "       at most 1 active: evict the oldest, a pinned",
        "       pages of 2",
        "       control tools only while they can do something",
    ]


def test_overlapping_operations_are_identified_by_numbers() -> None:
    begun = {"ticket": 1, "operation": step("activate", "a").to_json()}
    history = (Operation("start", begun), Operation("finish", {"ticket": 1}))
    lines = list(steps(evolve(WRONG, setup=None, history=history)))
    assert lines[:2] == ["    1  start number 1: activate(group='a')", "    2  finish number 1"]


@pytest.mark.parametrize(
    ("expected", "got", "names"),
    [
        ({"active": ["a"], "changed": True}, {"active": [], "changed": True}, ("active",)),
        ({"error": "ParentInactive", "active": []}, {"changed": True, "active": []}, ("error",)),
        ({"changed": True}, {"error": "GroupNotFound"}, ("error",)),
        ({"changed": True, "notified": 1}, {"changed": True}, ("changed", "notified")),
        ({}, {}, ()),
    ],
)
def test_the_observed_members_that_differ_are_shown(
    expected: dict[str, Any], got: dict[str, Any], names: tuple[str, ...]
) -> None:
    assert differing(expected, got) == names


def test_success_and_failure_are_distinguished() -> None:
    lines = list(steps(evolve(WRONG, expected={"error": "ParentInactive"}, got={"changed": True})))
    assert lines[-2:] == ['       expected  error: "ParentInactive"', "       got       error: null"]


# -- text -------------------------------------------------------------------------------------------------------------


def test_text_has_violations_then_clauses_then_what_was_left_out() -> None:
    output = text(failing())
    places = [
        output.index(part)
        for part in (
            "2 things to fix:\n",
            "  ACT-4  open b: b's partner is still active\n",
            "  ACT-10  there is no limit\n\n",
            "Conformance of shop:tools",
            "seed 7; settings: http, modern / stdio, legacy",
            "VIOLATED  ACT-4 (MUST)",
            "\n  b's partner is still active",
            "    2  activate(group='b')",
            'got       active: ["a", "b"]',
            "also found by check pairs at random, http, modern",
            "VIOLATED  ACT-10 (SHOULD)",
            "CLAUSE  LEVEL   VERDICT",
            "ACT-1   MUST    held",
            "Not applicable: 2 clauses (1: no persistence; 1: no check of the kit is about them)",
            "Left out",
            "persistence: it stores nothing",
            "It does not conform: 1 held; 2 violated; 1,202 answers judged in 0.5 s.",
        )
    ]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        (report(result("pairs", ["ACT-1"])), ()),
        (failing(expected=[Expectation("ACT-4", "issue 12"), Expectation("ACT-10", "issue 13")]), ()),
        (
            report(
                result("limit", ["ACT-10"], Status.FAILED, violations=(WEAK,)),
                result("x", ["ACT-1"]),
                expected=[Expectation("ACT-1", "issue 3")],
            ),
            (
                "2 things to fix:",
                "  ACT-10  there is no limit",
                "  ACT-1  holds again: remove it from the expected failures",
            ),
        ),
        (
            report(result("x", ["ACT-1"], Status.DIED, reason="It hung.\nFor ever."), result("y", ["ACT-4"])),
            ("1 thing to fix:", "  THE TARGET FAILED  stdio, legacy: It hung.\\nFor ever."),
        ),
        (report(result("x", ["ACT-1"], Status.INTERRUPTED, reason="the run was ended")), ()),
    ],
    ids=["nothing", "all as expected", "an expectation to remove", "the target failed", "interrupted"],
)
def test_text_begins_with_what_to_fix_if_there_is_anything(made: Report, lines: tuple[str, ...]) -> None:
    assert to_fix(made) == lines
    assert text(made).startswith("\n".join((*lines, "", "Conformance of")) if lines else "Conformance of")


def test_a_thing_to_fix_is_one_line_however_long_its_message_is() -> None:
    line = finding(evolve(WRONG, message=f"{HOSTILE}{'x' * 1_000}"))
    assert len(line) <= 210
    assert line.startswith("ACT-4  open b: \\x1b[2J")
    assert line.endswith("x …")


def test_text_has_expected_violations_and_expectations_to_remove() -> None:
    made = failing(expected=[Expectation("ACT-4", "issue 12"), Expectation("ACT-1", "issue 3")])
    output = text(evolve(made, results=(*made.results, result("x", ["ACT-1"]))))
    assert output.index("VIOLATED  ACT-10") < output.index("VIOLATED, AS EXPECTED  ACT-4")
    assert "expected because: issue 12" in output
    assert "HOLDS AGAIN  ACT-1\n  Remove it from the expected failures (issue 3)." in output


@pytest.mark.spec("CNF-8")
def test_text_has_each_failure_of_the_target_and_of_the_kit_once() -> None:
    died = [result(check, ["ACT-1"], Status.DIED, reason="It hung.") for check in ("x", "y")]
    output = text(report(*died, result("z", ["ACT-4"], Status.BROKEN, reason="KeyError: 'a'")))
    assert output.count("\n  It hung.") == 1
    assert "THE TARGET FAILED  stdio, legacy\n  It hung.\n  in the checks: x, y" in output
    assert "THE HARNESS FAILED  stdio, legacy\n  KeyError: 'a'\n  in the checks: z" in output
    assert "It could not be checked to the end" in output


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)], ids=["usual", "NO_COLOR"]
)
def test_colours_are_only_for_terminals_without_no_color(environment: dict[str, str], coloured: bool) -> None:
    file = StringIO()
    terminal = {"TERM": "xterm-256color", **environment}
    show(failing(), Console(file=file, force_terminal=True, width=120, highlight=False, _environ=terminal))
    assert ("\x1b[1;31mVIOLATED" in file.getvalue()) is coloured
    assert ("\x1b[32mheld" in file.getvalue()) is coloured
    piped = StringIO()
    show(failing(), Console(file=piped, width=120, _environ=environment))
    assert "\x1b" not in piped.getvalue()


# -- JSON, JUnit, Markdown --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [failing(), hostile(), report()], ids=["failing", "hostile", "empty"])
def test_json_lines_follow_the_schema(made: Report) -> None:
    validator = validator_for(SCHEMA)
    lines = [json.loads(line) for line in jsonl(made).splitlines()]
    for line in lines:
        validator.validate(line)
    kinds = [line["type"] for line in lines]
    assert kinds == ["report", *["result"] * len(made.results), *["clause"] * len(made.clauses)]
    assert lines[0]["exit_status"] == made.exit_status


def test_json_lines_have_the_verdict_of_each_clause_in_each_setting() -> None:
    lines = [json.loads(line) for line in jsonl(failing()).splitlines()]
    (clause,) = [line for line in lines if line.get("id") == "ACT-1"]
    assert (clause["verdict"], clause["level"], clause["checks"]) == ("held", "MUST", ["pairs"])
    assert clause["settings"] == {"http, modern": "not applicable", "stdio, legacy": "held"}
    assert lines[0]["counts"] == {"held": 1, "violated": 2, "not applicable": 2}
    assert lines[2]["violations"][0]["history"][1]["arguments"] == {"group": "b"}


@pytest.mark.parametrize("made", [failing(), hostile(), report()], ids=["failing", "hostile", "empty"])
def test_junit_has_the_usual_shape(made: Report) -> None:
    junit_rules(ElementTree.fromstring(junit(made).encode("utf-8")))


def test_junit_has_a_suite_per_setting_and_a_case_per_clause() -> None:
    root = ElementTree.fromstring(junit(failing()))
    assert [suite.get("name") for suite in root] == ["http, modern", "stdio, legacy"]
    cases = {case.get("name"): case for case in root[1].iter("testcase")}
    assert [child.tag for child in cases["ACT-1"]] == ["properties"]
    properties = {one.get("name"): one.get("value") for one in cases["ACT-4"].iter("property")}
    assert properties == {"clause": "ACT-4", "level": "MUST", "verdict": "violated", "checks": "pairs"}
    failed = cases["ACT-4"].find("failure")
    assert failed is not None
    assert failed.get("message") == "b's partner is still active"
    assert "2  activate(group='b')" in (failed.text or "")
    skipped = [cases[name].find("skipped") for name in ("PER-1", "ACT-10")]
    assert [one.get("message") for one in skipped if one is not None] == [
        "not applicable: no persistence",
        "violated: SHOULD: there is no limit",
    ]


def test_junit_has_an_error_where_the_target_failed_and_a_failure_where_an_expectation_is_stale() -> None:
    made = report(
        result("x", ["ACT-1"]),
        result("y", ["ACT-4"], Status.DIED, reason="It hung."),
        expected=[Expectation("ACT-1", "issue 3")],
    )
    root = ElementTree.fromstring(junit(made))
    assert [one.get("message") for one in root.iter("error")] == ["y: the target failed"]
    assert [one.get("message") for one in root.iter("failure")] == ["held, though expected to be violated: issue 3"]


@pytest.mark.spec("CNF-11")
def test_markdown_has_what_is_wrong_and_nothing_else() -> None:
    page = markdown(failing(), Path("reports"))
    assert "## ACT-4 (MUST): b's partner is still active" in page
    assert "> Partners | are displaced. In any order." in page
    assert "This specification alone demands it, and not MCP." in page
    assert "    1  activate(group='a')\n    2  activate(group='b')\n" in page
    assert "toolfold conform --replay reports/failure-ACT-4.json shop:tools" in page
    assert "also found by check pairs at random, http, modern" in page
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        "## ACT-4 (MUST): b's partner is still active",
        "## ACT-10 (SHOULD): there is no limit",
    ]
    assert "ACT-1" not in page.replace("ACT-10", "")
    assert "it stores nothing" not in page


@pytest.mark.spec("CNF-10", "CNF-11")
@pytest.mark.parametrize("form", [markdown, text])
def test_what_may_follow_from_a_violation_is_shown_under_it(form: Any) -> None:
    masked = evolve(WRONG, clause="ACT-1", message="unknown groups are active", root="ACT-4")
    made = failing()
    following = evolve(result("pairs", ["ACT-1"], Status.MASKED, reason="ACT-4"), hidden=(masked,))
    output = form(evolve(made, results=(*made.results[:1], *made.results[2:], following)))
    places = [output.index(part) for part in ("ACT-4 (MUST)", "unknown groups are active", "ACT-10 (SHOULD)")]
    assert places == sorted(places)
    assert output.count("unknown groups are active") == 1


@pytest.mark.spec("CNF-11")
def test_a_clause_of_mcp_is_distinguished_from_one_of_this_specification() -> None:
    demanded = evolve(CLAUSES[1], mcp="Tools, Error Handling.")
    made = evolve(failing(), clauses=(demanded, *CLAUSES[2:]))
    assert "MCP demands it. Tools, Error Handling." in markdown(made)
    assert "mcp (not aimed at): 1 violated" in markdown(made)
    assert [row.clause.id for row in evolve(made, profiles=("mcp",)).rows if row.fails] == ["ACT-4"]


def test_output_of_a_target_is_escaped_in_every_form() -> None:
    made = hostile()
    for output in (text(made), markdown(made), junit(made)):
        assert not {"\x1b", "\x00", "\ud800"} & set(output)
    outside = markdown(made).split("```")
    assert "<b>" not in outside[0] + outside[2]
    assert r"&lt;b>\|\`\*" in outside[0]
    assert r"&lt;b>\|\`\*" in outside[2]
    assert plain(HOSTILE) == r"\x1b[2J\x00 <b>|`*\n\ud800"


@pytest.mark.parametrize(
    ("made", "message", "colour"),
    [
        (failing(), "1 clauses fail", "red"),
        (report(result("x", ["ACT-1", "ACT-4"])), "2 clauses hold", "brightgreen"),
        (report(result("x", ["ACT-1"], Status.DIED)), "not checked", "lightgrey"),
        (report(), "not checked", "lightgrey"),
    ],
)
def test_a_badge_has_a_message_and_a_colour(made: Report, message: str, colour: str) -> None:
    expected = {"schemaVersion": 1, "label": "toolfold", "message": message, "color": colour}
    assert json.loads(badge(made)) == expected


# -- files ------------------------------------------------------------------------------------------------------------


def test_reports_are_written_in_every_form_with_a_file_per_violation(tmp_path: Path) -> None:
    written = write_reports(failing(), tmp_path / "reports")
    failures = ["failure.json", "failure-ACT-4.json", "failure-ACT-4-2.json", "failure-ACT-10.json"]
    assert [path.name for path in written] == [
        *("report.txt", "report.jsonl", "report.md", "junit.xml", "badge.json"),
        *failures,
    ]
    contents = [json.loads((tmp_path / "reports" / name).read_text()) for name in failures]
    assert contents[0] == contents[1] == json.loads(failure(failing(), WRONG))
    assert contents[2] == json.loads(failure(failing(), LONGER))
    for content in contents:
        validator_for(SCHEMA).validate(content)


def test_unexpected_violations_come_first(tmp_path: Path) -> None:
    write_reports(failing(expected=[Expectation("ACT-4", "issue 12")]), tmp_path)
    assert json.loads((tmp_path / "failure.json").read_text())["violation"]["clause"] == "ACT-10"


def test_failures_of_an_earlier_run_are_removed_and_nothing_else_is(tmp_path: Path) -> None:
    (tmp_path / "failure-analysis.json").write_text("mine")
    write_reports(failing(), tmp_path)
    write_reports(report(result("x", ["ACT-1"])), tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"report.txt", "report.jsonl", "report.md", "junit.xml", "badge.json", "failure-analysis.json"}


@pytest.mark.parametrize("made", [failing, hostile], ids=["failing", "hostile"])
def test_the_same_report_gives_the_same_bytes(tmp_path: Path, made: Any) -> None:
    def written() -> dict[str, bytes]:
        write_reports(made(), tmp_path)
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    assert written() == written()
