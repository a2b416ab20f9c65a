"""The live page, without a browser: what it is sent of sessions, their steps and their pictures (SPEC DIA-3)."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack, suppress
from functools import partial

import anyio
import pytest

from tests.adapters.mcp.desk import make_desk
from tests.diagrams.live.watching import get, quick, shown, steps, watching
from tests.diagrams.pages import hostile
from toolfold import (
    HookFailed,
    Snapshot,
    ToolError,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
    TransitionRequest,
    Visibility,
)
from toolfold_adapters.tokens import cost
from toolfold_diagrams import report
from toolfold_diagrams.live import history
from toolfold_diagrams.live.app import WATCHERS
from toolfold_diagrams.live.recording import ALL_STEPS, LINGER, PROBLEMS, SESSIONS, STEPS, Recording


@pytest.mark.spec("DIA-3")
async def test_sessions_are_shown_as_they_begin_change_and_end() -> None:
    tools = make_desk()
    app = quick(tools)
    async with tools.open_session() as before, watching(app) as page:
        assert page.row(before.id) is not None
        async with tools.open_session(caller="address 10.0.0.1") as session:
            await page.until(lambda: page.row(session.id))
            await session.activate("database")
            row = await page.until(lambda: (found := page.row(session.id)) and found["active"] and found)
            assert (row["active"], row["count"], row["caller"]) == (["database"], 1, "address 10.0.0.1")
            assert row["last"]["title"] == "open database"
        await page.until(lambda: (found := page.row(session.id)) and found["ended"])
        row = page.row(before.id)
        assert row is not None
        assert not row["ended"]


@pytest.mark.spec("DIA-3")
async def test_steps_show_what_changed_what_was_refused_and_which_hook_failed() -> None:
    tools = make_desk()
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session:
        await session.activate("mode_a")
        await session.activate("mode_b")
        for path in ("database.write", "vault"):
            with suppress(ToolfoldError):
                await session.activate(path)
        await session.call("ping")
        with suppress(ToolfoldError):
            await session.call("database.query", {"sql": ""})
        detail = (await get(app, f"/sessions/{await page.key(session.id)}")).json
        await page.until(lambda: len(page.problems) == 3)
    paths = [group["path"] for group in detail["catalogs"][0]]
    assert paths == ["database", "database.write", "mode_a", "mode_b", "vault"]
    assert [shown(step) for step in detail["steps"]] == [
        ("open mode_a", "changed", []),
        ("open mode_b", "changed", []),
        (
            "open database.write",
            "refused",
            ["ParentInactive: Group 'database.write' can't be opened yet: open 'database' first."],
        ),
        ("open vault", "failed", ["on_activate of vault: ToolError: the key is missing"]),
        ("call ping", "done", []),
        (
            "call database.query",
            "refused",
            [
                "ToolNotFound: Unknown tool: database.query. It needs the group database, which is closed: call "
                "database.open first."
            ],
        ),
    ]
    assert [step["states"] for step in detail["steps"]] == ["ilaii", *["iliai"] * 5]
    assert [problem["step"] for problem in page.problems] == [3, 4, 6]


@pytest.mark.spec("DIA-3")
async def test_control_tools_and_what_handlers_request_are_parts_of_the_step_of_their_call() -> None:
    tools = make_desk()
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session:
        await session.call("open_database")
        await session.call("mode_a.activate")
        await session.call("database.write.deactivate")
        await session.call("vault.activate")
        found = await steps(app, await page.key(session.id))
    assert [(step["title"], step["outcome"]) for step in found] == [
        ("call open_database", "changed"),
        ("call mode_a.open", "changed"),
        ("call database.write.close", "done"),
        ("call vault.open", "failed"),
    ]
    assert found[-1]["reasons"] == ["on_activate of vault: ToolError: the key is missing"]


@pytest.mark.spec("DIA-1", "DIA-3")
async def test_the_sequence_of_a_transition_is_drawn_while_its_hooks_run() -> None:
    tools = ToolSet("slow")
    began, done = anyio.Event(), anyio.Event()

    async def wait() -> None:
        began.set()
        await done.wait()

    tools.register_group("wait", on_activate=wait)
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.activate, "wait")
        await began.wait()
        key = await page.key(session.id)
        (step,) = await steps(app, key)
        assert (step["outcome"], step["activating"], step["deactivating"], step["states"]) == ("running", [0], [], "i")
        path = f"/sessions/{key}/1/sequence.svg"
        during = (await get(app, path)).text
        assert "on_activate" in during
        assert "committed" not in during
        done.set()
        await page.until(lambda: (row := page.row(session.id)) and row["active"])
        assert "committed: +wait" in (await get(app, path)).text


@pytest.mark.spec("DEL-3", "DIA-3")
async def test_concurrent_requests_of_one_caller_are_shown_each_in_its_own_state() -> None:
    tools = make_desk()
    app, empty = quick(tools), Snapshot.of(tools.catalog)
    async with (
        watching(app) as page,
        tools.request_session(empty, caller="address 10.0.0.1") as one,
        tools.request_session(empty.after(TransitionRequest(["mode_b"])), caller="address 10.0.0.1") as other,
    ):
        await one.activate("database")
        await other.call("ping")
        await one.activate("database.write")
        row = await page.until(lambda: next((row for row in page.rows.values() if row["last"]), None))
        found = await steps(app, row["key"])
    assert (row["name"], row["session"], row["caller"]) == ("Requests without a session", False, "address 10.0.0.1")
    assert [step["states"] for step in found] == ["aiiii", "iliai", "aaiii"]


@pytest.mark.spec("DIA-1", "DIA-3")
async def test_the_structure_is_drawn_as_it_was_after_each_of_the_last_steps() -> None:
    tools = make_desk()
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session:
        await session.activate("mode_a")
        await session.activate("mode_b")
        key = await page.key(session.id)
        pictures = [(await get(app, f"/sessions/{key}/{step}/structure.svg")) for step in (0, 1, 2)]
    active = [re.findall(r'data-id="(\w+)" class="node group active"', picture.text) for picture in pictures]
    assert active == [[], ["group_mode__a"], ["group_mode__b"]]
    assert {picture.headers["content-type"] for picture in pictures} == {"image/svg+xml; charset=utf-8"}


async def test_tokens_listed_now_and_saved_so_far_are_shown() -> None:
    tools = make_desk()
    app = quick(tools)
    ungrouped = cost(tool for tool in tools.catalog.tools.values() if tool.control is None)
    async with watching(app) as page, tools.open_session() as session:
        spent = 0
        for path in ("mode_a", "database"):
            await session.activate(path)
            listed = cost(session.list_tools().tools)
            spent += listed
        row = await page.until(lambda: (found := page.row(session.id)) and found["listed"] == listed and found)
        lists = await page.until(lambda: page.lists["lists"] == 2 and page.lists)
    assert row["ungrouped"] == ungrouped
    assert lists == {"lists": 2, "tokens": spent, "ungrouped": 2 * ungrouped}


async def test_the_pages_of_one_list_are_counted_as_one() -> None:
    tools = ToolSet("paged", page_size=2)
    for number in range(5):
        tools.register(f"tool_{number}", lambda: "", description="Do something")
    app = quick(tools)
    async with watching(app) as page, tools.open_session():
        for _ in range(3):
            found = tools.list_tools()
            while found.next_cursor is not None:
                found = tools.list_tools(found.next_cursor)
        lists = await page.until(lambda: page.lists["lists"] == 3 and page.lists)
    assert lists["tokens"] == lists["ungrouped"]


@pytest.mark.spec("EXP-3")
async def test_the_page_and_prometheus_have_the_figures_of_the_report() -> None:
    tools = make_desk()
    app = quick(tools)
    async with tools.open_session() as session:
        await session.call("mode_a.activate")
        with suppress(ToolNotFound):
            await session.call("no_such_tool")
        assert tools.usage is not None
        assert (await get(app, "/report")).json == report(tools.usage).data
        assert (await get(app, "/usage")).json == tools.usage.dump()
        lines = (await get(app, "/metrics")).text.splitlines()
        row = tools.usage.calls["mode_a.activate", "", "", "in process"]
        labels = 'client="",era="in process",group="",tool="mode_a.activate"'
        for line in (
            f"toolfold_call_duration_seconds_count{{{labels}}} {row.calls:.1f}",
            f"toolfold_answer_tokens_total{{{labels}}} {row.tokens:.1f}",
            'toolfold_group_opened_total{group="mode_a"} 1.0',
            'toolfold_calls_refused_total{why="unknown"} 1.0',
            "toolfold_sessions 1.0",
        ):
            assert line in lines
        assert (await get(app, "/status")).json == [
            {"what": "sessions", "name": tools.name, "state": "running", "text": "1 are open"}
        ]


async def test_what_the_program_decides_is_not_asked_by_the_page() -> None:
    asked: list[str] = []

    def decide(view: object) -> bool:
        asked.append("asked")
        return True

    tools = ToolSet("asked", state=lambda: asked.append("read"))
    tools.register("maybe", lambda: "", description="Perhaps", visibility=Visibility.when(decide))
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session:
        row = await page.until(lambda: page.row(session.id))
        await get(app, f"/sessions/{row['key']}")
        await get(app, f"/sessions/{row['key']}/0/structure.svg")
    assert (row["undecided"], row["listed"], asked) == (1, 0, [])


async def test_a_hook_that_fails_as_a_session_ends_is_shown() -> None:
    tools = ToolSet("closing")

    def fail() -> None:
        raise OSError("the disk is gone")

    tools.register_group("disk", on_deactivate=fail, run_in_thread=False)
    app = quick(tools)
    async with watching(app) as page:
        with suppress(ExceptionGroup):
            async with tools.open_session() as session:
                await session.activate("disk")
        (problem,) = await page.until(lambda: page.problems)
    assert problem["text"] == "on_deactivate of disk: OSError: the disk is gone"


@pytest.mark.spec("EXP-1")
async def test_equal_refusals_of_a_session_are_one_with_their_number() -> None:
    tools = make_desk()
    async with watching(quick(tools)) as page, tools.open_session() as session:
        for name in ("database.query", "vanished", "database.query"):
            with suppress(ToolfoldError):
                await session.call(name)
        await page.until(lambda: page.problems and page.problems[-1]["times"] == 2)
    assert [(one["times"], one["step"]) for one in page.problems[-2:]] == [(1, 2), (2, 3)]


async def test_equal_refusals_of_several_sessions_are_one_that_leads_to_the_last() -> None:
    tools = make_desk()
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as one, tools.open_session() as other:
        for session in (one, other):
            with suppress(ToolNotFound):
                await session.call("no_such_tool")
        await page.until(lambda: page.problems and page.problems[-1]["times"] == 2)
        assert page.problems[-1]["key"] == await page.key(other.id)
    assert len(app.recording.problems) == 1


async def test_a_predicate_that_fails_is_shown() -> None:
    tools = ToolSet("broken")
    tools.register("maybe", lambda: "", description="Perhaps", visibility=Visibility.when(lambda view: 1 / 0 > 0))
    async with watching(quick(tools)) as page, tools.open_session() as session:
        with suppress(ToolfoldError):
            await session.call("maybe")
        problem, refused = await page.until(lambda: len(page.problems) == 2 and page.problems)
    assert (problem["outcome"], refused["outcome"]) == ("failed", "refused")
    assert problem["text"] == "A predicate or count of maybe failed: ZeroDivisionError: division by zero"


async def test_a_page_that_is_opened_late_has_the_changes_before_it() -> None:
    tools = make_desk()

    def fail() -> None:
        raise ToolError("no paper")

    tools.register_group("printer", on_activate=fail)
    app = quick(tools)
    async with tools.open_session() as session:
        await session.activate("mode_a")
        await session.call("ping")
        with suppress(HookFailed):
            await session.activate("printer")
        await session.activate("mode_b")
        await session.deactivate("mode_b")
        async with watching(app) as page:
            key = await page.key(session.id)
            await session.activate("mode_a")
            await page.until(lambda: (row := page.row(session.id)) and row["count"] == 1)
            found = await steps(app, key)
            picture = await get(app, f"/sessions/{key}/1/structure.svg")
            sequence = await get(app, f"/sessions/{key}/4/sequence.svg")
    assert [(step["number"], step["title"], step["outcome"]) for step in found] == [
        (1, "open mode_a", "changed"),
        (2, "open printer", "failed"),
        (3, "close mode_a, open mode_b", "changed"),
        (4, "close mode_b", "changed"),
        (5, "open mode_a", "changed"),
    ]
    assert "no paper" in found[1]["reasons"][0]
    assert [step["states"].count("a") for step in found] == [1, 1, 1, 0, 1]
    assert "group active" in picture.text
    assert "close mode_b" in sequence.text
    assert "no paper" in app.recording.problems[0].text


async def test_what_a_page_has_that_is_opened_late_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "RETAINED", 3)
    tools = make_desk()
    recording = Recording(tools)
    async with tools.open_session() as session:
        for group in ("mode_a", "mode_b", "mode_a", "mode_b"):
            await session.activate(group)
        recording.watch()
        (record,) = recording.records.values()
        assert [step.before.active for step in record.steps] == [("mode_a",), ("mode_b",), ("mode_a",)]


# Bounds


async def test_no_more_than_changes_is_recorded_unless_somebody_watches_and_a_minute_longer() -> None:
    tools, now = make_desk(), [1_000.0]
    recording = Recording(tools, lambda: now[0])
    async with tools.open_session() as session:
        await session.activate("mode_a")
        assert (recording.runs, len(recording.records)) == (False, 0)
        recording.watch()
        now[0] += LINGER
        await session.activate("mode_b")
        assert (recording.runs, [record.count for record in recording.records.values()]) == (True, [2])
        now[0] += 0.1
        await session.call("ping")
        assert not recording.runs
        recording.watch()
        titles = [[step.title for step in record.steps] for record in recording.records.values()]
        assert titles == [["open mode_a", "close mode_a, open mode_b"]]  # which are retained without it


async def test_steps_sessions_and_problems_are_bounded() -> None:
    tools = make_desk()
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session:
        key = await page.key(session.id)
        for _ in range(SESSIONS + 20):
            async with tools.open_session():
                pass
        assert (await get(app, f"/sessions/{key}")).status == 200  # those that ended go first
        for number in range(PROBLEMS + 10):
            with suppress(ToolfoldError):
                await session.call(f"tool {number}")
        found = await steps(app, key)
        await page.until(lambda: (row := page.row(session.id)) and row["last"])
        assert len(page.rows) == SESSIONS
    assert (len(found), found[-1]["number"]) == (STEPS, PROBLEMS + 10)
    assert len(app.recording.problems) == PROBLEMS


async def test_steps_of_all_sessions_together_are_bounded() -> None:
    tools = make_desk()
    recording = Recording(tools)
    recording.watch()
    for _ in range(ALL_STEPS // STEPS + 2):
        session = await tools.open_session().start()
        for _ in range(STEPS):
            await session.activate("mode_a")
    counts = [len(record.steps) for record in recording.records.values()]
    assert counts == [0, 0, *[STEPS] * (ALL_STEPS // STEPS)]


async def test_of_very_many_sessions_the_newest_are_shown() -> None:
    tools = make_desk(max_sessions=None)
    sessions = [await tools.open_session().start() for _ in range(SESSIONS + 500)]
    async with watching(quick(tools)) as page:
        assert [row["name"] for row in page.rows.values()] == [session.id for session in sessions[-SESSIONS:]]


async def test_a_step_without_end_is_drawn_up_to_a_limit() -> None:
    tools = ToolSet("endless")

    async def many() -> str:
        for _ in range(1_000):
            await session.call("one")
        return "done"

    tools.register("many", many, description="Call another tool many times")
    tools.register("one", lambda: "1", description="Be called", run_in_thread=False)
    app = quick(tools)
    async with watching(app) as page, tools.open_session() as session:
        await session.call("many")
        key = await page.key(session.id)
        drawn = (await get(app, f"/sessions/{key}/1/sequence.svg")).text
        assert 50 < drawn.count("call one") < 400
        assert (await steps(app, key))[0]["outcome"] == "done"


async def test_a_slow_watcher_is_sent_the_present_state_once_instead_of_every_change() -> None:
    tools = make_desk()
    app = quick(tools)
    async with watching(app) as slow, watching(app) as fast, tools.open_session() as session:
        slow.gate = anyio.Event()
        before = slow.events
        for number in range(100):
            await session.activate(("mode_a", "mode_b")[number % 2])
            await fast.until(partial(fast.shows, session.id, ("mode_a", "mode_b")[number % 2]))
        slow.gate.set()
        await slow.until(partial(slow.shows, session.id, "mode_b"))
        assert slow.events - before <= 3


async def test_only_so_many_may_watch() -> None:
    app = quick(make_desk())
    async with AsyncExitStack() as watchers:
        for _ in range(WATCHERS):
            await watchers.enter_async_context(watching(app))
        refused = await get(app, "/events")
    assert (refused.status, refused.json["error"]) == (503, f"{WATCHERS} pages watch already; close one of them.")
    async with watching(app) as page:
        assert page.status == 200


async def test_a_stream_ends_with_the_server() -> None:
    ending = [False]
    async with watching(quick(make_desk()), more={"extensions": {"toolfold.ending": lambda: ending[0]}}) as page:
        ending[0] = True
        await page.until(lambda: page.ended)


# Hostile texts


@pytest.mark.spec("SAF-6")
async def test_hostile_names_are_escaped_in_the_page_and_have_nothing_that_turns_or_hides_text() -> None:
    tools = hostile()
    name = "\u202e\x1b[31m<script>alert(1)</script>\ud800" + "x" * 10_000
    app = quick(tools)
    async with watching(app) as page, tools.open_session(identity=name, caller=name) as session:
        with suppress(ToolfoldError):
            await session.call(name)
        row = await page.until(lambda: next(iter(page.rows.values()), None))
        detail = await get(app, f"/sessions/{row['key']}")
        sequence = await get(app, f"/sessions/{row['key']}/1/sequence.svg")
        document = await get(app, "/")
    assert "<script>alert" not in document.text + sequence.text
    for text in (row["name"], row["caller"], row["last"]["title"], *detail.json["steps"][0]["reasons"]):
        assert text.isprintable()
        assert len(text) <= 301
