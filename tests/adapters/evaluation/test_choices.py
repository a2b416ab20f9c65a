"""Forced choice: what a model names, always beside what a search finds first without one."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.adapters.evaluation import endpoint
from tests.adapters.evaluation.endpoint import Answer, Behaviour, Sent, model_at, read_of, said
from tests.adapters.evaluation.support import CATALOG, TASKS
from tests.cli.support import invoke
from toolfold import ConfigError, ToolSet
from toolfold_adapters.evaluation import Choice, Plan, Task, World, choices, choose, suggested
from toolfold_adapters.evaluation.choosing import Chooser, wilson
from toolfold_adapters.evaluation.models import Settings, chooser_of
from toolfold_adapters.evaluation.tasks import Expected

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


async def made(chooser: Chooser | None, size: int | None = 50, before: Sequence[Choice] = ()) -> list[Choice]:
    """The choices for a few tasks."""
    plan = Plan(world=World(CATALOG), tasks=FEW, players=(), sizes=(size,))
    return [one async for one in choose(plan, chooser, before=before)]


async def result(behaviour: Behaviour, **asked: Any) -> dict[str, tuple[int, int, int]]:
    chooser = chooser_of(model_at(behaviour), 0, Settings(**asked))
    return {one.way: (one.right, one.asked, one.silent) for one in choices(await made(chooser))}


async def test_a_model_that_knows_is_right_wherever_the_tool_is_offered() -> None:
    found = await result(knowing)
    assert found["everything"] == found["groups"] == found["groups: the group"] == (ASKED, ASKED, 0)
    assert found["first found, no model"][0] <= found["search"][0] <= found["groups+search"][0] <= ASKED


async def test_a_group_is_chosen_first_and_then_one_of_its_tools() -> None:
    asked: list[list[str]] = []

    async def wrong_in_the_right_group(request: str, offered: Mapping[str, str]) -> str | None:
        asked.append(sorted(offered))
        needed = {tool for task in FEW for call in task.calls for tool in call.tools}
        right = {name for name in offered if name in {tool.rpartition(".")[0] for tool in needed}}
        return sorted(right)[0] if right else None

    found = {one.way: one for one in await made(wrong_in_the_right_group) if one.task == FEW[0].id}
    group, tools = next(pair for pair in itertools.pairwise(asked) if "." not in pair[0][0])
    assert {name.rpartition(".")[0] for name in tools} <= set(group)
    assert found["groups"].named[1] is None
    assert (found["groups"].right, found["groups"].right_group) == (False, found["groups"].named[0] in group)
    assert found["groups"].offered == len(group) + len(tools)
    assert 0 < found["groups"].tokens < found["everything"].tokens


async def test_where_a_search_opens_a_group_all_its_tools_can_be_chosen() -> None:
    seen: dict[str, list[str]] = {}

    async def first(request: str, offered: Mapping[str, str]) -> str | None:
        seen.setdefault(request, sorted(offered))
        return next(iter(offered))

    tools = ToolSet("desk")
    tools.register_group("mail", "Mail")
    tools.register_group("calendar", "Dates")
    for name, text, group in [
        ("send", "Send a letter to people", "mail"),
        ("archive", "Keep what was read", "mail"),
        ("book", "Book a room", "calendar"),
    ]:
        tools.register(name, print, description=text, input_schema={"type": "object"}, group=group)
    call = Expected.model_validate({"tool": "mail.archive", "query": "letter to people"})
    plan = Plan(world=World(tools.catalog), tasks=[Task(id="a", ask="Archive it", calls=(call,))], players=())
    found = {one.way: one async for one in choose(plan, first)}
    assert found["groups+search"].offered == 2
    assert found["search"].offered == 1
    assert (found["search"].named, found["search"].right) == (("mail.send",), False)


async def test_choices_go_on_where_they_were_ended() -> None:
    async def none(request: str, offered: Mapping[str, str]) -> str | None:
        raise AssertionError("it was asked already")

    whole = await made(chooser_of(model_at(naming(0)), 0))
    assert [Choice.model_validate_json(one.model_dump_json()) for one in whole] == whole
    assert await made(none, before=whole) == whole
    with pytest.raises(AssertionError, match="asked already"):
        await made(none, before=whole[:-3])


async def test_tools_without_groups_are_not_chosen_from() -> None:
    tools = ToolSet("flat")
    tools.register("send", print, description="Send.", input_schema={"type": "object"})
    plan = Plan(world=World(tools.catalog), tasks=suggested(tools.catalog).tasks, players=())
    with pytest.raises(ConfigError, match="These tools are in no groups"):
        [_ async for _ in choose(plan)]


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
    ("behaviour", "asked", "why", "text"),
    [
        (endpoint.overflowing(10), {}, "context", "HTTP 400: the request exceeds the available context size"),
        (endpoint.slow, {"timeout": 0.01}, "time", "it was not done after 0.01 seconds"),
        (endpoint.failing, {}, "error", "HTTP 500: the slot is gone"),
        (endpoint.answering(endpoint.without_choices()), {}, "error", "a malformed answer"),
    ],
)
async def test_a_request_that_goes_wrong_is_not_right_and_its_record_says_why(
    behaviour: Behaviour, asked: dict[str, Any], why: str, text: str
) -> None:
    several = await made(chooser_of(model_at(behaviour), 0, Settings(**asked)))
    rows = {one.way: one for one in choices(several)}
    for way in ("everything", "search", "groups", "groups+search"):
        row = rows[way]
        assert (row.right, row.asked, row.silent, row.stopped) == (0, ASKED, ASKED, {why: ASKED})
        assert row.remark == f"{way}, 50 tools: stopped early: {ASKED} {why}"
    assert all(one.problem.startswith(f"the model stopped ({why}): {text}") for one in several if one.why)
    assert not any(one.answered for one in several)


async def test_a_model_is_also_asked_where_one_name_alone_is_offered() -> None:
    """Otherwise it would be right without an answer; where nothing is offered there is nothing to ask."""

    async def none(request: str, offered: Mapping[str, str]) -> str | None:
        asked.append([*offered])
        return None

    asked: list[list[str]] = []
    tools = ToolSet("desk")
    tools.register_group("mail", "Mail")
    tools.register("send", print, description="Send a letter", input_schema={"type": "object"}, group="mail")
    calls = [Expected.model_validate({"tool": "mail.send", "query": query}) for query in ("a letter", "zebra")]
    plan = Plan(world=World(tools.catalog), tasks=[Task(id="a", ask="Send", calls=tuple(calls))], players=())
    found = [one async for one in choose(plan, none)]
    assert asked == [["mail.send"], ["mail.send"], ["mail"], ["mail.send"], ["mail.send"], ["mail"], ["mail"]]
    by_model = [one for one in found if one.way != "first found, no model"]
    assert [(one.offered, one.right, one.answered) for one in by_model if one.number == 0] == [(1, False, True)] * 4
    (empty,) = [one for one in by_model if one.offered == 0]
    assert (empty.way, empty.named, empty.answered) == ("search", ("",), False)


async def test_an_endpoint_that_is_down_ends_the_run() -> None:
    with pytest.raises(ConfigError, match="The model 'mine' can't be used: "):
        await result(endpoint.down)


async def test_without_a_model_there_is_the_search_alone() -> None:
    (row,) = choices(await made(None, None))
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
    assert re.search(r"^first found, no model +50 +\d+/\d+ +\d+ % +\d+–\d+ +0 +–$", done.stdout, re.MULTILINE)
