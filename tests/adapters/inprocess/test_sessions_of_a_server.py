"""The sessions of a server without a store: in one of its own, in memory, that it shares with nobody (SPEC STO-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from weakref import WeakKeyDictionary

import anyio
import pytest

from tests.core.support import WAIT, Clock
from toolfold import HookContext, Limit, QuotaExceeded, Session, StoredSessions, ToolSet
from toolfold._session import stored as of_kind
from toolfold.spi import Full, SessionKind, background
from toolfold_adapters.stores import MemoryStore, SQLiteStore

pytestmark = pytest.mark.spec("STO-1")


def hooked(**options: object) -> tuple[ToolSet, list[str]]:
    """Return a tool set with a group that has hooks, and what they do."""
    tools, journal = ToolSet("t", **options), list[str]()  # type: ignore[arg-type]
    tools.register_group("a", on_activate=lambda: journal.append("on"), on_deactivate=lambda: journal.append("off"))
    return tools, journal


def of_server(tools: ToolSet, limit: Limit, clock: Clock | None = None) -> StoredSessions:
    """Return the sessions of a kind, as a server without a store has them."""
    store = MemoryStore(clock or Clock(), lease=float("inf"))
    return StoredSessions(tools, store, SessionKind("kind", "sessions", limit, 60), local=True)


@pytest.mark.spec("SES-4", "STO-7")
async def test_a_closed_session_frees_its_place_and_its_name() -> None:
    tools, _ = hooked()
    sessions = of_server(tools, Limit(1))
    session = await sessions.get_or_create("one", None, ())
    assert tools.sessions == (session,)
    with pytest.raises(QuotaExceeded):
        await sessions.get_or_create("two", None, ())
    await session.close()
    assert tools.sessions == sessions.known == ()
    assert await sessions.get("one") is None
    assert (await sessions.get_or_create("two", None, ())).is_open


@pytest.mark.spec("SES-4", "HOOK-4", "STO-7")
async def test_a_session_that_the_tool_set_has_no_room_for_takes_no_place() -> None:
    tools, journal = hooked(max_sessions=1)
    sessions = of_server(tools, Limit(1))
    async with tools.open_session():
        with pytest.raises(QuotaExceeded, match="open sessions"):
            await sessions.get_or_create("one", None, ["a"])
    assert (await sessions.get_or_create("one", None, ["a"])).active == ("a",)
    assert journal == ["on"]


@pytest.mark.spec("HOOK-1", "SES-2")
async def test_concurrent_requests_for_one_name_share_one_session() -> None:
    tools, journal = hooked()
    sessions, found = of_server(tools, Limit(5)), set[Session]()

    async def ask() -> None:
        found.add(await sessions.get_or_create("one", None, ["a"]))

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
    assert len(found) == len(tools.sessions) == 1
    assert journal == ["on"]


@pytest.mark.spec("HOOK-9")
async def test_a_session_that_is_not_accepted_ends_before_another_opens_under_its_name() -> None:
    tools, journal = hooked()
    sessions = of_server(tools, Limit(5))
    first = await sessions.get_or_create("one", None, ["a"])
    second = await sessions.get_or_create("one", None, ["a"], is_usable=lambda session: session is not first)
    assert (first.is_open, second.is_open) == (False, True)
    assert journal == ["on", "off", "on"]


@pytest.mark.spec("SES-3", "SES-4", "HOOK-9")
@pytest.mark.parametrize("local", [True, False], ids=["own store", "store with others"])
async def test_where_none_may_be_ended_those_that_have_expired_make_room(local: bool) -> None:
    (tools, journal), clock = hooked(), Clock()
    sessions = StoredSessions(tools, MemoryStore(clock), SessionKind("kind", "sessions", Limit(1), 60), local=local)
    await sessions.get_or_create("one", None, ["a"], "ada")
    clock.now = 45
    with pytest.raises(Full, match="The limit of 1 sessions in all is reached: try again in 15 seconds"):
        await sessions.get_or_create("two", None, (), "bob")
    clock.now = 60
    assert (await sessions.get_or_create("two", None, (), "bob")).is_open
    assert journal == ["on", "off"]


@pytest.mark.spec("HOOK-1", "STO-4")
async def test_what_hooks_have_by_session_is_found_however_many_sessions_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_kind, "CACHED", 1)
    opened: WeakKeyDictionary[Session, str] = WeakKeyDictionary()
    tools = ToolSet("t")

    def connect(context: HookContext) -> None:
        opened[context.session] = "connected"

    tools.register_group("a", on_activate=connect, run_in_thread=False)
    sessions = of_server(tools, Limit(10))
    for name in ("one", "two", "three"):
        await sessions.get_or_create(name, None, ["a"])
    for name in ("one", "two", "three"):
        session = await sessions.get(name)
        assert session is not None
        assert opened[session] == "connected"


@asynccontextmanager
async def with_others(tools: ToolSet) -> AsyncGenerator[StoredSessions]:
    """Yield the sessions of a program in a store that other processes may use, too."""
    async with tools.stored_sessions(MemoryStore()) as sessions:
        yield sessions


@pytest.mark.spec("SES-2", "STO-4")
async def test_a_session_in_use_is_not_discarded_for_others_used_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_kind, "CACHED", 1)
    tools, _ = hooked()
    async with with_others(tools) as sessions, sessions.open("one") as session:
        for name in ("two", "three"):
            async with sessions.open(name):
                pass
        await session.activate("a")
        async with sessions.open("one") as again:
            assert again is session


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_a_hook_that_hangs_at_the_end_of_a_session_delays_no_other() -> None:
    clock, ended, leave = Clock(), anyio.Event(), anyio.Event()
    tools = ToolSet("t")
    tools.register_group("slow", on_deactivate=leave.wait)
    tools.register_group("quick", on_deactivate=ended.set, run_in_thread=False)
    store = MemoryStore(clock)
    sessions = StoredSessions(tools, store, SessionKind("kind", "sessions", Limit(10), 0.1), local=True)
    async with background() as tasks:
        sessions.start(tasks)
        await sessions.get_or_create("slow", None, ["slow"])
        clock.now = 1
        with anyio.fail_after(WAIT):
            while await store.due("t/kind", 1):
                await anyio.lowlevel.checkpoint()
        await sessions.get_or_create("quick", None, ["quick"])
        clock.now = 2
        with anyio.fail_after(WAIT):
            await ended.wait()
        leave.set()


@pytest.mark.spec("PER-3", "SES-5")
async def test_a_store_in_memory_holds_the_state_itself_and_another_one_its_text(tmp_path: Path) -> None:
    memory, found = MemoryStore(), list[object]()
    async with SQLiteStore(tmp_path / "state.db") as file:
        for store in (memory, file):
            tools, _ = hooked()
            async with tools.stored_sessions(store) as sessions, sessions.open("one") as session:
                await session.activate("a")
                session.set_fact("paid", (1, 2))
                async with session.request():
                    pass
                record = await store.read(session.id)
                assert record is not None
                found.append(record.data)
    value, text = found
    assert (value.active, value.facts) == (("a",), {"paid": (1, 2)})  # type: ignore[attr-defined]
    assert str(value) == text


@pytest.mark.spec("STO-7", "SES-5")
async def test_the_facts_of_a_session_in_memory_are_bounded_together() -> None:
    tools, _ = hooked()
    session = await of_server(tools, Limit(1)).get_or_create("one", None, ())
    for number in range(5):
        session.set_fact(str(number), "x" * 60_000)
    with pytest.raises(QuotaExceeded, match="characters of a stored session"):
        await session.flush()


@pytest.mark.spec("HOOK-9", "STO-1")
@pytest.mark.parametrize("local", [True, False], ids=["own store", "store with others"])
async def test_the_end_of_a_session_whose_caller_is_cancelled_leaves_no_record(local: bool) -> None:
    tools, store = ToolSet("t"), MemoryStore()
    begun, leave = anyio.Event(), anyio.Event()

    async def wait() -> None:
        begun.set()
        await leave.wait()

    tools.register_group("a", on_deactivate=wait)
    sessions = StoredSessions(tools, store, SessionKind("kind", "sessions", Limit(1), 60), local=local)
    session = await sessions.get_or_create("one", None, ["a"])
    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.close)
            await begun.wait()
            tasks.cancel_scope.cancel()
            leave.set()
    assert not session.is_open
    assert await store.read(sessions.key("one")) is None
