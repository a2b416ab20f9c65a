"""What a search finds of the queries that nothing was tuned on (SPEC EVA-3)."""

from __future__ import annotations

import pytest

from tests.benchmarks.search.recall import SHOWN, plain_fts5, recall, tool_set, toolfold_searcher
from tests.benchmarks.search.table import LABELS, PAGE, WORDS, asked, rows, stale
from tests.benchmarks.search.task_sets import TaskSet, own
from toolfold_adapters.search import bm25

pytestmark = pytest.mark.spec("EVA-3")
HELD = {tasks.name.removeprefix("own: "): tasks for tasks in own()}
LEAST = {
    "names": (1.0, 1.0, 1.0),
    "english": (0.7, 0.9, 0.9),
    "synonyms": (0.15, 0.25, 0.3),
    "languages": (0.0, 0.0, 0.0),
    "models": (0.7, 0.9, 0.9),
}
"""The least part that is found at 1, 5 and 10, by words alone."""
WITHOUT = ("nothing", "no tool")


def queries(tasks: TaskSet) -> list[str]:
    return [step for task in tasks.tasks for step in task.steps]


def test_one_half_of_each_kind_is_held_out() -> None:
    tuning = {tasks.name.removeprefix("own: "): tasks for tasks in own(held=False)}
    assert HELD.keys() == tuning.keys() == {*LEAST, *WITHOUT}
    for kind, held in HELD.items():
        assert not set(queries(held)) & set(queries(tuning[kind]))
        assert abs(len(held.tasks) - len(tuning[kind].tasks)) <= 1
        assert len(held.tasks) >= 5
        assert sum(1 for _ in held.tools()) == 500


@pytest.mark.parametrize("kind", LEAST)
def test_what_is_found_of_the_half_that_was_held_out(kind: str) -> None:
    tasks = HELD[kind]
    rankings = toolfold_searcher(bm25)(tasks, queries(tasks))
    found = [recall(tasks.tasks, rankings, shown) for shown in (1, 5, 10)]
    assert {1, 5, 10} <= set(SHOWN)
    assert all(part >= least for part, least in zip(found, LEAST[kind], strict=True)), found


@pytest.mark.spec("FND-6")
@pytest.mark.parametrize("kind", LEAST)
def test_no_less_is_found_than_plain_fts5_finds(kind: str) -> None:
    tasks = HELD[kind]
    ours, plain = (search(tasks, queries(tasks)) for search in (toolfold_searcher(bm25), plain_fts5))
    for shown in (5, 10):
        assert recall(tasks.tasks, ours, shown) >= recall(tasks.tasks, plain, shown)


@pytest.mark.spec("FND-6")
@pytest.mark.parametrize("kind", WITHOUT)
async def test_where_no_tool_fits_the_answer_says_so(kind: str) -> None:
    assert (await asked(tool_set(HELD[kind], bm25), queries(HELD[kind]))).doubts >= 0.9


def test_the_table_on_the_page_says_what_is_found_by_words() -> None:
    found = [*rows([HELD["english"], HELD["synonyms"], HELD["models"]], {WORDS: bm25}, {})]
    page = PAGE.read_text(encoding="utf-8")
    assert stale(page, found) == []
    row = f"| {LABELS['own: models']} ("
    assert len(stale(page.replace(row, f"not {row}"), found)) == 1
