"""Two processes with one session: who waits, who goes on, and what follows when one ends it (SPEC STO-2 to STO-5)."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest

from tests.adapters.stores.test_steps import Interrupting, desk, of_kind
from tests.blocked import all_blocked
from tests.simulation.disk import Forgetful
from toolfold import (
    HookContext,
    Lease,
    LeaseLost,
    Place,
    Record,
    SessionClosed,
    StoreUnavailable,
    ToolSet,
    events,
)
from toolfold._session import journal as journal_module
from toolfold._session import stored as sessions_module
from toolfold._session.perform import hold
from toolfold_adapters.stores import MemoryStore

PATIENCE = 60


class Deaf(MemoryStore):
    """A store that does not answer some operations, as often as that is set."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.deaf: dict[str, int] = {}
        self.meanwhile: Callable[[], object] = lambda: None

    def asked(self, operation: str) -> None:
        """Do what is to happen meanwhile, and fail if the store is not to answer this operation."""
        self.meanwhile()
        if self.deaf.get(operation, 0):
            self.deaf[operation] -= 1
            raise StoreUnavailable("The store does not answer.")

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        """Put off the end of a lease; see `MemoryStore`."""
        self.asked("renew")
        return await super().renew(key, token, seconds)

    async def read(self, key: str) -> Record | None:
        """Return a record; see `MemoryStore`."""
        self.asked("read")
        return await super().read(key)

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        """Take a lease; see `MemoryStore`."""
        self.asked("acquire")
        return await super().acquire(key, seconds, version, intent)

    async def due(self, kind: str, count: int) -> Sequence[str]:
        """Return what is due; see `MemoryStore`."""
        self.asked("due")
        return await super().due(kind, count)


def hooked(on_activate: Callable[[HookContext], Awaitable[None]]) -> ToolSet:
    """Return a group with a hook, and one without."""
    tools = ToolSet("desk", control="none")
    tools.register_group("lock", on_activate=on_activate)
    tools.register_group("free")
    return tools


@pytest.mark.spec("STO-2", "SES-2")
async def test_a_transition_waits_for_the_hooks_of_another_process_and_sees_what_they_did() -> None:
    store, running, go_on = MemoryStore(), anyio.Event(), anyio.Event()

    async def wait(_: HookContext) -> None:
        running.set()
        await go_on.wait()

    async def at_once(_: HookContext) -> None: ...

    async with hooked(wait).stored_sessions(store) as here, hooked(at_once).stored_sessions(store) as there:
        async with here.open("chat") as one, there.open("chat") as other, anyio.create_task_group() as tasks:
            tasks.start_soon(one.activate, "lock")
            await running.wait()
            tasks.start_soon(other.activate, "free")
            await all_blocked()
            assert other.active == ()
            go_on.set()
        assert other.active == ("free", "lock")


@pytest.mark.spec("STO-2", "STO-5")
async def test_a_transition_that_has_waited_too_long_for_another_process_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journal_module, "PATIENCE", 0.0)
    store = MemoryStore()
    refused: list[str] = []
    there = desk()

    async def ask(_: HookContext) -> None:
        async with there.stored_sessions(store) as stored, stored.open("chat") as other:
            with pytest.raises(StoreUnavailable, match="Another process still runs hooks"):
                await other.activate("mail")
            refused.append("mail")

    tools = hooked(ask)
    for path in ("mail", "notes", "plain"):
        tools.register_group(path)
    async with tools.stored_sessions(store) as here, here.open("chat") as one:
        await one.activate("lock")
    assert refused == ["mail"]


@pytest.mark.spec("STO-2")
@pytest.mark.parametrize(("silences", "ended"), [(0, True), (1, True), (sys.maxsize, False)])
async def test_a_lease_is_renewed_once_the_store_answers_and_its_hook_is_cancelled_if_it_never_does(
    silences: int, ended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "LAST_PAUSE", 0.0)
    store, outcomes = Deaf(lease=10.0 if ended else 0.05), list[str]()

    async def work(context: HookContext) -> None:
        store.deaf["renew"] = silences
        await context.session.state.stored.renew()
        await anyio.lowlevel.checkpoint()
        outcomes.append("done")

    async with hooked(work).stored_sessions(store) as stored, stored.open("chat") as session:
        if ended:
            await session.activate("lock")
        else:
            with pytest.raises(LeaseLost):
                await session.activate("lock")
        await session.state.stored.renew()  # without a lease, there is nothing to renew
    assert outcomes == (["done"] if ended else [])


@pytest.mark.spec("STO-2")
async def test_a_lease_that_was_released_while_it_was_to_be_renewed_is_neither_renewed_nor_lost() -> None:
    store = Deaf()
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        journal = session.state.stored
        await hold(session)
        token = journal.token
        store.meanwhile = lambda: setattr(journal, "token", None)
        await journal.renew()
        store.meanwhile = lambda: None
        assert token is not None
        await store.release(session.id, token)
        assert await session.activate("plain")


@pytest.mark.spec("STO-3", "SAF-3")
async def test_observers_are_notified_of_hooks_that_fail_while_what_a_process_left_is_undone() -> None:
    store, failed = MemoryStore(), list[events.Event]()
    tools = ToolSet("desk", control="none")

    def fail() -> None:
        raise RuntimeError("no")

    tools.register_group("mail", on_activate=lambda: None, on_deactivate=fail, run_in_thread=False)
    tools.observe(failed.append)
    async with tools.stored_sessions(store) as stored:
        async with stored.open("chat") as session:
            found = await store.read(session.id)
            assert found is not None
            assert await store.acquire(session.id, 0, found.version, '[["on_activate","mail"]]') is not None
        async with stored.open("chat") as session:
            assert session.active == ()
    assert [type(event) for event in failed].count(events.HooksFailed) == 1


@pytest.mark.spec("STO-4", "HOOK-9")
async def test_a_request_that_is_cancelled_while_a_group_is_resumed_ends_as_cancelled() -> None:
    store, scope, resumed = MemoryStore(), anyio.CancelScope(), list[str]()
    here, there = ToolSet("desk", control="none"), ToolSet("desk", control="none")

    async def cancel() -> None:
        resumed.append("mail")
        scope.cancel()
        await anyio.sleep_forever()

    here.register_group("mail")
    there.register_group("mail", resume=cancel)
    async with here.stored_sessions(store) as stored, stored.open("chat") as session:
        await session.activate("mail")
    async with there.stored_sessions(store) as stored:
        with scope:
            async with stored.open("chat"):
                pytest.fail("it was opened")
        assert (scope.cancelled_caught, resumed) == (True, ["mail"])


@pytest.mark.spec("STO-1")
async def test_listeners_stay_until_everybody_has_left_a_session_that_is_open_twice_here() -> None:
    async with desk().stored_sessions(MemoryStore()) as stored, stored.open("chat") as session:
        changed: list[frozenset[str]] = []
        session.on_list_changed(changed.append)
        async with stored.open("chat") as again:
            assert again is session
        await session.activate("mail")
        assert changed == [{"tool"}]


@pytest.mark.spec("STO-8")
async def test_a_transition_that_cannot_be_undone_here_is_left_to_a_process_that_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    owners, _ = of_kind(desk(), store)
    assert isinstance(await store.create(owners.key("chat"), "null", Place("desk/owner"), 600), int)
    assert await store.acquire(owners.key("chat"), 0, 1, "[]") is not None
    with caplog.at_level(logging.WARNING, "toolfold"):
        assert not await owners._upkeep.sweep()
    assert "can't be used here" in caplog.text
    assert await store.read(owners.key("chat")) is not None


@pytest.mark.spec("STO-4", "STO-5")
async def test_changes_are_followed_again_after_the_store_did_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "FIRST_PAUSE", 0.0)
    store, changed = Deaf(), anyio.Event()
    async with (
        desk().stored_sessions(store) as here,
        desk().stored_sessions(store) as there,
        here.open("chat") as one,
        there.open("chat") as other,
    ):
        one.on_list_changed(lambda _: changed.set())
        await all_blocked()
        store.deaf = {"read": 1}
        await other.activate("plain")  # the change is not read
        await all_blocked()
        await other.activate("mail")
        with anyio.fail_after(PATIENCE):
            await changed.wait()
        assert one.active == ("mail", "plain")


@pytest.mark.spec("NTF-3", "STO-4")
async def test_the_client_of_a_stored_session_is_notified_of_an_announcement() -> None:
    tools, received = desk(), list[frozenset[str]]()
    _, sessions = of_kind(tools, MemoryStore())
    session = sessions.draft("chat", notifies=True)
    await sessions.ensure(session)
    session.state.stored.client = received.append
    tools.notify_list_changed("tool")
    assert received == [{"tool"}]


@pytest.mark.spec("SES-1", "SES-5", "STO-9")
async def test_a_fact_that_is_refused_since_the_session_has_ended_is_not_set_in_the_next_session_of_that_name() -> None:
    store = MemoryStore()
    async with desk().stored_sessions(store) as here, desk().stored_sessions(store) as there, here.open("chat") as one:
        one.set_fact("unlocked", True)
        await there.end("chat")
        with pytest.raises(SessionClosed):
            await one.flush()
        async with there.open("chat") as another:
            await one.flush()
            async with another.request():
                assert another.snapshot.facts == {}


@pytest.mark.spec("SES-5", "PER-3")
async def test_a_fact_that_is_set_while_another_process_has_taken_a_transition_is_stored_after_that() -> None:
    store = MemoryStore()
    async with (
        desk().stored_sessions(store) as here,
        desk().stored_sessions(store) as there,
        here.open("chat") as one,
        there.open("chat") as other,
    ):
        await other.activate("plain")
        one.set_fact("late", True)
        await one.flush()
        assert (one.active, one.facts) == (("plain",), {"late": True})


@pytest.mark.spec("STO-2")
async def test_a_hook_that_goes_on_after_its_lease_was_lost_changes_nothing() -> None:
    store = Deaf(lease=10.0)

    async def go_on(context: HookContext) -> None:
        journal = context.session.state.stored
        assert journal.token is not None
        await store.release(journal.key, journal.token)
        with anyio.CancelScope() as scope:
            journal.hook_begins(scope)
            await journal.renew()
            await anyio.sleep_forever()

    async with hooked(go_on).stored_sessions(store) as stored, stored.open("chat") as session:
        with pytest.raises(LeaseLost):
            await session.activate("lock")
        await session.activate("free")
    async with desk_with_lock().stored_sessions(store) as stored, stored.open("chat") as session:
        assert session.active == ("free",)


def desk_with_lock() -> ToolSet:
    """Return the groups of `hooked`, without hooks."""
    tools = ToolSet("desk", control="none")
    tools.register_group("lock")
    tools.register_group("free")
    return tools


@pytest.mark.spec("STO-5")
async def test_a_transition_whose_caller_is_cancelled_while_it_is_stored_is_stored_and_ends_as_cancelled() -> None:
    store = Interrupting()
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        step = asyncio.ensure_future(session.activate("plain"))
        store.meanwhile = step.cancel
        with pytest.raises(asyncio.CancelledError):
            await step
        assert session.active == ("plain",)
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        assert session.active == ("plain",)


@pytest.mark.spec("STO-2")
async def test_a_lease_that_is_lost_before_any_hook_runs_cancels_nothing() -> None:
    store = Deaf()
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        await hold(session)
        journal = session.state.stored
        await store.release(journal.key, journal.token or 0)
        await journal.renew()
        with pytest.raises(LeaseLost):
            await session.activate("mail")
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        assert session.active == ()


@pytest.mark.spec("STO-1", "STO-4", "PER-3")
async def test_a_record_that_takes_the_place_of_one_that_was_known_is_not_taken_for_it() -> None:
    store = MemoryStore()
    async with desk().stored_sessions(store) as here, desk().stored_sessions(store) as there:
        async with here.open("chat") as session:
            await session.activate("mail")
        await there.end("chat")
        async with there.open("chat") as another:
            await another.activate("plain")
        async with here.open("chat") as session:
            assert session.active == ("plain",)


@pytest.mark.spec("STO-9", "PER-3")
@pytest.mark.parametrize("other", [(), ("notes",)], ids=["at once", "after a transition of another process"])
async def test_a_process_takes_over_what_a_store_has_that_has_lost_the_state_it_knows(other: tuple[str, ...]) -> None:
    store = Forgetful()
    async with desk().stored_sessions(store) as here, desk().stored_sessions(store) as there:
        async with here.open("chat") as session:
            await session.activate("plain")
            rows = store.rows()
            await session.activate("mail")
        store.restore(rows)
        async with there.open("chat") as session:
            await session.transition(activate=other)
        async with here.open("chat") as session:
            assert session.active == (*other, "plain")
            await session.deactivate("plain")
        assert session.active == other
