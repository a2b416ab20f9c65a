"""The conformance kit against servers that others wrote: what it finds is what specs/findings.md says."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.external.findings import FILE, Judged, judge, says, section
from tests.external.foreign.client import QUIET, Client, connected
from tests.external.foreign.confirming import (
    Dispute,
    Finding,
    any_text_is_a_cursor,
    in_order_of,
    list_changes,
    no_annotations,
    no_handle,
    notified_again,
    notified_more_than_once,
    open_schema,
    shows,
    silent_answer,
    unknown_tool_is_a_result,
)
from tests.external.foreign.servers import PROGRAMS, SERVERS, Server, load
from tests.external.support import serving
from toolfold_specs.exchange import Exchange
from toolfold_specs.report import Violation

COMPILED = [name for name in SERVERS if load(name).build]
LARGE = [name for name in SERVERS if load(name).command[0] in PROGRAMS]
READY = [name for name in SERVERS if name not in (*COMPILED, *LARGE)]
OPEN = "database__open"


@pytest.mark.spec("CNF-1", "CNF-3", "DEL-5")
@pytest.mark.parametrize("foreign", READY, indirect=True)
def test_findings_are_what_is_found_and_confirmed(foreign: Server) -> None:
    found_and_confirmed(foreign)


@pytest.mark.spec("CNF-1", "CNF-3")
@pytest.mark.skipif(os.environ.get("TESTS_FOREIGN") != "all", reason="it is compiled first: set TESTS_FOREIGN=all")
@pytest.mark.parametrize("foreign", COMPILED, indirect=True)
def test_findings_are_what_is_found_and_confirmed_in_a_compiled_server(foreign: Server) -> None:
    found_and_confirmed(foreign)


@pytest.mark.spec("CNF-1", "CNF-3")
@pytest.mark.parametrize("name", LARGE)
def test_findings_are_what_is_found_and_confirmed_in_a_large_server(name: str) -> None:
    server = load(name)
    if server.lacking:
        pytest.skip(server.lacking)
    found_and_confirmed(server)


def found_and_confirmed(server: Server) -> None:
    runs = [judge(server, era) for era in server.eras]
    assert not [clause for run in runs for clause in (*run.unconfirmed, *run.missed)]
    assert says(FILE.read_text("utf-8"), runs)


VIOLATION = Violation("NTF-1", "none", "stdio, legacy", "two notices", exchange=Exchange("", []))


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize(
    ("confirmed", "disputed", "written", "unconfirmed"),
    [
        (frozenset({"NTF-1"}), {}, True, []),
        (frozenset[str](), {}, False, ["NTF-1"]),
        (frozenset[str](), {"NTF-1": Dispute("two notices", "there is one")}, False, []),
    ],
    ids=["confirmed", "not confirmed", "disputed"],
)
def test_only_confirmed_findings_are_recorded(
    confirmed: frozenset[str], disputed: dict[str, Dispute], written: bool, unconfirmed: list[str]
) -> None:
    finding = {"NTF-1": Finding("A change causes two notices.", notified_more_than_once(OPEN))}
    verdicts = {"NTF-1": "violated"}
    run = Judged(
        load("go"), "legacy", verdicts, {"NTF-1": VIOLATION}, finding, confirmed, disputed, frozenset(), seconds=1
    )
    assert ("NTF-1" in section([run])) is written
    assert run.unconfirmed == unconfirmed


def conforms(era: str, *checks: Callable[[Client], None]) -> None:
    """Assert that no check shows anything in a conforming server."""
    for check in checks:
        with connected(serving("examples.desk:tools"), {}, era, QUIET) as client:
            assert not shows(check, client), check.__qualname__


@pytest.mark.spec("CNF-1", "LST-1", "LST-3", "NTF-1", "CTL-4", "CTL-6", "DEL-9")
def test_nothing_is_confirmed_in_a_legacy_server_that_conforms() -> None:
    conforms(
        "legacy",
        any_text_is_a_cursor,
        unknown_tool_is_a_result,
        silent_answer(OPEN, "database__query"),
        open_schema(OPEN),
        no_annotations(OPEN),
        notified_again(OPEN),
        notified_more_than_once(OPEN),
        in_order_of([OPEN], "database__query", "database__close"),
    )


@pytest.mark.spec("CNF-1", "DEL-2", "DEL-7")
def test_nothing_is_confirmed_in_a_modern_server_that_conforms() -> None:
    conforms("modern", any_text_is_a_cursor, unknown_tool_is_a_result, no_handle(OPEN), list_changes(OPEN))
