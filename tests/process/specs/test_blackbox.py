"""Driving servers that were not made for the kit: described in a file, or found out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.preloaded import forked_toolfold
from tests.process.specs.support import environment
from toolfold import ToolSet
from toolfold_specs.checks import Options, run_checks
from toolfold_specs.driver import CAPABILITIES, Answer, Setup
from toolfold_specs.drivers.blackbox import NO_GROUPS, ONE_CLIENT, BlackBoxDriver
from toolfold_specs.drivers.description import ControlCall, DescriptionError, infer, load
from toolfold_specs.drivers.in_process import described
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.process import Command
from toolfold_specs.drivers.protocol import Era
from toolfold_specs.layers import exhaustive, wire
from toolfold_specs.layers.over_mcp import without_hint
from toolfold_specs.report import Status
from toolfold_specs.runs import TestRun

PLAIN = Path(__file__).with_name("targets") / "plain.py"
RAW = PLAIN.with_name("raw.py")

GROUP = """
[[group]]
path = "{path}"
tools = ["{tool}"]
activate = {{ tool = "open_{name}" }}
deactivate = {{ tool = "close_{name}", arguments = {{}} }}
"""
GROUPS = {"files": "read", "files.edit": "write", "sandbox": "rehearse", "live": "execute", "core": "help"}
PLAIN_GROUPS = "".join(GROUP.format(path=path, tool=tool, name=path.replace(".", "_")) for path, tool in GROUPS.items())
DESCRIPTION = f"""
[server]
starts_active = ["core"]
{PLAIN_GROUPS}
[[exclusion]]
groups = ["sandbox", "live"]
"""

ISOLATION = [check for check in wire.CHECKS if check.clauses == ("ISO-1",)]
SHARED = {"copy": "read", "copy.more": "extra"}

Write = Callable[[str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "description.toml"
        path.write_text(text)
        return path

    return written


@contextmanager
def driving(command: Command, description: Path | None = None, era: Era = "legacy") -> Generator[BlackBoxDriver]:
    driver = BlackBoxDriver(Link(command, era), description)
    try:
        yield driver
    finally:
        driver.close()


def black_box(command: Command) -> BlackBoxDriver:
    return BlackBoxDriver(Link(command, "modern"))


def plain(fault: str = "") -> Command:
    return Command([sys.executable, str(PLAIN), fault])


def toured(driver: BlackBoxDriver) -> TestRun:
    """Return the run of a tour through the groups of a server."""
    assert driver.given is not None
    test_run = TestRun(driver)
    exhaustive.tour(test_run, driver.given)
    return test_run


@pytest.mark.spec("CNF-1", "CNF-8")
def test_a_described_server_is_toured_with_the_groups_that_it_has(write: Write) -> None:
    with driving(plain(), write(DESCRIPTION)) as driver:
        assert driver.given is not None
        assert driver.given.paths == ("core", "files", "files.edit", "live", "sandbox")
        assert driver.capabilities | set(driver.left_out) >= set(CAPABILITIES)
        assert not driver.capabilities & set(driver.left_out)
        test_run = toured(driver)
        assert test_run.violations == ()
        assert {"ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "INV-2", "NTF-1"} <= set(test_run.shown)
        assert driver.configure(Setup()) == Answer(error="error")


@pytest.mark.spec("CNF-3", "CNF-5")
def test_a_server_s_own_names_and_controls_are_evidence_of_nothing(write: Write) -> None:
    results = run_checks(exhaustive.CHECKS, lambda: BlackBoxDriver(Link(plain()), write(DESCRIPTION)))
    reasons = {clause: result.reason for result in results for clause in result.clauses if result.reason}
    assert reasons["NAM-2"] == "its tools have names of their own, without the group's path"
    assert reasons["CTL-1"] == "its groups have no control tools of their own"
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert {"ACT-4", "ACT-5", "INV-1", "VIS-2"} <= shown
    assert not shown & {"NAM-2", "CTL-1"}


@pytest.mark.spec("CNF-1", "CNF-5", "INV-1")
@pytest.mark.parametrize(
    ("fault", "history"),
    [
        ("children stay", ["activate(group='files')", "activate(group='files.edit')", "deactivate(group='files')"]),
        ("parents close", ["activate(group='files')", "activate(group='files.edit')"]),
    ],
)
def test_a_fault_of_a_described_server_is_found(write: Write, fault: str, history: list[str]) -> None:
    with driving(plain(fault), write(DESCRIPTION)) as driver:
        test_run = toured(driver)
        assert [violation.clause for violation in test_run.violations] == ["INV-1"]
        assert [str(operation) for operation in test_run.violations[0].history] == history


@pytest.mark.spec("CNF-3", "CNF-5")
def test_a_refusal_by_an_error_of_the_protocol_is_a_refusal(write: Write) -> None:
    with driving(plain("protocol errors"), write(DESCRIPTION)) as driver:
        test_run = toured(driver)
        assert test_run.violations == ()
        assert test_run.shown["ACT-2"]


@pytest.mark.spec("CNF-5", "NTF-1")
def test_a_server_that_advertises_notices_and_sends_none_is_found(write: Write) -> None:
    results = run_checks(exhaustive.CHECKS, lambda: BlackBoxDriver(Link(plain("never notifies")), write(DESCRIPTION)))
    assert {violation.clause for result in results for violation in result.violations} <= {"NTF-1"}
    assert "NTF-1" not in {clause for result in results if result.status is Status.PASSED for clause in result.clauses}


@pytest.mark.spec("CNF-8")
def test_groups_that_lists_do_not_distinguish_are_listed_and_the_rest_is_judged(write: Write) -> None:
    more = "".join(GROUP.format(path=path, tool=tool, name=path.replace(".", "_")) for path, tool in SHARED.items())
    with driving(plain("a shared tool"), write(DESCRIPTION + more)) as driver:
        assert set(driver.not_checked) == {"group copy", "group copy.more", "group files", "group files.edit"}
        assert driver.given is not None
        assert driver.given.paths == ("core", "live", "sandbox")
        assert toured(driver).shown["ACT-4"]


@pytest.mark.spec("CNF-1")
def test_what_a_described_server_lists_has_the_names_of_the_setup(write: Write) -> None:
    with driving(plain(), write(DESCRIPTION)) as driver:
        assert driver.list().tools == ()
        driver.activate("files")
        listed = driver.list()
        assert (listed.tools, listed.controls) == (("read",), None)
        assert listed.names is not None
        assert "read" in listed.names
        assert driver.name_of("read") == "read"
        assert driver.snapshot("two").active == ()
        assert driver.end().active == ()


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_whose_tools_are_named_after_groups_needs_no_description(era: Era) -> None:
    desk = Command([*forked_toolfold(), "serve", "--many-clients", "examples.desk:tools"], environment())
    results = run_checks(
        (*exhaustive.CHECKS, *wire.CHECKS), lambda: BlackBoxDriver(Link(desk, era)), Options(budget=60)
    )
    assert [violation for result in results for violation in result.violations] == []
    assert {result.status for result in results} == {Status.PASSED, Status.LEFT_OUT}
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert {"ACT-2", "ACT-3", "ACT-4", "ACT-5", "CTL-2", "CTL-4", "CTL-6", "DEL-9"} <= shown
    of_era = {"DEL-2", "DEL-3", "DEL-7", "DEL-11"} if era == "modern" else {"DEL-1", "DEL-8", "NTF-1"}
    assert of_era <= shown


@pytest.mark.spec("DEL-12")
def test_where_a_process_has_one_client_each_session_is_a_process_in_the_modern_era_too() -> None:
    desk = Command([*forked_toolfold(), "serve", "examples.desk:tools"], environment())
    with driving(desk, era="modern") as driver:
        driver.activate("database")
        assert driver.snapshot("two").active == ()
        assert driver.snapshot().active == ("database",)
        assert driver.not_checked == {"several clients of one process": ONE_CLIENT}
    results = run_checks(wire.CHECKS, partial(black_box, desk), Options(budget=60))
    assert [violation for result in results for violation in result.violations] == []
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert {"CALL-1", "DEL-2", "DEL-7", "DEL-9", "DEL-11", "PFX-1"} <= shown
    assert not {"DEL-3", "ISO-1"} & shown


@pytest.mark.spec("ISO-1")
def test_what_one_client_of_a_process_learns_of_another_over_stdio_is_found() -> None:
    leaking = Command([sys.executable, "-m", "tests.process.specs.targets.leaking"], environment())
    desk = Command([*forked_toolfold(), "serve", "--many-clients", "examples.desk:tools"], environment())
    results = [run_checks(ISOLATION, partial(black_box, command))[0] for command in (leaking, desk)]
    assert [result.status for result in results] == [Status.FAILED, Status.PASSED]
    assert {violation.clause for violation in results[0].violations} == {"ISO-1"}


@pytest.mark.spec("CNF-1")
def test_a_transition_reads_the_list_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    with driving(plain(), write(DESCRIPTION)) as driver:
        driver.activate("files")
        read = Mock(wraps=driver.main.list_tools)
        monkeypatch.setattr(driver.main, "list_tools", read)
        assert driver.deactivate("files").active == ()
        assert driver.activate("files").active == ("files",)
        assert read.call_count == 2


@pytest.mark.spec("CNF-8")
def test_of_a_server_whose_groups_are_not_known_only_what_needs_none_is_checked() -> None:
    results = run_checks(
        (*exhaustive.CHECKS, *wire.CHECKS), lambda: BlackBoxDriver(Link(Command([sys.executable, str(RAW)])))
    )
    assert {clause for result in results if result.status is Status.LEFT_OUT for clause in result.clauses} >= {"ACT-4"}
    reasons = {result.reason for result in results if result.layer == "exhaustive"}
    assert reasons == {
        NO_GROUPS,
        "the server was not made for the kit",
        "the server was not made for the kit; no profiles",
    }  # the second for what only the kit asks for
    assert {clause for result in results if result.status is not Status.LEFT_OUT for clause in result.clauses} == {
        "DEL-9",
        "LST-3",
    }


def test_groups_are_derived_from_names() -> None:
    names = ["a.activate", "a.b.activate", "a.b.deactivate", "x.y.activate", "tool", "a.tool", "deactivate"]
    found = infer(names)
    assert [(group.path, group.activate, group.deactivate) for group in found.groups] == [
        ("a", ControlCall("a.activate"), None),
        ("a.b", ControlCall("a.b.activate"), ControlCall("a.b.deactivate")),
    ]


def test_the_call_for_a_group_that_does_not_exist_follows_from_the_call_for_one_that_does() -> None:
    assert ControlCall("files.edit.activate").renamed("files.edit", "nowhere") == ControlCall("nowhere.activate")
    assert ControlCall("open_files_edit").renamed("files.edit", "no.where") == ControlCall("open_no_where")
    assert ControlCall("load", {"group": "files"}).renamed("files", "nowhere") == ControlCall(
        "load", {"group": "nowhere"}
    )
    assert ControlCall("reset").renamed("files", "nowhere") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[group]", "can't be read"),
        ("groups = 1", "the file: Additional properties are not allowed ('groups' was unexpected)"),
        ("[[group]]\ntools = []", 'group/0: "path" is a required property'),
        ('[[group]]\npath = "a"', 'group/0: "activate" is a required property'),
        ('[[group]]\npath = "a"\nactivate = "open"', 'group/0/activate: "open" is not of type "object"'),
        (
            '[[group]]\npath = "a"\nactivate = { tol = "x" }',
            "group/0/activate: Additional properties are not allowed ('tol' was unexpected)",
        ),
        ('[[group]]\npath = "a"\nactivate = { tool = 1 }', 'group/0/activate/tool: 1 is not of type "string"'),
        ('[[group]]\npath = "a"\ntools = "t"\nactivate = { tool = "x" }', 'group/0/tools: "t" is not of type "array"'),
        ('[[group]]\npath = "a"\nparent = "b"\nactivate = { tool = "x" }', "call 'a' 'b.a'"),
        ('[[group]]\npath = "a.b"\nactivate = { tool = "x" }', "has no parent: describe 'a' too"),
        ('[[group]]\npath = "a"\nactivate = { tool = "x" }\n' * 2, "is described twice"),
        ('[[exclusion]]\ngroups = ["a"]', 'exclusion/0/groups: ["a"] has less than 2 items'),
        ('[[exclusion]]\ngroups = ["a", "b"]', "'a' is no group that is described: there are none"),
        ('[server]\nstarts_active = ["a"]', "'a' is no group that is described"),
        ('[server]\nhandles = "header"', 'server/handles: "header" is not one of "meta" or "arguments"'),
        ('[server]\nrelevant_controls = "yes"', 'server/relevant_controls: "yes" is not of type "boolean"'),
        ("server = 1", 'server: 1 is not of type "object"'),
        ("group = 1", 'group: 1 is not of type "array"'),
    ],
)
def test_an_invalid_description_is_refused_with_its_place(write: Write, text: str, said: str) -> None:
    path = write(text)
    with pytest.raises(DescriptionError) as refused:
        load(path)
    assert str(refused.value).startswith(str(path))
    assert said in str(refused.value)


def test_a_missing_description_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DescriptionError, match=r"nowhere\.toml can't be read: No such file or directory\.$"):
        load(tmp_path / "nowhere.toml")


@pytest.mark.spec("CNF-1")
def test_a_tool_set_says_itself_how_its_groups_are_opened() -> None:
    tools = ToolSet("shop", control="load_tool_group", on_hidden="hint")
    for path in ("sales", "sales.refunds", "stock"):
        tools.register_group(path)
        tools.register(f"{path.rpartition('.')[2]}_list", lambda: "done", group=path, flat=True)
    tools.register("secret", lambda: "done", group="stock", flat=True, hidden=True)
    tools.register_exclusion("sales.refunds", "stock")
    found = described(tools)
    assert found is not None
    assert [(group.path, group.tools) for group in found.groups] == [
        ("sales", ("sales_list",)),
        ("sales.refunds", ("refunds_list",)),
        ("stock", ("stock_list",)),
    ]
    assert found.groups[1].activate == ControlCall("load_tool_group", {"group_name": "sales.refunds"})
    assert found.groups[1].deactivate is None
    assert found.exclusions == (("sales.refunds", "stock"),)
    assert described(ToolSet("small", max_active=1)) is None


@pytest.mark.spec("CALL-1")
def test_a_hint_that_an_author_chose_is_no_other_answer() -> None:
    assert without_hint("Unknown tool: x (activate the group a.b first)", "a.b") == "Unknown tool: x"
    assert without_hint("Unknown tool: x (try later)", "a.b") == "Unknown tool: x (try later)"
