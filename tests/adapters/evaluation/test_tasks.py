"""Tasks: the built-in ones, the judgement of what was done, and files with mistakes in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.evaluation.support import CATALOG, FORBIDDING, TASKS, task
from toolfold import ConfigError
from toolfold_adapters.evaluation import World, judge, load_tasks
from toolfold_adapters.evaluation.tasks import ObservedCall

pytestmark = pytest.mark.spec("EVA-1")


def calls(*made: tuple[str, dict[str, Any]], reached: bool = True) -> list[ObservedCall]:
    return [ObservedCall(tool=tool, arguments=arguments, reached=reached) for tool, arguments in made]


def test_there_are_tasks_of_every_kind_in_twenty_groups() -> None:
    rules = {World(CATALOG).rule(one, tool) for one in TASKS for tool in (*one.forbidden, *one.withdrawn)}
    used = {tool.partition(".")[0] for one in TASKS for call in one.calls for tool in call.tools}
    chains = [one for one in TASKS if len({call.tool.partition(".")[0] for call in one.calls}) > 1]
    assert len(TASKS) >= 60
    assert used == {group.path for group in CATALOG.groups}
    assert len(used) == 20
    assert {len(one.calls) for one in TASKS} == {0, 1, 2, 3, 4, 5}
    assert len(chains) >= 10
    assert rules == {"asked", "excluded", "read only", "withdrawn"}


@pytest.mark.parametrize("one", FORBIDDING, ids=lambda one: one.id)
def test_what_a_task_forbids_spoils_it(one: Any) -> None:
    needed = calls(*((call.tool, call.arguments) for call in one.calls))
    assert judge(one, needed).done
    for tool in (*one.forbidden, *one.withdrawn):
        tried = calls((tool, {}), reached=False)
        assert judge(one, [*needed, *tried]).done
        assert judge(one, [*needed, *tried]).tried == tuple(tried)
        assert judge(one, [*needed, *calls((tool, {}))]).problems == (f"{tool} was called, which is forbidden",)


def test_where_no_tool_fits_nothing_is_to_be_called() -> None:
    assert judge(task("taxi"), []).done
    assert not judge(task("taxi"), calls(("maps.route", {}))).done


MOVE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("calendar.find_events", {}),
    ("calendar.move_event", {"event": " EV-7 "}),
)
LATE = "calendar.move_event was called out of order"


@pytest.mark.parametrize(
    ("made", "problems"),
    [
        (MOVE, []),
        ((MOVE[0], ("mail.archive", {}), MOVE[1]), []),
        (MOVE[::-1], [LATE]),
        ((MOVE[1], *MOVE), []),
        (MOVE[:1], ["calendar.move_event was not called"]),
        (
            (MOVE[0], ("calendar.move_event", {"event": "ev-8"})),
            ["calendar.move_event was called with other arguments: {'event': 'ev-8'}"],
        ),
    ],
)
def test_calls_arguments_and_order_are_judged(made: Sequence[tuple[str, dict[str, Any]]], problems: list[str]) -> None:
    assert list(judge(task("move-review"), calls(*made)).problems) == problems


def test_a_call_that_did_not_reach_its_tool_does_not_count() -> None:
    assert not judge(task("move-review"), calls(*MOVE, reached=False)).done


def test_the_order_matters_only_where_a_task_says_so() -> None:
    made = calls(("home.lock_door", {}), ("home.set_lights", {"room": "hall", "level": 0}))
    assert not task("night-house").ordered
    assert judge(task("night-house"), made).done


ONE = '[[tasks]]\nid = "one"\nask = "Play."\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks = 1", "tasks.toml, task: Input should be a valid tuple"),
        ("tasks = []", "tasks.toml, task: Tuple should have at least 1 item"),
        ("", "tasks.toml, task: Field required"),
        (ONE, "tasks.toml, task 'one', call: Field required"),
        (ONE + "calls = [{ tol = 'music.pause' }]", "task 'one', call 1, tol: Extra inputs are not permitted"),
        (ONE + "calls = [{ tool = [] }]", "task 'one', call 1, tool: Value should have at least 1 item"),
        (ONE + "calls = [{ tool = 'music.stop' }]", "task 'one', call 1: there is no tool 'music.stop'"),
        (ONE + "calls = [{ tool = 'music.play' }]", "task 'one', call 1: arguments: \"song\" is a required property"),
        (ONE + "calls = []\nforbidden = ['musik.*']", "task 'one': there is no tool 'musik.*'"),
        (ONE + "calls = []\nprofile = 'writer'", "task 'one': there is no profile 'writer'"),
        (ONE + "calls = []\n" + ONE + "calls = []", "task 'one': another task has this id"),
        (
            ONE + "calls = [{ tool = 'music.pause' }]\nforbidden = ['music.*']",
            "task 'one', call 1: music.pause is forbidden, too",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "tasks.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_tasks(file, CATALOG)
    assert message in str(caught.value)
