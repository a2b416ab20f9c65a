"""Public benchmarks that check states: a few tasks of each, behind groups and without them (SPEC EVA-5).

`python -m tests.external.benchmarks` plays all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from tests.external.benchmarks import figures
from tests.external.benchmarks.link import Worker, worker
from tests.external.benchmarks.outside import Outcome, Suite, Way
from tests.external.benchmarks.playing import SIGNATURES, SOLUTION, TRIES, Desks
from tests.external.benchmarks.record import Record

FLAT, GROUPS = "everything listed", "groups"
SAMPLE = ("telecom/", "airline/44", "retail/3", "banking/task_033")


@pytest.fixture(scope="module")
def tau2(benchmarks: None) -> Iterator[Worker]:
    """A worker for tau2."""
    with worker("tau2") as link:
        yield link


@pytest.fixture(scope="module")
def bank(benchmarks: None) -> Iterator[Worker]:
    """A worker for the bank of AgentDojo."""
    with worker("banking") as link:
        yield link


@pytest.mark.spec("EVA-5")
def test_tasks_of_four_services_are_done_behind_groups_and_nothing_forbidden_reaches_a_tool(tau2: Worker) -> None:
    desks, tasks = Desks(tau2), tau2.ask("tasks")
    chosen = [next(one for one in tasks if one["id"].startswith(start)) for start in SAMPLE]

    async def played(way: str, player: str) -> list[tuple[bool, int, int, int]]:
        found = [await desks.play(task, way, player) for task in chosen]
        return [(one.done, sum(one.tried.values()), sum(one.reached.values()), one.read) for one in found]

    flat = anyio.run(lambda: played(FLAT, SOLUTION))
    for way, most in ((GROUPS, 0.5), (SIGNATURES, 0.35)):
        grouped = anyio.run(lambda way=way: played(way, SOLUTION))  # type: ignore[misc]
        assert all(done for done, *_ in (*flat, *grouped))
        assert sum(read for *_, read in grouped) < most * sum(read for *_, read in flat)

    tried = anyio.run(lambda: played(FLAT, TRIES))
    stopped = anyio.run(lambda: played(GROUPS, TRIES))
    assert sum(reached for *_, reached, _ in tried) > 0
    assert not all(done for done, *_ in tried)
    assert all(done and tries and not reached for done, tries, reached, _ in stopped)


def test_a_task_begins_in_the_same_state_each_time(tau2: Worker) -> None:
    desks = Desks(tau2)
    paying = next(one for one in tau2.ask("tasks") if one["id"] == "banking/task_051")  # of an account of the task
    first, again = (anyio.run(desks.play, paying, FLAT) for _ in range(2))
    assert first == again
    assert first.done


@pytest.mark.spec("EVA-5")
def test_what_was_read_from_outside_opens_nothing_that_acts(bank: Worker) -> None:
    suite = Suite(bank, "banking")
    asked = next(task for task in bank.ask("tasks") if task["id"] == "1")  # which reads, and pays nothing

    def played(way: Way) -> Outcome:
        return anyio.run(lambda: suite.play(asked, way, "4"))

    flat, sealed = played("everything listed"), played("sealed")
    assert (flat.lured, flat.attacked) == (True, True)
    assert (sealed.lured, sealed.done, sealed.attacked) == (True, True, False)


def test_what_a_record_has_is_not_played_again(bank: Worker, tmp_path: Path) -> None:
    task, file = bank.ask("tasks")[0], tmp_path / "outcomes"

    def played(suite: Suite) -> Outcome:
        return anyio.run(Record(file).once, Outcome, suite.play, "banking", task, "sealed", None)

    first = Suite(bank, "banking")
    outcome = played(first)
    again = Suite(bank, "banking")
    assert played(again) == outcome
    assert first.made
    assert not again.made


def test_the_page_has_the_tables_of_the_figures() -> None:
    text = figures.PAGE.read_text(encoding="utf-8")
    assert figures.page(text, figures.kept()) == text
