"""Runs: what a record says, and that what was played is not played again; transcripts, and the page."""

from __future__ import annotations

from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.evaluation.support import CATALOG, played, task
from toolfold import ConfigError
from toolfold_adapters.evaluation import (
    ARMS,
    Plan,
    Player,
    Record,
    World,
    page,
    read_records,
    run,
    scores,
    scripted,
    transcripts,
)

pytestmark = pytest.mark.spec("EVA-1")


def counting(names: list[str]) -> Player:
    """A perfect chooser that notes what it plays."""
    perfect = scripted("perfect")

    async def play(surface: Any, case: Any) -> Any:
        names.append(case.task)
        return await perfect.play(surface, case)

    return Player(name="counting", kind="script", play=play)


async def again(before: list[Record], **changed: Any) -> list[str]:
    """Which tasks are played where some records are there already."""
    names: list[str] = []
    given: dict[str, Any] = {
        "world": World(CATALOG),
        "tasks": [task("air"), task("storms")],
        "arms": ["groups"],
        **changed,
    }
    plan = Plan(players=[counting(names)], **given)
    records = [record async for record in run(plan, before)]
    assert [record.task for record in records] == ["air", "storms"]
    return names


async def test_a_record_says_what_it_was_measured_with_and_what_was_counted() -> None:
    (record,) = await played("air", world=World(CATALOG, seed=3), price=(3.0, 15.0))
    assert (record.player, record.kind, record.host, record.seed) == ("perfect", "script", "everything", 3)
    assert record.versions["mcp"] == version("mcp")
    assert record.versions.keys() == {"mcp", "python", "toolfold"}
    assert (record.done, record.requests, record.calls, len(record.transcript)) == (True, 3, 2, 2)
    assert record.context < record.input_tokens < 3 * record.context
    assert record.seconds > 0
    assert record.cost == pytest.approx((3 * record.input_tokens + 15 * record.output_tokens) / 1e6)


async def test_without_a_price_there_is_no_cost() -> None:
    assert [record.cost for record in await played("air")] == [None]


async def test_what_is_recorded_is_not_played_again_unless_something_differs() -> None:
    names: list[str] = []
    plan = Plan(world=World(CATALOG), tasks=[task("air")], players=[counting(names)], arms=["groups"])
    (first,) = [record async for record in run(plan)]
    both = [task("air"), task("storms")]
    assert await again([first], tasks=both) == ["air", "storms"]  # of other tasks
    known = first.model_copy(update={"tasks": World(CATALOG).fingerprint(both)})
    assert await again([known]) == ["storms"]
    assert await again([known], world=World(CATALOG, seed=1)) == ["air", "storms"]
    assert await again([known], price=(1.0, 1.0)) == ["air", "storms"]
    assert await again([known.model_copy(update={"versions": {**known.versions, "mcp": "0"}})]) == ["air", "storms"]


async def test_records_are_read_as_they_were_written_and_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    records = await played("air", "release", player="reckless")
    file = tmp_path / "runs.jsonl"
    lines = [record.model_dump_json() for record in records]
    file.write_text("\n".join([*lines, lines[0][:50]]), encoding="utf-8")
    assert read_records(file) == records
    assert read_records(tmp_path / "none.jsonl") == []


async def test_a_line_that_is_no_record_is_named(tmp_path: Path) -> None:
    (record,) = await played("air")
    file = tmp_path / "runs.jsonl"
    file.write_text(record.model_dump_json() + '\n{"task": "air"}\n', encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"runs\.jsonl, line 2: this is no record of an evaluation: arm Field required"
    ):
        read_records(file)


@pytest.mark.spec("EVA-2")
@pytest.mark.parametrize("arm", list(ARMS))
async def test_a_transcript_makes_the_same_calls_again_and_is_judged_anew(arm: str) -> None:
    records = await played("air", "move-review", "trip", "lost-card", player="reckless", arm=arm)
    (player,) = transcripts(records)
    repeated = await played("air", "move-review", "trip", "lost-card", "storms", player=player, arm=arm)
    counted = ("task", "done", "problems", "tried", "reached", "transcript", "input_tokens", "requests")
    assert [one.model_dump(include={*counted}) for one in repeated] == [
        one.model_dump(include={*counted}) for one in records
    ]
    assert {(one.player, one.kind) for one in repeated} == {("reckless, again", "transcript")}


@pytest.mark.spec("EVA-2")
async def test_a_transcript_fails_where_the_tools_are_offered_in_another_way() -> None:
    records = await played("air", arm="everything")
    (player,) = transcripts([record.model_copy(update={"arm": "groups"}) for record in records])
    (repeated,) = await played("air", player=player, arm="groups")
    assert repeated.problems == ("weather.air_quality was not called",)


@pytest.mark.spec("EVA-2")
async def test_the_page_says_at_every_figure_what_it_was_measured_with() -> None:
    records = [*await played("air", "taxi"), *await played("air", "taxi", player="codex", arm="groups", size=1_000)]
    text = page(records)
    for row in scores(records):
        assert f"<h2>{row.player}</h2><p>Measured with: {escape(row.measured_with)}.</p>" in text
    assert [row.measured_with.split("; ")[0] for row in scores(records)] == ["script", "script, with a host's view"]
    assert "air: weather.air_quality was not called (1 ×)" in text
    assert '<td class="missed">1/2</td>' in text


async def test_a_row_has_means_medians_and_sums_of_its_tasks() -> None:
    records = await played("air", "release", "taxi", player="reckless", price=(1.0, 1.0))
    (row,) = scores(records)
    assert (row.tasks, row.done) == (3, sum(record.done for record in records))
    assert row.requests == pytest.approx(sum(record.requests for record in records) / 3)
    assert row.input_tokens == sorted(record.input_tokens for record in records)[1]
    assert row.cost == pytest.approx(sum(record.cost or 0 for record in records))
    assert row.tried == {"asked": 6}


async def test_text_of_others_is_data_on_the_page() -> None:
    (record,) = await played("air")
    odd = record.model_copy(update={"player": "<script>", "done": False, "problems": ("<b>",), "arm": "<i>"})
    assert not {"<script>", "<b>", "<i>"} & set(page([odd]).replace("<", " <").replace(">", "> ").split())
    assert "&lt;script&gt;" in page([odd])


async def test_no_host_stands_between_a_conversation_and_its_model() -> None:
    assert await played("air", player="codex", arm="native") == []


async def test_a_record_has_how_servers_answer_and_that_changes_what_is_read() -> None:
    (whole,) = await played("move-review", arm="groups")
    (names,) = await played("move-review", arm="groups", options={"answers": "names", "answer_tokens": 2_000})
    assert whole.done
    assert names.done
    assert (whole.requests, names.requests) == (4, 6)  # the schema of each tool is read in a refusal
    assert whole.options == {}
    assert names.options == {"answers": "names", "answer_tokens": 2_000}
    assert whole.key != names.key
    assert [row.measured_with.partition("; answers")[2] for row in scores([whole, names])] == [
        "",
        " names; answer_tokens 2000",
    ]
