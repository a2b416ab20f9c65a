"""What a large server costs the others: the work on its definitions is done beside the loop."""

from __future__ import annotations

from inspect import getclosurevars
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from tests.adapters.gateway.inprocess import SECONDS, House, config_of, gateway_of
from tests.adapters.gateway.inprocess import opened as house_opened
from tests.adapters.gateway.lister import Lister, opened, tools_from
from tests.adapters.gateway.registering import homes, offering, registered
from toolfold_adapters.gateway import beside
from toolfold_adapters.gateway import gateway as gateway_module
from toolfold_adapters.gateway.gateway import MOST_WARNINGS, log_new
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.gateway.upstream import definitions
from toolfold_adapters.gateway.upstream.definitions import Definitions

pytestmark = [pytest.mark.spec("GWY-3", "SAF-1")]

MANY = beside.LARGE + 1


@pytest.fixture
def threaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the functions that ran in a thread; each lets the loop turn first."""
    names: list[str] = []
    run = anyio.to_thread.run_sync

    async def noted(function: Any, *arguments: Any) -> Any:
        work = getclosurevars(function).nonlocals.get("work")
        names.append(function.__name__ if work is None else work.func.__name__)
        return await run(function, *arguments)

    monkeypatch.setattr(anyio.to_thread, "run_sync", noted)
    return names


def large(text: str, count: int = MANY) -> Definitions:
    return offering(
        *({"name": f"get_{at}", "description": text, "inputSchema": {"type": "object"}} for at in range(count))
    )


async def test_what_a_large_server_offers_is_prepared_in_threads_and_a_small_one_at_once(threaded: list[str]) -> None:
    registration, tools, _ = registered({"s": offering("a"), "t": offering("x")})
    await registration.replace("t", offering("y"))
    assert threaded == []
    report = await registration.replace("s", large("Old"))
    assert threaded == ["usable", "_learn", "_wanted", "_made", "_report"]
    assert len(report.tools) == MANY + 1
    assert set(homes(tools).values()) == {"s", "t"}


async def test_what_a_server_lists_is_read_and_registered_in_threads_too(threaded: list[str]) -> None:
    async with opened(Lister({"tools/list": lambda _: {"tools": tools_from(0, MANY)}})) as (gateway, _):
        assert len(gateway.report.tools) == MANY
    assert threaded == ["fitting", "learn", "_review", "_approved_name", "write", "register_tools"]


KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tool": ("tools/list", "tools", {"inputSchema": {"type": "object"}}),
    "prompt": ("prompts/list", "prompts", {}),
    "resource": ("resources/list", "resources", {"uri": "x://{}"}),
    "resource_template": ("resources/templates/list", "resourceTemplates", {"uriTemplate": "x://{}/{{page}}"}),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_definitions_of_any_kind_are_read_and_registered_in_threads_where_they_are_few_but_large(
    kind: str, threaded: list[str]
) -> None:
    method, key, more = KINDS[kind]

    def answer(_: Any) -> dict[str, Any]:
        return {
            key: [
                {
                    "name": f"one{n}",
                    "description": "x" * 90_000,
                    **{k: v.format(n) if k[:3] == "uri" else v for k, v in more.items()},
                }
                for n in range(3)
            ]
        }

    async with opened(Lister({method: answer})) as (gateway, _):
        assert len(gateway.tools.catalog.components[kind].by_name) >= 3  # type: ignore[index]
    expected = ["_parse_all", "_allowed", "fitting", "learn", "_review", "_approved_name", "write", "register_tools"]
    assert threaded == [one for one in expected if one != "learn" or kind == "tool"]


@pytest.mark.parametrize(
    ("lists", "size"),
    [
        ([[]], 0),
        ([[{"name": "a"}] * 3, [{"name": "b"}]], 4),
        ([[{"name": "x" * 50_000}]], 50),
        ([[{"name": ["x" * 100_000] * 3}]], MANY),
        ([[{"name": [[1] * 10_000] * 3}]], MANY),
        ([[{"x" * 210_000: None}]], MANY),
        ([[{}] * (MANY * 2)], MANY * 2),
    ],
)
def test_how_much_work_definitions_are_is_their_number_or_what_is_in_them(lists: list[list[Any]], size: int) -> None:
    measured = beside.size_of(*lists)
    assert measured == size if size < MANY else measured >= MANY


async def test_others_get_a_turn_between_a_change_and_the_catalog_that_is_made_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registration, *_ = registered({"s": offering("a")})
    turns = 0
    seen: dict[str, int] = {}

    def noting(name: str) -> None:
        function = getattr(registration, name)

        def noted(*arguments: Any) -> Any:
            seen[name] = turns
            return function(*arguments)

        monkeypatch.setattr(registration, name, noted)

    noting("_change")
    noting("_report")
    async with anyio.create_task_group() as tasks:

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(turn)
        await registration.replace("s", offering("b"))
        tasks.cancel_scope.cancel()
    assert seen["_report"] > seen["_change"]


async def test_what_becomes_known_while_a_gateway_registers_the_rest_is_registered_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house, config, cache = House(), config_of("a", "b"), DefinitionCache(tmp_path)
    async with house_opened(house, config_of("a"), cache=cache):
        pass
    gateway = gateway_of(house, config, cache=cache)

    async def meanwhile(size: int, function: Any, *arguments: Any) -> Any:
        result = function(*arguments)
        while gateway.upstreams["b"].known is None:
            await anyio.lowlevel.checkpoint()
        return result

    monkeypatch.setattr(gateway_module, "beside", meanwhile)
    async with gateway as tools:
        with anyio.fail_after(SECONDS):
            while "b" not in gateway.report.servers.values():
                await anyio.lowlevel.checkpoint()
        assert "b" in tools.catalog.index


def wide(properties: int) -> dict[str, Any]:
    return {"type": "object", "properties": {f"property_{at}": {"type": "string"} for at in range(properties)}}


async def test_a_few_definitions_that_are_large_are_prepared_in_threads_too(threaded: list[str]) -> None:
    registration, tools, _ = registered({"s": offering("a")})
    schema = wide(100)
    await registration.replace("s", offering(*({"name": f"t{at}", "inputSchema": schema} for at in range(100))))
    assert threaded == ["usable", "_learn", "_wanted", "_made", "_report"]
    assert len(tools.catalog.tools) > 100


@pytest.mark.parametrize("where", ["inputSchema", "outputSchema", "_meta"])
async def test_a_definition_that_is_too_large_is_left_out_before_any_work_on_it(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[Any] = []

    def noted(one: Any) -> Any:
        worked.append(one["name"])
        return one, ()

    monkeypatch.setattr(definitions, "repaired", noted)
    registration, tools, _ = registered({"s": offering("x")})
    bomb = {"name": "bomb", "inputSchema": {"type": "object"}} | {where: wide(100_000)}
    report = await registration.replace("s", offering(bomb, "a"))
    assert worked == ["x", "a"]
    assert any(f"'bomb' is left out: its {where} has" in warning for warning in report.warnings)
    assert "s__a" in tools.catalog.tools


async def test_while_a_large_list_is_prepared_calls_go_on_and_then_all_of_it_is_there_at_once(
    threaded: list[str],
) -> None:
    registration, tools, _ = registered({"s": large("Old"), "t": offering("x")})
    seen: set[str] = set()
    answers: list[str] = []
    before = 0
    async with tools.open_session(active=["s", "t"]) as session, anyio.create_task_group() as tasks:

        async def call() -> None:
            while True:
                answers.append((await session.call("t__x")).text)
                texts = {one.description for one in tools.catalog.tools.values() if one.group == "s"}
                assert len(texts) == 1
                seen.update(texts)
                await anyio.lowlevel.checkpoint()

        tasks.start_soon(call)
        await registration.replace("s", large("New"))
        before = len(answers)
        tasks.cancel_scope.cancel()
    assert before > 0
    assert seen <= {"Old", "New"}
    assert {one.description for one in tools.catalog.tools.values() if one.group == "s"} == {"New"}


async def test_what_ends_in_between_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    registration, tools, _ = registered({"s": offering("a"), "t": offering("x")})
    before = tools.catalog

    async def cut(*_: object) -> None:
        raise anyio.get_cancelled_exc_class()

    monkeypatch.setattr(anyio.to_thread, "run_sync", cut)
    with pytest.raises(anyio.get_cancelled_exc_class()):
        await registration.replace("s", large("New"))
    assert tools.catalog is before
    monkeypatch.undo()
    await registration.replace("s", large("New"))
    assert len(homes(tools)) == MANY + 1


@pytest.mark.parametrize("count", [2, 200])
def test_warnings_of_one_change_are_logged_up_to_a_number(count: int, caplog: pytest.LogCaptureFixture) -> None:
    log_new((), tuple(f"Wrong: {at}" for at in range(count)))
    assert len(caplog.messages) == min(count, MOST_WARNINGS + 1)
    assert caplog.messages[-1] == ("Wrong: 1" if count == 2 else "and 100 more such warnings")
