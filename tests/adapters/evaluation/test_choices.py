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
from toolfold_adapters.evaluation import World, choices, models
from toolfold_adapters.evaluation.choosing import wilson
from toolfold_adapters.evaluation.models import Settings, chooser_of
from toolfold_adapters.evaluation.runs import UNREACHABLE

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
    return {one.way: (one.right, one.asked, len(one.silences)) for one in found}


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


async def naming_none(sent: Sent) -> Answer:
    return said(json.dumps({"name": "none of these"}), read_of(sent))


@pytest.mark.parametrize(
    ("behaviour", "asked", "why", "words"),
    [
        (endpoint.overflowing(10), {}, "context", "HTTP 400: the request exceeds the available context size"),
        (naming(0), {"context": 10}, "context", "tokens do not fit in 10"),
        (endpoint.slow, {"timeout": 0.01}, "time", "there was no answer after 0.01 seconds"),
        (endpoint.failing, {}, "error", "HTTP 500: the slot is gone"),
        (endpoint.malformed, {}, "error", "validation errors for ChatCompletion: id: "),
        (endpoint.right(then="The first."), {}, "malformed", "has none of the names"),
        (naming_none, {}, "malformed", "has none of the names"),
    ],
)
def test_a_request_that_goes_wrong_is_not_right_and_the_reason_is_printed(
    behaviour: Behaviour, asked: dict[str, Any], why: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "model_of", lambda *_: model_at(behaviour))
    options = [word for name, value in asked.items() for word in (f"--{name}", str(value))]
    done = invoke("evaluate", "--choices", "--size", "50", "--sample", "1", "--model", "mine", *options)
    assert done.exit_code == 0, done.output
    lines = [line for line in done.stdout.splitlines() if line.startswith("  everything, 50 tools: ")]
    assert len(lines) == 1
    assert re.match(rf"  everything, 50 tools: \d silent \({why}\): .*{re.escape(words)}", lines[0])


async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    with pytest.raises(ConfigError, match="The model 'mine' can't be used: "):
        await result(endpoint.down)


async def test_an_endpoint_that_goes_down_ends_the_run_after_some_requests() -> None:
    asked: list[Sent] = []

    async def answer(sent: Sent) -> Answer:
        asked.append(sent)
        return await (naming(0) if len(asked) == 1 else endpoint.down)(sent)

    with pytest.raises(ConfigError, match="The model 'mine' can't be used: "):
        await result(answer)
    assert len(asked) == 1 + UNREACHABLE


@pytest.mark.parametrize(
    "options", [("-o", "runs.jsonl"), ("--report", "page.html"), ("--require", "9"), ("--arm", "code")]
)
def test_what_is_for_played_tasks_is_refused(options: tuple[str, str]) -> None:
    done = invoke("evaluate", "--choices", *options)
    assert done.exit_code == 2
    assert "is for tasks that are played: --choices plays none." in done.stderr


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
