"""Sessions in a store begin and end once, whichever process does it (SPEC STO-1, STO-3, STO-7, STO-8)."""

from __future__ import annotations

import logging

import anyio
import pytest

from tests.adapters.stores.test_steps import desk, of_kind
from tests.adapters.stores.test_two_processes import Deaf, hooked
from tests.blocked import all_blocked
from toolfold import (
    Created,
    HookContext,
    Limit,
    Place,
    Profile,
    Record,
    Session,
    SessionClosed,
    StoreError,
    ToolSet,
)
from toolfold._session import stored as sessions_module
from toolfold._session import upkeep as upkeep_module
from toolfold._session.stored import resume
from toolfold.spi import Full
from toolfold_adapters.stores import MemoryStore


@pytest.mark.spec("STO-2", "SES-2")
@pytest.mark.parametrize("is_answered", [True, False], ids=["as it is answered", "before it is answered"])
async def test_a_request_that_finds_a_session_while_it_is_created_shares_it_with_its_creator(is_answered: bool) -> None:
    running, go_on = anyio.Event(), anyio.Event()

    class Creating(MemoryStore):
        async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
            """Create a record, and have another request find it at once."""
            created = await super().create(key, data, place, lifetime)
            tasks.start_soon(find)
            if not is_answered:
                await running.wait()
            return created

    async def wait(_: HookContext) -> None:
        running.set()
        await go_on.wait()

    found: list[Session] = []

    async def find() -> None:
        async with sessions.open("chat") as session:
            found.append(session)
            assert await session.activate("lock")

    async with (
        hooked(wait).stored_sessions(Creating()) as sessions,
        anyio.create_task_group() as tasks,
        sessions.open("chat") as session,
    ):
        await running.wait()
        tasks.start_soon(session.activate, "free")
        await all_blocked()
        assert session.active == ()
        go_on.set()
    assert (session.active, found) == (("free", "lock"), [session])


@pytest.mark.spec("SES-3", "STO-4")
async def test_a_session_that_is_closed_here_is_closed_with_what_another_process_has_opened() -> None:
    store, log = MemoryStore(), list[str]()
    async with (
        desk(log).stored_sessions(store) as here,
        desk().stored_sessions(store) as there,
        here.open("chat") as one,
        there.open("chat") as other,
    ):
        await other.activate("mail")
        await one.close()
        with pytest.raises(SessionClosed):
            await other.activate("notes")
    assert log == ["close mail"]


@pytest.mark.spec("SES-3", "STO-4")
async def test_a_session_that_another_process_has_ended_takes_no_transition_and_no_request_and_closes_quietly() -> None:
    store = MemoryStore()
    async with desk().stored_sessions(store) as here, desk().stored_sessions(store) as there:
        async with here.open("chat") as one:
            await there.end("chat")
            with pytest.raises(SessionClosed):
                await one.activate("mail")
            await one.close()
            await one.flush()  # nothing is left to be stored
        await there.end("chat")  # there is none
        async with here.open("chat") as new:
            assert new is not one
            await there.end("chat")
            with pytest.raises(SessionClosed):
                async with new.request():
                    pass


@pytest.mark.spec("STO-4", "STO-9")
@pytest.mark.parametrize("path", ["mail", "plain"], ids=["under a lease", "by a swap alone"])
async def test_groups_to_start_with_are_not_opened_again_by_a_process_that_another_has_overtaken(path: str) -> None:
    store = MemoryStore()
    (_, here), (_, there) = of_kind(desk(), store), of_kind(desk(), store)
    slow = here.draft("chat", start=(path,))
    await here.ensure(slow)
    quick = await there.get("chat")
    assert quick is not None
    assert quick.active == (path,)
    await quick.deactivate(path)
    await resume(slow)
    assert slow.active == ()


@pytest.mark.spec("STO-1")
@pytest.mark.parametrize("is_held", [False, True], ids=["at rest", "under a lease"])
async def test_a_process_that_is_slower_to_create_a_session_goes_on_with_the_one_that_was_faster(
    monkeypatch: pytest.MonkeyPatch, is_held: bool
) -> None:
    monkeypatch.setattr(sessions_module, "PAUSE", 0.0)

    class Late(MemoryStore):
        misses = 2

        async def read(self, key: str) -> Record | None:
            """Return a record, but not at first."""
            self.misses -= 1
            return None if self.misses >= 0 else await super().read(key)

    store = Late()
    async with (
        desk().stored_sessions(store) as here,
        desk().stored_sessions(store) as there,
        here.open("chat") as one,
    ):
        await one.activate("plain")
        store.misses = 1
        if is_held:
            await store.acquire(one.id, 100)
        async with there.open("chat") as other:
            assert other.active == ("plain",)


@pytest.mark.spec("STO-8", "SES-6")
async def test_a_session_whose_profile_does_not_exist_any_more_is_refused_and_swept_when_it_expires() -> None:
    now = [0.0]
    store = MemoryStore(lambda: now[0])
    before = desk()
    owners, _ = of_kind(before, store)
    await owners.ensure(owners.draft("chat", Profile("guest")))
    after, _ = of_kind(desk(), store)
    with pytest.raises(StoreError, match="profile of the stored session"):
        await after.get("chat")
    now[0] = 10_000
    assert await after._upkeep.sweep()
    assert list(await store.due("desk/owner", 10)) == []


@pytest.mark.spec("STO-5", "STO-8")
async def test_a_sweep_that_the_store_or_a_record_prevents_is_logged_and_comes_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    store = Deaf(clock=lambda: now[0])
    owners, _ = of_kind(desk(), store)
    await owners.ensure(owners.draft("chat"))
    now[0] = 10_000
    store.deaf = {"acquire": 1}
    with caplog.at_level(logging.WARNING, "toolfold"):
        assert not await owners._upkeep.sweep()
        assert "can't be ended now" in caplog.text
        store.deaf = {"due": 1}
        await owners._upkeep._sweep()
        assert "can't be swept now" in caplog.text
    monkeypatch.setattr(upkeep_module, "AT_ONCE", 1)  # so that it looks for more
    assert await owners._upkeep.sweep()


@pytest.mark.spec("SES-3")
async def test_a_session_that_was_never_opened_can_be_closed() -> None:
    session = desk().open_session()
    await session.close()
    with pytest.raises(SessionClosed):
        await session.activate("mail")


@pytest.mark.spec("STO-3", "STO-4")
async def test_a_session_that_ends_while_a_request_recovers_it_is_not_found() -> None:
    store = Deaf()
    owners, _ = of_kind(desk(), store)
    session = owners.draft("chat")
    await owners.ensure(session)
    assert await store.acquire(owners.key("chat"), 0, 1, "[]") is not None

    def end() -> None:
        store._entries.clear()

    elsewhere, _ = of_kind(desk(), store)
    assert await elsewhere.peek("chat") is not None
    reads = [lambda: None, end]
    store.meanwhile = lambda: reads.pop(0)() if reads else None
    assert await elsewhere.get("chat") is None


@pytest.mark.spec("STO-8")
async def test_a_fault_in_ending_one_session_is_logged_and_the_others_end(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    store = MemoryStore(lambda: now[0])
    owners, _ = of_kind(desk(), store)
    for name in ("one", "two"):
        await owners.ensure(owners.draft(name))
    now[0] = 10_000
    take_over, failed = owners._take_over, list[str]()

    async def fail_once(key: str, asked: bool) -> bool:
        if not failed:
            failed.append(key)
            raise ZeroDivisionError(key)
        return await take_over(key, asked)

    object.__setattr__(owners._upkeep, "end", fail_once)
    with caplog.at_level(logging.ERROR, "toolfold"):
        assert await owners._upkeep.sweep()
    assert f"{failed[0]} can't be ended" in caplog.text
    assert list(await store.due("desk/owner", 10)) == failed


@pytest.mark.spec("STO-5")
async def test_a_sweep_of_a_session_that_the_store_answers_once_for_is_put_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, asked = Deaf(), [0]
    owners, _ = of_kind(desk(), store)
    await owners.ensure(owners.draft("chat"))
    assert await store.acquire(owners.key("chat"), 0, 1, "[]") is not None

    def second() -> None:
        asked[0] += 1
        store.deaf = {"acquire": int(asked[0] == 4)}  # after `due` of heirs and owners, and the lease

    elsewhere, _ = of_kind(desk(), store)
    store.meanwhile = second
    with caplog.at_level(logging.WARNING, "toolfold"):
        assert not await elsewhere._upkeep.sweep()
    assert "can't be ended now: The store does not answer" in caplog.text


@pytest.mark.spec("SES-4", "SAF-4", "STO-7")
@pytest.mark.parametrize(
    ("limit", "caller", "own", "seconds"), [(Limit(3, 1), "ada", True, 50), (Limit(2, 2), "eve", False, 30)]
)
async def test_a_refusal_says_when_the_next_session_of_its_caller_or_of_all_expires(
    limit: Limit, caller: str, own: bool, seconds: int
) -> None:
    now = [0.0]
    async with ToolSet("desk").stored_sessions(MemoryStore(lambda: now[0]), lifetime=60, limit=limit) as stored:
        for name, of, now[0] in (("first", "bob", 0), ("second", "ada", 20)):
            async with stored.open(name, caller=of):
                pass
        now[0] = 30
        with pytest.raises(Full) as full:
            async with stored.open("third", caller=caller):
                pass
    assert (full.value.own, full.value.retry_after) == (own, seconds)
