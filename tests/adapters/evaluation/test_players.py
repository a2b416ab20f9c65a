"""Scripted players: what each of them can and can't do, and what it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from tests.adapters.evaluation.support import CATALOG, FORBIDDING, TASKS, played, task
from toolfold import ConfigError, ToolError
from toolfold_adapters.evaluation import HOSTS, SCRIPTS, World, judge
from toolfold_adapters.evaluation.links import ToolAnswer
from toolfold_adapters.evaluation.players import Scripted, is_described
from toolfold_adapters.evaluation.surfaces import Offers
from toolfold_adapters.evaluation.tasks import ObservedCall
from toolfold_adapters.evaluation.world import Simulation
from toolfold_adapters.hosts import HostView
from toolfold_adapters.search import meaning

pytestmark = pytest.mark.spec("EVA-2")
SOME = ("weather-now", "move-review", "mail-person", "release", "taxi")


async def done(player: str, arm: str, size: int = 100) -> set[str]:
    return {record.task for record in await played(*SOME, player=player, arm=arm, size=size) if record.done}


@pytest.mark.parametrize("player", [name for name in SCRIPTS if name not in ("reckless", "task-words")])
async def test_where_everything_is_listed_nothing_is_lost(player: str) -> None:
    assert await done(player, "everything") == set(SOME)


@pytest.mark.parametrize("arm", ["search", "groups", "groups+search"])
async def test_one_that_forgets_handles_calls_nothing_that_was_opened(arm: str) -> None:
    assert await done("forgets-handles", arm) == {"taxi"}


async def test_one_that_forgets_handles_needs_none_in_a_conversation() -> None:
    assert await done("forgets-handles", "native") == set(SOME)


@pytest.mark.parametrize("player", ["asks-for-server", "calls-first"])
@pytest.mark.parametrize("arm", ["search", "groups", "groups+search", "native", "native-openai"])
async def test_a_name_or_a_refusal_is_enough_to_go_by(player: str, arm: str) -> None:
    assert await done(player, arm) == set(SOME)


@pytest.mark.spec("EVA-1", "COD-1")
async def test_programs_make_the_calls_of_a_task_in_three_requests_and_reach_what_they_may() -> None:
    assert await done("perfect", "code") == await done("calls-first", "code") == set(SOME)
    (several,) = await played("move-review", arm="code")
    (one_by_one,) = await played("move-review", arm="groups+search")
    assert (several.requests, one_by_one.requests) == (3, 5)
    assert several.input_tokens < one_by_one.input_tokens
    reckless = await played(*FORBIDDING, player="reckless", arm="code")
    assert {why for record in reckless for why in record.tried} == {"asked", "excluded", "read only", "withdrawn"}
    assert {why for record in reckless for why in record.reached} == {"asked"}


async def test_one_that_never_opens_first_is_refused_first() -> None:
    (first,) = await played("weather-now", player="calls-first", arm="groups")
    assert [name for name, _ in first.transcript] == ["call_tool", "open_group", "call_tool"]


async def test_a_group_is_not_opened_again_for_a_tool_that_answers_with_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(simulation: Simulation, tool: str) -> Any:
        async def handle(arguments: dict[str, Any]) -> None:
            simulation.made.append(ObservedCall(tool=tool, arguments=arguments, reached=True))
            raise ToolError("There is no such place.")

        return handle

    monkeypatch.setattr(Simulation, "handler", failing)
    async with Offers(World(CATALOG)).surface("groups", task("weather-now"), 20, "everything") as surface:
        await Scripted(surface, SCRIPTS["perfect"]).play()
        assert [name for name, _ in surface.recorded] == ["open_group", "call_tool"]


async def test_one_that_believes_a_search_loses_what_is_not_found_and_calls_nothing_where_none_fits() -> None:
    records = await played(player="task-words")
    lost = {record.task for record in records if not record.done}
    assert lost, "five tools that fit all the words of a long request are not those of its steps"
    assert lost.isdisjoint({"taxi", "blood", "stocks", "lottery", "print", "pizza"})
    assert len(lost) < len(TASKS) / 2


@pytest.mark.spec("EVA-1", "FND-6")
async def test_a_run_ranks_by_meaning_where_that_is_asked_for_and_its_records_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(ConfigError, match="needs a model"):
        await played("taxi", search="embeddings")
    pytest.importorskip("numpy")
    asked: list[str] = []

    def encode(texts: Sequence[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[float("taxi" in text), 1.0] for text in texts]

    model = meaning.Model(name="taxis", encode=encode, above=0.0, weight=1.0, usual=0.0, expected=0.0, telling=1.0)
    monkeypatch.setattr(meaning, "installed_models", lambda: (model,))
    (words,) = await played("taxi", player="task-words")
    (record,) = await played("taxi", player="task-words", search="embeddings")
    assert (record.options, words.options) == ({"search": "embeddings"}, {})
    assert task("taxi").ask in asked


@pytest.mark.parametrize("host", [host for host in HOSTS if host != "everything"])
async def test_with_a_search_no_host_loses_a_task(host: str) -> None:
    assert await done(host, "groups+search") == set(SOME)


async def read_by(arm: str, characters: int) -> tuple[bool, list[tuple[str, Mapping[str, Any]]]]:
    """Whether a task gets done where results are cut to so many characters, and the calls through `call_tool`."""
    async with Offers(World(CATALOG)).surface(arm, task("air"), 20, "cline") as surface:
        surface.host = HostView(results=characters, ends=(characters, 0))
        await Scripted(surface, SCRIPTS["perfect"]).play()
        calls = [(name, given) for name, given in surface.recorded if name == "call_tool"]
        return judge(surface.task, surface.calls).done, calls


async def test_an_argument_that_no_schema_showed_is_not_given() -> None:
    whole, cut = await read_by("groups", 8_000), await read_by("groups", 60)
    assert whole == (True, [("call_tool", {"name": "weather__air_quality", "arguments": {"place": "Milan"}})])
    assert cut[0] is False
    assert cut[1][0] == ("call_tool", {"name": "weather__air_quality", "arguments": {}})


async def test_a_schema_is_read_in_a_refusal_if_that_is_passed_on() -> None:
    done, calls = await read_by("groups", 150)
    assert done
    assert [given["arguments"] for _, given in calls] == [{}, {"place": "Milan"}]


def test_parameters_are_read_of_schemas_signatures_and_refusals_of_the_tool_itself() -> None:
    texts = {
        '- a__b: Does it\n  {"properties":{"one":{}}}': {"one"},
        "- a__b(one: str, two?: [str]): Does it (three, three: it)": {"one", "two"},
        "- a__b(one: {of: str}, two, and 3 more)": {"one", "two"},
        "- a__b: one, two\n- a__c\n  {'properties': {\"two\": {}}}": set[str](),
        'Invalid arguments for a__b: arguments: "one" is a required property.\n{"properties":{"two":{}}}': {
            "one",
            "two",
        },
        'Invalid arguments for a__bc: "one" is required.': set[str](),
    }
    for text, expected in texts.items():
        assert {name for name in ("one", "two", "three") if is_described(name, "a__b", [text])} == expected, text


@pytest.mark.parametrize("host", ["codex", "qwen", "copilot", "cline"])
async def test_without_a_search_no_host_loses_a_task_while_the_directory_fits(host: str) -> None:
    assert await done(host, "groups") == set(SOME)


@pytest.mark.parametrize("characters", [0, 40, 247])
async def test_a_host_that_cuts_the_directory_loses_no_task_since_the_schema_names_groups(characters: int) -> None:
    async with Offers(World(CATALOG)).surface("groups", task("weather-now"), 20, "codex") as surface:
        surface.host = evolve(surface.host, instructions=characters)
        await Scripted(surface, SCRIPTS["perfect"]).play()
        assert judge(surface.task, surface.calls).done


async def shown(host: str) -> tuple[int, int, set[str]]:
    """How much a host shows of instructions and a description of 9,000 characters; what a group adds to its list."""
    async with Offers(World(CATALOG)).surface("groups", task("air"), 20, host) as surface:
        before = await surface.definitions()
        await surface.call("open_group", {"group": "weather"})
        added = set(await surface.definitions()) - set(before)
        surface.link = Endless()
        (one,) = (await surface.definitions()).values()
        return len(surface.instructions), len(one["description"]), added


class Endless:
    """A link to a server that says much."""

    instructions = "x" * 9_000

    async def definitions(self) -> list[dict[str, Any]]:
        return [{"name": "long", "description": "x" * 9_000, "inputSchema": {"type": "object"}}]

    def tokens(self, shown: Iterable[Mapping[str, Any]]) -> int:
        return 0

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        raise NotImplementedError


WEATHER = {f"weather__{one}" for one in ("air_quality", "current", "forecast", "history", "warnings")}


@pytest.mark.parametrize(
    ("host", "seen"),
    [
        ("everything", (9_000, 9_000, set[str]())),
        ("claude-code", (4_096, 4_096, set[str]())),
        ("claude-code-2.1.197", (2_048, 2_048, WEATHER)),
        ("codex", (247, 0, set[str]())),
        ("opencode", (9_000, 9_000, WEATHER)),
        ("qwen", (9_000, 157, set[str]())),
        ("copilot", (0, 9_000, set[str]())),
        ("cline", (0, 9_000, set[str]())),
    ],
)
async def test_a_player_sees_what_its_host_shows(host: str, seen: tuple[int, int, set[str]]) -> None:
    assert await shown(host) == seen


@pytest.mark.parametrize(
    ("host", "length", "seen"),
    [
        ("cline", 8_000, "x" * 8_000),
        ("cline", 8_001, "x" * 4_000),
        ("copilot", 30_000, "x" * 500),
        ("cn", 60_000, "x" * 60_000),
    ],
)
def test_a_long_result_is_cut_as_its_host_does(host: str, length: int, seen: str) -> None:
    assert HOSTS[host].result("x" * length).partition("\n")[0] == seen


async def test_a_script_plays_the_same_twice() -> None:
    first, second = [await played(*SOME, player="task-words") for _ in range(2)]
    assert [one.model_copy(update={"seconds": 0}) for one in first] == [
        one.model_copy(update={"seconds": 0}) for one in second
    ]
