"""Each part of the check for the draft extension finds what no other does (SPEC DEL-5, CNF-5)."""

from __future__ import annotations

from functools import partial

import pytest

from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks, groups
from toolfold_specs.report import Report, Status
from verification.mutants.server import Fixture
from verification.mutants.wire import MUTANTS
from verification.verdicts import over_mcp

pytestmark = pytest.mark.spec("CNF-5", "DEL-5")

FOUND_BY = {
    "lists grouped tools to clients with the extension": groups.contents,
    "answers groups/get for unknown groups": groups.unknown,
    "lists nested groups at root too": groups.nesting,
    "returns the tools of groups without their schemas": groups.activation,
    "returns the tools of a group to each connection only once": groups.stateless,
    "lists groups in the order of a dictionary": groups.order,
    "spells out what is beyond ASCII": groups.order,
    "counts the groups on the pages before": groups.pages,
    "keeps a list of groups that holds for no time while the first of them is there": groups.freshness,
    "never notifies of changed groups": groups.notification,
}
"""The part that finds each mutant; all but the first three are of the gates that the working group has left open."""

ABOUT = [one for one in all_checks(("wire",)) if one.clauses == ("DEL-5",)]


def run(fixture: type[Fixture]) -> Report:
    report = check(partial(over_mcp, fixture, "modern"), checks=ABOUT)
    assert [result.reason for result in report.results if result.status is Status.BROKEN] == []
    return report


def use(monkeypatch: pytest.MonkeyPatch, *parts: groups.Part) -> None:
    for table in ("PARTS", "CHANGING"):
        monkeypatch.setattr(groups, table, tuple(part for part in getattr(groups, table) if part in parts))


@pytest.mark.parametrize("name", FOUND_BY)
def test_a_mutant_is_found_by_one_part_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part, every = FOUND_BY[name], (*groups.PARTS, *groups.CHANGING)
    with monkeypatch.context() as patched:
        use(patched, *(one for one in every if one is not part))
        assert [violation.message for violation in run(MUTANTS[name].fixture).violations] == []
    with monkeypatch.context() as patched:
        use(patched, part)
        assert {violation.clause for violation in run(MUTANTS[name].fixture).violations} == {"DEL-5"}


def test_every_part_finds_a_mutant() -> None:
    assert {*FOUND_BY.values()} == {*groups.PARTS, *groups.CHANGING}
