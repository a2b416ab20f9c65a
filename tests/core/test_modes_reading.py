"""SPEC 13: one reading of the application state for each request; failing readings, predicates and counts."""

import logging
from typing import Any

import pytest

from tests.core.modes import OBSERVE, WHAT, Buffers, answer, enum_of, mode, modes_of, number, observing, shown, there
from tests.core.support import notifications
from toolfold import Context, Mode, ToolNotFound, ToolSet, View, Visibility, success_of
from toolfold._session.events import Event, PredicateFailed

# Failing predicates and counts


def broken(view: View) -> Any:
    raise RuntimeError("broken")


async def coroutine() -> bool:
    return True


@pytest.mark.spec("MOD-1", "VIS-4")
async def test_a_predicate_that_raises_makes_only_its_mode_unavailable_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    received: list[Event] = []
    modes = modes_of(network=Mode(available=broken), actions=Mode(available=lambda view: coroutine()))  # type: ignore[arg-type,return-value]
    tools = observing(Buffers(), modes)
    tools.observe(received.append)
    with caplog.at_level(logging.ERROR, "toolfold"):
        for _ in range(3):
            assert enum_of(tools) == ["errors"]
            assert (await tools.call_tool("observe", {"what": "network"})).is_error
    failures = [event for event in received if isinstance(event, PredicateFailed)]
    assert [(event.kind, event.name, event.mode) for event in failures] == [
        ("tool", "observe", "network"),
        ("tool", "observe", "actions"),
    ]
    assert str(failures[0].error) == "broken"
    assert ["mode 'network'" in record.getMessage() for record in caplog.records] == [True, False]


@pytest.mark.spec("MOD-1", "VIS-4")
@pytest.mark.parametrize(
    "count",
    [broken, lambda view: "3", lambda view: True, lambda view: coroutine()],
    ids=["raises", "text", "truth", "awaitable"],
)
def test_a_count_that_fails_is_left_out_and_reported_once(count: Any) -> None:
    received: list[Event] = []
    tools = observing(Buffers(), modes_of(errors=Mode(count=number("errors")), network=Mode(count=count)))
    tools.observe(received.append)
    for _ in range(3):
        assert shown(tools).definition["_meta"] == {
            "available_modes": ["errors", "network", "actions"],
            "data_counts": {"errors": 0},
        }
    assert [event.mode for event in received if isinstance(event, PredicateFailed)] == ["network"]


@pytest.mark.spec("MOD-1", "MOD-3", "VIS-4")
def test_a_failing_reading_leaves_the_modes_that_do_not_need_it() -> None:
    def state() -> Any:
        raise OSError("no page")

    tools = ToolSet("page", state=state)
    tools.register("observe", answer, input_schema=WHAT, modes=modes_of(network=mode("network")))
    assert enum_of(tools) == ["errors", "actions"]


# One reading


@pytest.fixture
def buffers() -> Buffers:
    return Buffers(network=1, actions=2)


@pytest.fixture
def tools(buffers: Buffers) -> ToolSet:
    """A tool set whose every request needs the state many times, for modes, counts and predicates."""
    tools = ToolSet("page", state=buffers.read)
    tools.register_group("inner")
    tools.register_group("gate", opens_on=success_of("observe"), transient=True)
    tools.register_group("second", opens_on=success_of("observe"))
    tools.register("observe", answer, input_schema=WHAT, modes=OBSERVE)
    for group in ("inner", "gate", "second"):
        tools.register("more", answer, group=group, input_schema=WHAT, modes=OBSERVE)
    tools.register("seen", answer, input_schema=WHAT, visibility=Visibility.when(there("network")))
    tools.register_prompt("asked", lambda: "hello", visibility=Visibility.when(there("network")))
    tools.register_resource("file:///r", lambda: "text", visibility=Visibility.when(there("network")))
    tools.register_resource_template("item:{n}", lambda values: "text", visibility=Visibility.when(there("network")))
    tools.register("plain", lambda: "done")
    tools.register_catalog_tool()

    async def work(context: Context) -> str:
        context.set_fact("worked", True)
        await context.activate("inner")
        await context.deactivate("inner")
        return "done"

    tools.register("work", work, visibility=Visibility.when(there("actions")))
    return tools


@pytest.mark.spec("MOD-3", "VIS-3", "CALL-4", "CAT-1")
@pytest.mark.parametrize(
    "request_of",
    [
        "list",
        "call",
        "catalog",
        "prompt",
        "resource",
        "template",
        "wrong mode",
        "activate",
        "activate again",
        "deactivate",
        "by code",
        "transition",
        "gate",
        "work",
        "fact",
    ],
)
async def test_the_state_is_read_exactly_once_for_each_request(
    tools: ToolSet, buffers: Buffers, request_of: str
) -> None:
    async with tools.open_session(
        active=["inner"] if request_of in ("activate again", "deactivate") else []
    ) as session:
        buffers.take()
        match request_of:
            case "list":
                assert len(session.list_tools().names) == 7
            case "call":
                assert not (await session.call("seen", {"what": "network"})).is_error
            case "catalog":
                assert len((await session.call("catalog")).structured["tools"]) == 7
            case "prompt":
                assert (await session.get_prompt("asked"))["messages"]
            case "resource":
                assert (await session.read("file:///r"))["contents"]
            case "template":
                assert (await session.read("item:5"))["contents"]
            case "wrong mode":
                assert (await session.call("observe", {"what": "nonsense"})).is_error
            case "activate":
                result = await session.call("inner.activate")
                assert result.structured["tools"] == ["inner.more"]
            case "activate again":
                assert (await session.call("inner.activate")).structured["tools"] == ["inner.more"]
            case "deactivate":
                assert (await session.call("inner.deactivate")).structured["changed"]
            case "by code":
                assert await session.activate("inner")
            case "transition":
                await session.transition(activate=["inner", "gate"])
            case "gate":
                assert not (await session.call("observe", {"what": "network"})).is_error
                assert session.active == ("gate", "second")
            case "work":
                assert (await session.call("work")).text == "done"
            case _:
                session.set_fact("name", 1)
        assert buffers.take() == 1


@pytest.mark.spec("MOD-3")
async def test_the_state_is_not_read_where_nothing_depends_on_it(tools: ToolSet, buffers: Buffers) -> None:
    async with tools.open_session() as session:
        with pytest.raises(ToolNotFound):
            await session.call("inner.more", {"what": "network"})
        assert not await session.deactivate("inner")
        assert (await session.call("plain")).text == "done"
        assert buffers.take() == 0


@pytest.mark.spec("MOD-3", "HOOK-2")
async def test_a_transition_with_hooks_uses_one_reading_though_they_change_the_state(buffers: Buffers) -> None:
    def capture() -> None:
        buffers.held["network"] = 5

    buffers.held = {}
    tools = ToolSet("page", state=buffers.read)
    tools.register_group("inner", on_activate=capture)
    tools.register("more", answer, group="inner", input_schema=WHAT, modes=OBSERVE)
    tools.register("seen", answer, input_schema=WHAT, visibility=Visibility.when(there("network")))
    async with tools.open_session() as session:
        result = await session.call("inner.activate")
        assert (result.structured["tools"], buffers.take()) == (["inner.more"], 1)
        assert session.list_tools().names == ("inner.activate", "inner.deactivate", "inner.more", "seen")


# Notifications


@pytest.mark.spec("MOD-1", "NTF-1", "NTF-3")
async def test_a_change_of_the_application_state_notifies_only_when_it_is_announced(buffers: Buffers) -> None:
    notified: list[frozenset[str]] = []
    buffers.held = {}
    tools = observing(buffers)
    async with tools.open_session() as session:
        session.on_list_changed(notified.append)
        buffers.held = {"network": 1}
        assert len(enum_of(session)) == 2
        session.set_fact("unrelated", 1)
        assert notified == []
        tools.notify_list_changed()
        assert notified == [{"tool"}]


@pytest.mark.spec("MOD-1", "MOD-2", "NTF-1")
@pytest.mark.parametrize(
    ("changing", "received"),
    [
        (Mode(available=lambda view: view.is_group_active("inner")), [{"tool"}]),
        (Mode(available=lambda view: view.is_group_active("inner"), count=lambda view: len(view.facts)), [{"tool"}]),
        (Mode(count=lambda view: len(view.facts) + view.is_group_active("inner")), []),
    ],
    ids=["predicate", "both", "count"],
)
async def test_a_transition_that_changes_modes_changes_the_list_and_one_that_changes_counts_does_not(
    changing: Mode, received: list[set[str]]
) -> None:
    notified: list[frozenset[str]] = []
    tools = ToolSet("page", control="none")
    tools.register_group("inner")
    tools.register_group("other")
    tools.register("observe", answer, input_schema=WHAT, modes=modes_of(network=changing))
    async with tools.open_session() as session:
        session.on_list_changed(notified.append)
        assert not (await session.transition(activate=["other"])).list_changed
        assert notified == []
        await session.activate("inner")
        session.set_fact("name", 1)
        assert notified == received


@pytest.mark.spec("MOD-2")
async def test_counts_are_computed_by_the_next_list_and_not_before() -> None:
    asked: list[int] = []

    def count(view: View) -> int:
        asked.append(len(view.facts))
        return asked[-1]

    tools = ToolSet("page", control="none")
    tools.register("observe", answer, input_schema=WHAT, modes=modes_of(network=Mode(count=count)))
    async with tools.open_session() as session:
        notified = notifications(session)
        session.set_fact("one", 1)
        assert (notified, asked) == ([], [])
        assert shown(session).definition["_meta"]["data_counts"] == {"network": 1}
