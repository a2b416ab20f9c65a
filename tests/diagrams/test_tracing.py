"""Recording a trace: its contents, its end, that it changes nothing, and how it is stored."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.core.support import Journal, desk, opened
from tests.diagrams.traces import RandomRequests, crossing, gates, recorded, switching
from toolfold import ConfigError, HookFailed, ToolSet, Visibility
from toolfold._session.events import Committed
from toolfold_diagrams import Trace, tracing
from toolfold_diagrams.interaction import Interaction, Note
from toolfold_diagrams.trace import (
    Answered,
    Asked,
    Ended,
    Entry,
    HookBegan,
    HookEnded,
    ListChanged,
    Noted,
    Planned,
    RolledBack,
    SessionEnded,
    SessionOpened,
)
from toolfold_diagrams.trace import Committed as Done
from toolfold_diagrams.tracing import TraceRecorder

SEEDS = range(12)


def lines_of(trace: Trace) -> list[str]:
    """The hooks of a trace as lines of a `Journal`."""
    signs = {"on_activate": "+", "on_deactivate": "-", "on_rollback": "~"}
    return [
        f"{'' if entry.undoes is None else 'undo '}{signs[entry.phase]}{entry.group}"
        for entry in trace.entries
        if isinstance(entry, HookBegan)
    ]


@pytest.mark.spec("DIA-1")
async def test_a_trace_has_what_happened_in_order() -> None:
    trace = await switching()
    received = [entry for entry in trace.entries if getattr(entry, "request", 0) in (2, 3, 4, 5)]
    assert received == [
        Asked(request=2, session="s", what="tool", name="b.open"),
        Asked(request=3, session="s", what="transition", by=2, activate=("b",)),
        Planned(request=3, activated=("b",), deactivated=("a",)),
        HookBegan(request=3, group="a", phase="on_deactivate"),
        HookEnded(request=3),
        HookBegan(request=3, group="b", phase="on_activate"),
        HookEnded(request=3, error="RuntimeError", problem="+b"),
        HookBegan(request=3, group="a", phase="on_activate", undoes="on_deactivate"),
        HookEnded(request=3, error="RuntimeError", problem="undo +a"),
        RolledBack(request=3),
        Ended(request=3, error="HookFailed", problem=received[10].problem if isinstance(received[10], Ended) else ""),
        Answered(request=2, is_error=True),
        Ended(request=2),
        Asked(request=4, session="s", what="tool", name="b.open"),
        Asked(request=5, session="s", what="transition", by=4, activate=("b",)),
        Planned(request=5, activated=("b",), deactivated=("a",)),
        HookBegan(request=5, group="a", phase="on_deactivate"),
        HookEnded(request=5),
        HookBegan(request=5, group="b", phase="on_activate"),
        HookEnded(request=5),
        Done(request=5, activated=("b",), deactivated=("a",)),
        Ended(request=5),
        Answered(request=4),
        Ended(request=4),
    ]
    assert {entry.listeners for entry in trace.entries if isinstance(entry, ListChanged)} == {1}
    assert (trace.entries[0], trace.entries[-2]) == (SessionOpened(session="s"), SessionEnded(session="s"))


@pytest.mark.spec("DIA-1", "HOOK-3", "HOOK-5")
@pytest.mark.parametrize("seed", SEEDS)
async def test_the_hooks_of_a_trace_are_those_that_ran_in_their_order(seed: int) -> None:
    random_requests = RandomRequests(seed)
    trace = await recorded(random_requests.tools(), random_requests.play)
    assert lines_of(trace) == random_requests.journal.lines


@pytest.mark.spec("DIA-1", "HOOK-5")
async def test_compensations_are_recorded_in_reverse_order_before_the_rollback() -> None:
    undone = list[list[str]]()
    for seed in SEEDS:
        random_requests = RandomRequests(seed)
        tools = random_requests.tools()
        trace = await recorded(tools, random_requests.play)
        opted_out = {group.path for group in tools.groups() if group.on_rollback is False}
        undone += rollbacks(trace, opted_out)
    assert max(map(len, undone)) > 2
    assert len(undone) > 10


def rollbacks(trace: Trace, opted_out: set[str]) -> list[list[str]]:
    """The groups that each rollback undid, which must be those whose hooks had succeeded, in reverse."""
    done: dict[int, list[str]] = {}
    undone: dict[int, list[str]] = {}
    running: dict[int, HookBegan] = {}
    found = list[list[str]]()
    for entry in trace.entries:
        match entry:
            case HookBegan():
                running[entry.request] = entry
                if entry.undoes is not None:
                    undone.setdefault(entry.request, []).append(entry.group)
            case HookEnded(error="") if running[entry.request].undoes is None:
                done.setdefault(entry.request, []).append(running[entry.request].group)
            case RolledBack():
                found.append(undone.get(entry.request, []))
                assert found[-1] == [group for group in done.get(entry.request, []) if group not in opted_out][::-1]
            case _:
                pass
    return found


@pytest.mark.spec("DIA-2")
@pytest.mark.parametrize("seed", SEEDS)
async def test_recording_changes_nothing(seed: int) -> None:
    plain, recorded_ = RandomRequests(seed), RandomRequests(seed)
    notified, received = list[Any](), list[Any]()
    tools, others = plain.tools(), recorded_.tools()
    tools.observe(lambda event: notified.append(event.change if isinstance(event, Committed) else type(event)))
    others.observe(lambda event: received.append(event.change if isinstance(event, Committed) else type(event)))
    await plain.play(tools)
    await recorded(others, recorded_.play)
    assert recorded_.outcomes == plain.outcomes
    assert recorded_.journal.lines == plain.journal.lines
    assert [getattr(one, "deactivated", one) for one in received] == [
        getattr(one, "deactivated", one) for one in notified
    ]


async def test_the_recorder_detaches_at_the_end_whatever_happens() -> None:
    tools = desk()
    recorders = list[TraceRecorder]()

    async def fail() -> None:
        with tracing(tools) as recorder:
            recorders.append(recorder)
            await tools.activate_group("a")
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    trace = recorders[0].trace
    await tools.activate_group("b")
    assert recorders[0].trace == trace
    assert len(trace.entries) == 6
    assert not tools.observers.is_traced


async def test_the_trace_of_one_session_leaves_others_out() -> None:
    tools = desk(Journal())
    async with tools.open_session(identity="one") as one, tools.open_session(identity="two") as two:
        with tracing(one) as recorder:
            await one.activate("a")
            await two.activate("a")
            await one.deactivate("a")
    asked = [entry for entry in recorder.trace.entries if isinstance(entry, Asked)]
    assert [(entry.request, entry.session) for entry in asked] == [(1, "one"), (2, "one")]
    assert lines_of(recorder.trace) == ["+a", "-a"]


@pytest.mark.spec("DIA-1", "SES-1")
async def test_concurrent_transitions_in_sessions_of_one_name_are_distinguished() -> None:
    journal = Journal()
    tools = desk(journal)
    one, two = [await tools.open_session(identity="same").start() for _ in range(2)]
    with tracing(tools) as recorder:
        blocks = journal.block("+a"), journal.block("+b")
        journal.fail("+a")
        tasks = asyncio.ensure_future(one.activate("a")), asyncio.ensure_future(two.transition(["b", "c"]))
        for block in blocks:
            await block.arrived.wait()
        for block, task in zip(blocks[::-1], tasks[::-1], strict=True):
            block.release.set()
            await asyncio.wait([task])
    ends = [entry for entry in recorder.trace.entries if isinstance(entry, Done | RolledBack | Ended)]
    assert [(type(entry), entry.request) for entry in ends] == [(Done, 2), (Ended, 2), (RolledBack, 1), (Ended, 1)]
    assert isinstance(tasks[0].exception(), HookFailed)
    notes = [row.text for row in Interaction.of(recorder.trace).rows if isinstance(row, Note)]
    assert notes == ["planned: +a", "planned: +b +c", "committed: +b +c", "rolled back: nothing has changed"]


async def test_requests_in_progress_when_the_recording_begins_are_left_out() -> None:
    journal = Journal()
    session = await opened(journal)
    tools = session.tools
    stop = tools.trace(lambda event: None)
    block = journal.block("+a")
    task = asyncio.ensure_future(session.activate("a"))
    await block.arrived.wait()
    with tracing(tools) as recorder:
        block.release.set()
        await task
        await session.activate("c")
    stop()
    assert [entry.activate for entry in recorder.trace.entries if isinstance(entry, Asked)] == [("c",)]
    assert lines_of(recorder.trace) == ["+c"]


async def test_a_trace_taken_during_the_recording_ends_there() -> None:
    journal = Journal()
    session = await opened(journal)
    traces = list[Trace]()
    with tracing(session) as recorder:

        async def look(context: Any) -> None:
            traces.append(recorder.trace)

        journal.acting["+a"] = look
        await session.activate("a")
    (trace,) = traces
    assert trace.entries == recorder.trace.entries[:3]
    assert trace.entries[-1] == HookBegan(request=1, group="a", phase="on_activate")


async def test_predicates_and_listeners_that_fail_are_noted() -> None:
    tools = ToolSet("notes")
    tools.register_group("g")

    def broken(view: Any) -> bool:
        raise RuntimeError("no")

    tools.register("t", lambda: "done", visibility=Visibility.when(broken))

    def full(kinds: frozenset[str]) -> None:
        raise RuntimeError("full")

    async def play(tools: ToolSet) -> None:
        async with tools.open_session(identity="s") as session:
            session.on_list_changed(full)
            tools.register("g.t", lambda: "done")
            await session.activate("g")
            tools.notify_list_changed()

    trace = await recorded(tools, play)
    noted = [entry for entry in trace.entries if isinstance(entry, Noted)]
    assert noted[:2] == [
        Noted(text="a predicate or count of tool t failed: RuntimeError: no"),
        Noted(text="a listener failed: RuntimeError: full", session="s"),
    ]
    assert Noted(text="lists announced: tool") in noted


async def test_an_error_whose_text_can_not_be_read_is_recorded_by_its_type() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    journal = Journal()
    session = await opened(journal)
    journal.failing["-a"] = Silent()
    with tracing(session) as recorder:
        await session.activate("a")
        await session.deactivate("a", force=True)
    assert HookEnded(request=2, error="Silent") in recorder.trace.entries


# Traces as data


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("report", [switching, crossing, gates])
async def test_a_trace_can_be_stored_as_json_and_loaded(report: Any) -> None:
    trace = await report()
    assert Trace.load(json.loads(json.dumps(trace.dump()))) == trace


ASKED: dict[str, Any] = {"entry": "Asked", "request": 1, "session": "s", "what": "close"}


UNFIT: list[tuple[Any, str]] = [
    ([3], "Entry 0 of a trace is a JSON object, not a int"),
    ([{}], "Entry 0 of a trace must be one of Asked, "),
    ([{"entry": ["Asked"]}], "must be one of"),
    ([ASKED, {"entry": "Ended"}], "Entry 1 of a trace does not fit: a Ended has request, error, problem"),
    ([{**ASKED, "request": "1"}], "does not fit"),
    ([{**ASKED, "request": -1}], "does not fit"),
    ([{**ASKED, "what": "sing"}], "does not fit"),
    ([{**ASKED, "activate": "ab"}], "does not fit"),
    ([{**ASKED, "activate": [1]}], "does not fit"),
    ([{**ASKED, "more": 1}], "does not fit"),
    ([ASKED, ASKED], "request 1 is under way already"),
    ([{"entry": "Ended", "request": 1}], "request 1 is not under way"),
    ([ASKED, {"entry": "HookEnded", "request": 1}], "did not begin"),
    (
        [ASKED, {"entry": "HookBegan", "request": 1, "group": "g", "phase": "p"}, {"entry": "Ended", "request": 1}],
        "still runs",
    ),
    ([ASKED, {"entry": "Ended", "request": 1}, {"entry": "Planned", "request": 1}], "not under way"),
]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "is a JSON object, not a NoneType"),
        ([], "is a JSON object"),
        ({}, "version 1 is needed, not None"),
        ({"version": 2, "trace": "s", "entries": []}, "version 1 is needed, not 2"),
        ({"version": 1, "trace": 1, "entries": []}, 'a name under "trace"'),
        ({"version": 1, "trace": "s", "entries": {}}, 'list under "entries"'),
        ([3], "is a JSON object"),
        *(({"version": 1, "trace": "s", "entries": entries}, message) for entries, message in UNFIT),
    ],
)
def test_what_is_no_trace_or_does_not_fit_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trace.load(data)


def test_a_trace_made_by_hand_is_checked_too() -> None:
    entries: tuple[Entry, ...] = (Ended(request=1),)
    with pytest.raises(ConfigError, match="not under way"):
        Trace("s", entries)


@pytest.mark.spec("DIA-1")
async def test_a_trace_stored_under_the_key_of_the_first_release_can_still_be_loaded() -> None:
    trace = await switching()
    stored = trace.dump()
    assert Trace.load({**stored, "story": stored.pop("trace")}) == trace
