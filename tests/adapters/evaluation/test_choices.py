"""Forced choice: what a model names, always beside what a search finds first without one."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.adapters.evaluation import endpoint
from tests.adapters.evaluation.endpoint import Answer, Behaviour, Sent, model_at, read_of, said
from tests.adapters.evaluation.support import CATALOG, TASKS
from tests.cli.support import invoke
from toolfold import ConfigError
from toolfold_adapters.evaluation import World, choices
from toolfold_adapters.evaluation.choosing import wilson
from toolfold_adapters.evaluation.models import Settings, chooser_of

pytestmark = pytest.mark.spec("EVA-1", "EVA-2")

FEW = TASKS[:3]
ASKED = sum(len(task.calls) for task in FEW)


def names_of(sent: Sent) -> list[str]:
    """The names that an answer may have."""
    schema = sent["response_format"]["json_schema"]["schema"]
    return list(schema["properties"]["name"]["enum"])


def naming(place: int, seen: list[Sent] | None = None) -> Behaviour:
    """A model that always names what stands at one place."""

    async def answer(sent: Sent) -> Answer:
        if seen is not None:
            seen.append(sent)
        return said(json.dumps({"name": names_of(sent)[place]}), read_of(sent))

    return answer


async def knowing(sent: Sent) -> Answer:
    """A model that names what is needed."""
    needed = {tool for task in FEW for call in task.calls for tool in call.tools}
    groups = {tool.rpartition(".")[0] for tool in needed}
    request = str(sent["messages"][-1]["content"]).rpartition("Request: ")[2]
    own = [call for task in FEW for call in task.calls if (call.query or task.ask) == request]
    wanted = {*own[0].tools, *(tool.rpartition(".")[0] for tool in own[0].tools)}
    (name,) = [name for name in names_of(sent) if name in wanted and name in needed | groups] or ["none"]
    return said(json.dumps({"name": name}), read_of(sent))


async def result(behaviour: Behaviour, **asked: Any) -> dict[str, tuple[int, int, int]]:
    chooser = chooser_of(model_at(behaviour), 0, Settings(**asked))
    found = await choices(World(CATALOG), FEW, 50, chooser)
    return {one.way: (one.right, one.asked, one.silent) for one in found}


async def test_a_model_that_knows_is_right_wherever_the_tool_is_offered() -> None:
    found = await result(knowing)
    assert found["everything"] == found["groups"] == (ASKED, ASKED, 0)
    assert found["first found, no model"][0] <= found["found"][0] <= ASKED


async def test_what_is_chosen_from_is_shuffled_in_the_same_way_for_a_seed() -> None:
    seen: list[Sent] = []
    await result(naming(0, seen))
    orders = [names_of(sent) for sent in seen if len(names_of(sent)) == 50]
    assert len(orders) == ASKED
    assert any(names != sorted(names) for names in orders)
    again: list[Sent] = []
    await result(naming(0, again))
    assert [names_of(sent) for sent in again] == [names_of(sent) for sent in seen]


@pytest.mark.parametrize(
    ("behaviour", "asked"),
    [
        (endpoint.overflowing(10), {}),
        (endpoint.slow, {"timeout": 0.01}),
        (endpoint.failing, {}),
        (endpoint.answering(endpoint.without_choices()), {}),
    ],
)
async def test_a_request_that_goes_wrong_is_not_right_and_counted(behaviour: Behaviour, asked: dict[str, Any]) -> None:
    found = await result(behaviour, **asked)
    assert found["everything"] == (0, ASKED, ASKED)


async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    with pytest.raises(ConfigError, match="The model 'mine' can't be used: "):
        await result(endpoint.down)


async def test_without_a_model_there_is_the_search_alone() -> None:
    (row,) = await choices(World(CATALOG), FEW, None, None)
    assert (row.way, row.asked) == ("first found, no model", ASKED)
    assert row.right > 0


def test_intervals_are_those_of_wilson() -> None:
    low, high = wilson(51, 113)
    assert (round(low, 3), round(high, 3)) == (0.363, 0.543)
    assert wilson(0, 10)[0] == 0.0
    assert wilson(10, 10)[1] == 1.0
    assert wilson(0, 0) == (0.0, 1.0)


def test_the_command_prints_the_search_without_a_model() -> None:
    done = invoke("evaluate", "--choices", "--size", "50", "--sample", "3")
    assert done.exit_code == 0
    assert re.search(r"^first found, no model +50 +\d+/\d+ +\d+ % +\d+–\d+ +0$", done.stdout, re.MULTILINE)
