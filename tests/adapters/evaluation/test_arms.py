"""Arms: what each of them shows, that the rules of groups hold in it, and the fillers."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.evaluation.support import CATALOG, FORBIDDING, TASKS, played, small, task
from toolfold_adapters.evaluation import ARMS, OWN, World, load_tasks
from toolfold_adapters.evaluation.links import ToolAnswer
from toolfold_adapters.evaluation.surfaces import Offers
from toolfold_adapters.evaluation.world import fillers

pytestmark = pytest.mark.spec("EVA-1")
NATIVE = ("native", "native-openai")


@pytest.mark.parametrize(
    ("arm", "shown"),
    [
        ("search", {"call_tool", "find_tools"}),
        ("groups", {"call_tool", "close_group", "open_group"}),
        ("groups+search", {"call_tool", "close_group", "find_tools", "open_group"}),
        ("native", {"close_group", "find_tools", "open_group"}),
        ("native-openai", {"close_group", "find_tools", "open_group"}),
    ],
)
async def test_an_arm_shows_its_own_tools_and_none_of_the_world(arm: str, shown: set[str]) -> None:
    async with Offers(World(CATALOG)).surface(arm, task("taxi"), 100, "everything") as surface:
        assert set(await surface.definitions()) == shown
        assert ("calendar" in surface.instructions) == ARMS[arm].directory


@pytest.mark.parametrize("size", [20, 100, 500, 1_000])
async def test_everything_is_listed_with_as_many_fillers_as_it_takes(size: int) -> None:
    async with Offers(World(CATALOG)).surface("everything", task("trip"), size, "everything") as surface:
        listed = await surface.definitions()
    assert len(listed) == size
    assert {call.tool.replace(".", "__") for call in task("trip").calls} <= listed.keys()


@pytest.mark.parametrize("arm", NATIVE)
@pytest.mark.parametrize("way", [("open_group", {"group": "weather"}), ("find_tools", {"query": "air", "open": True})])
async def test_a_tool_that_the_provider_loads_late_is_read_once_it_was_announced(arm: str, way: Any) -> None:
    async with Offers(World(CATALOG)).surface(arm, task("air"), 100, "everything") as surface:
        before = set(await surface.definitions())
        assert "weather__air_quality" in (await surface.call(*way)).text
        added = set(await surface.definitions()) - before
    assert added == {f"weather__{name}" for name in ("air_quality", "current", "forecast", "history", "warnings")}


@pytest.mark.parametrize("arm", list(ARMS))
async def test_a_perfect_chooser_does_every_task_among_a_hundred_tools(arm: str) -> None:
    """Each arm with a share of the tasks: whether one can be done is the same in all of them."""
    share = TASKS[list(ARMS).index(arm) :: len(ARMS)]
    assert [record.task for record in await played(*share, arm=arm) if not record.done] == []


async def test_openai_s_answers_are_read_as_texts_and_errors_are_known_by_what_was_done() -> None:
    async with Offers(World(CATALOG)).surface("native-openai", task("air"), 20, "everything") as surface:
        assert (await surface.call("find_tools", {"query": "zyx"})).text.startswith("No tool matches 'zyx' by words.")
        assert (await surface.call("open_group", {"group": "none"})).is_error
        assert not (await surface.call("open_group", {"group": "weather"})).is_error
        assert (await surface.call("weather__air_quality", {})).is_error
        assert await surface.call("weather__air_quality", {"place": "Milan"}) == ToolAnswer("Ozone: high")
        listed = await surface.link.definitions()
        assert surface.link.tokens([]) > 10  # the namespaces, with their descriptions
        assert surface.link.tokens(listed) > 2 * surface.link.tokens([])


@pytest.mark.parametrize("arm", ["everything", "search", "groups", "groups+search", *NATIVE])
async def test_no_rule_of_groups_is_broken_and_every_attempt_is_counted(arm: str) -> None:
    records = await played(*FORBIDDING, player="reckless", arm=arm)
    tried, reached = (
        sum((Counter(one[kind]) for one in map(dict, records)), Counter[str]()) for kind in ("tried", "reached")
    )
    assert tried["asked"] >= reached["asked"] > 0
    if arm == "everything":
        assert {rule: count for rule, count in tried.items() if rule != "withdrawn"} == reached
        assert reached["excluded"] > 0
        assert reached["read only"] > 0
    else:
        assert set(reached) == {"asked"}
    if arm not in ("everything", *NATIVE):  # which show no way to call what is not listed
        assert min(tried[rule] for rule in ("excluded", "read only", "withdrawn")) > 0


def test_fillers_are_the_same_for_the_same_seed_and_resemble_nothing_that_a_task_needs() -> None:
    names = [tool.name for tool in islice(fillers(7), 1_000)]
    assert names == [tool.name for tool in islice(fillers(7), 1_000)]
    assert names != [tool.name for tool in islice(fillers(8), 1_000)]
    assert len(set(names)) == 1_000
    assert not set(names) & CATALOG.tools.keys()


def test_what_a_task_names_is_always_among_the_tools() -> None:
    for one in TASKS:
        names = [tool.name for tool in World(CATALOG).choose(one, 20)]
        assert len(names) == 20
        assert set(one.named) <= set(names)
    assert World(CATALOG).choose(task("trip"), 20) != World(CATALOG, 1).choose(task("trip"), 20)
    assert len(World(CATALOG).choose(task("trip"), None)) == 100


async def test_the_groups_exclusions_and_profiles_are_those_of_the_catalog(tmp_path: Path) -> None:
    catalog = small(
        tmp_path,
        """
        tools = ["hours"]
        [groups.orders]
        tools = [{ name = "place" }]
        [groups."orders.returns"]
        tools = [{ name = "take", flat = true }]
        """,
    )
    file = tmp_path / "tasks.toml"
    file.write_text("[[tasks]]\nid='1'\nask='?'\ncalls=[{tool='hours'},{tool='take'},{tool='orders.place'}]")
    (only,) = load_tasks(file, catalog)
    for arm in ARMS:
        (record,) = await played(only, arm=arm, size=None, world=World(catalog))
        assert record.done, (arm, record.problems)


def test_the_built_in_files_are_beside_the_code() -> None:
    assert sorted(file.name for file in OWN.iterdir()) == ["catalog.toml", "tasks.toml"]
