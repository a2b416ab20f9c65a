"""A real model without a key or a network is a player among others (SPEC EVA-4)."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import anyio
import pytest

from tests.cli.support import invoke
from tests.external.models import figures
from tests.external.models.serving import served
from toolfold import ToolSet
from toolfold_adapters.evaluation import Choice, Plan, Record, Task, World, model, read_lines, run
from toolfold_adapters.evaluation.choosing import WAYS, Way
from toolfold_adapters.evaluation.tasks import Expected


@pytest.mark.spec("EVA-4")
def test_a_model_from_a_package_plays_a_task_and_its_record_names_its_weights(models: None) -> None:
    tools = ToolSet("house", control="none")
    schema = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
    tools.register("turn_on_light", lambda _: None, description="Turn on the light in a room", input_schema=schema)
    call = Expected.model_validate({"tool": "turn_on_light", "free": {"room": "kitchen"}})
    task = Task(id="light", ask="Turn on the light in the kitchen.", calls=(call,))

    async def played(address: str, name: str) -> Record:
        player = model(name, 0, base_url=address, timeout=300.0)
        plan = Plan(world=World(tools.catalog), tasks=[task], players=[player], arms=("everything",))
        (record,) = [one async for one in run(plan)]
        return record

    with served() as (address, name):
        record = anyio.run(played, address, name)
    assert record.player.startswith("needle3-")
    assert record.why != "unreachable"
    assert record.exchanges
    assert [(tool, given["room"]) for tool, given in record.transcript][:1] == [("turn_on_light", "kitchen")]


HOUSE = """
from toolfold import ToolSet

tools = ToolSet("house")
tools.register_group("light", "Lamps in rooms")
tools.register_group("mail", "Letters and messages")
room = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
for name, text, group in [
    ("turn_on_light", "Turn on the light in a room.", "light"),
    ("turn_off_light", "Turn off the light in a room.", "light"),
    ("read_letters", "Read the letters that came.", "mail"),
]:
    tools.register(name, print, description=text, input_schema=room, group=group)
"""


@pytest.mark.spec("EVA-1", "EVA-4")
def test_a_model_from_a_package_chooses_for_suggested_tasks(
    models: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "house.py").write_text(HOUSE, encoding="utf-8")
    with served() as (address, name):
        given = ("house.py:tools", "--suggest", "--model", name, "--base-url", address)
        done = invoke("evaluate", *given, "-o", "choices.jsonl")
    assert done.exit_code == 0, done.output
    assert "the requests are sentences of descriptions" in done.stdout  # it writes none
    chosen = [one for one in read_lines(Path("choices.jsonl"), Choice) if one.way == "everything"]
    assert len(chosen) == 3
    assert {one.player for one in chosen} == {name}
    assert any(one.right for one in chosen)


def test_the_page_has_the_table_of_the_figures_of_models() -> None:
    text = figures.PAGE.read_text(encoding="utf-8")
    assert figures.page(text, figures.kept()) == text


def test_a_request_counts_in_the_figures_once_a_model_was_asked_in_all_ways(tmp_path: Path) -> None:
    def choice(task: str, way: Way) -> str:
        versions, right = {"toolfold": "0"}, (task, way) == ("whole", "search")
        one = Choice(
            task=task, number=0, size=20, way=way, player="m-1", seed=0, tasks="t", versions=versions, right=right
        )
        return one.model_dump_json() + "\n"

    asked: list[tuple[str, Way]] = [*(("whole", way) for way in WAYS), ("ended", "everything"), ("ended", "search")]
    (tmp_path / "m-choices.jsonl").write_text("".join(choice(*one) for one in asked), encoding="utf-8")
    found = figures.measured(tmp_path)
    assert {one["arm"]: (one["of"], one["right"]) for one in found} == {way: (1, way == "search") for way in WAYS}


def test_without_the_extra_there_is_help_and_one_line_that_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    monkeypatch.delitem(sys.modules, "toolfold_adapters.evaluation.models", raising=False)
    for given, status in (
        ("--help", 0),
        ("--minutes=1", "'pydantic_ai' is not installed. Install it with: pip install \"toolfold[evaluate]\""),
    ):
        monkeypatch.setattr(sys, "argv", ["models", given])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("tests.external.models", run_name="__main__")
        assert ended.value.code == status
    assert "what models from packages choose and do" in capsys.readouterr().out.casefold()
