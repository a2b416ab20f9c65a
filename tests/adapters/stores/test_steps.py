"""What a transition of a stored session writes, and leaves for the next one (SPEC STO-1, STO-4, NTF-1, SES-5)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from toolfold import (
    GroupNotFound,
    HookContext,
    Lease,
    LeaseLost,
    Limit,
    QuotaExceeded,
    Store,
    StoredSessions,
    StoreUnavailable,
    ToolSet,
)
from toolfold._session.state import MAX_DATA, MAX_PENDING
from toolfold.spi import SessionKind
from toolfold_adapters.stores import MemoryStore, SQLiteStore

UNLIMITED = Limit(None, None)


class Interrupting(MemoryStore):
    """A store in which something else happens while a swap is under way."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None
        self.answers = True

    async def swap(self, *args: Any, **named: Any) -> int | None:
        """Do what is to happen meanwhile, once, and then swap; do not answer, once, if that is to be."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        version, answers, self.answers = await super().swap(*args, **named), self.answers, True
        if not answers:
            raise StoreUnavailable(StoreUnavailable.AWAY)
        return version


def desk(events: list[str] | None = None) -> ToolSet:
    """Return two groups, one with a tool and one with a prompt, whose hooks note what they do."""
    tools, received = ToolSet("desk", control="none"), [] if events is None else events
    for path in ("mail", "notes"):
        tools.register_group(
            path,
            on_activate=lambda path=path: received.append(f"open {path}"),
            on_deactivate=lambda path=path: received.append(f"close {path}"),
            run_in_thread=False,
        )
    tools.register_group("plain")
    tools.register("send", lambda: "sent", description="Send.", group="mail")
    tools.register_prompt("summary", lambda: "…", description="Sum up.", group="notes")
    return tools


def of_kind(tools: ToolSet, store: Store) -> tuple[StoredSessions, StoredSessions]:
    """Return the sessions that own groups, and those that inherit them, as one process has them."""
    owners = StoredSessions(tools, store, SessionKind("owner", "owners", UNLIMITED, 600))
    return owners, StoredSessions(tools, store, SessionKind("heir", "heirs", UNLIMITED, 600), owners)


@pytest.mark.spec("SES-5", "STO-1")
@pytest.mark.parametrize("path", ["mail", "plain"], ids=["under a lease", "by a swap alone"])
async def test_a_fact_that_is_set_while_a_transition_is_stored_is_retained_here_and_stored_next(path: str) -> None:
    store = Interrupting()
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:

        def set_late() -> None:
            session.set_fact("late", True)

        session.set_fact("early", True)
        store.meanwhile = set_late
        await session.activate(path)
        assert (session.active, session.facts) == ((path,), {"early": True, "late": True})
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        assert (session.active, session.facts) == ((path,), {"early": True, "late": True})


@pytest.mark.spec("SES-5", "STO-5", "STO-9")
async def test_a_fact_that_is_set_while_a_transition_is_stored_outlives_that_the_store_does_not_answer() -> None:
    store = Interrupting()
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:

        def set_late() -> None:
            session.set_fact("late", True)
            store.answers = False

        session.set_fact("early", True)
        store.meanwhile = set_late
        with pytest.raises(StoreUnavailable, match="may or may not"):
            await session.activate("plain")
        async with session.request():
            assert (session.active, session.facts) == (("plain",), {"early": True, "late": True})
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        assert session.facts == {"early": True, "late": True}


@pytest.mark.spec("STO-5", "STO-9", "PER-3")
@pytest.mark.parametrize("is_read", [False, True], ids=["read by it", "read by another request"])
@pytest.mark.parametrize("was_stored", [True, False])
async def test_a_request_that_gave_out_an_unanswered_fact_fails_if_a_newer_record_lacks_it(
    was_stored: bool, is_read: bool
) -> None:
    store = Interrupting()
    unknown = partial(pytest.raises, StoreUnavailable, match="may or may not")

    def fail() -> None:
        raise StoreUnavailable(StoreUnavailable.AWAY)

    sessions = desk().stored_sessions
    async with sessions(store) as here, sessions(store) as there, here.open("chat") as session:
        session.set_fact("unlocked", True)
        store.answers, store.meanwhile = False, None if was_stored else fail
        with unknown():
            await session.flush()
        store.answers = True
        with nullcontext() if was_stored else unknown():
            async with session.request():
                assert session.facts == {"unlocked": True}
                async with there.open("chat") as other:
                    await other.activate("plain")
                if is_read:
                    async with session.request():
                        assert session.active == ("plain",)
        async with session.request():
            assert (session.active, session.facts) == (("plain",), {"unlocked": True} if was_stored else {})


@pytest.mark.spec("SES-5", "STO-4", "PER-3")
async def test_a_fact_that_is_not_stored_yet_outlives_a_transition_of_another_process() -> None:
    store = MemoryStore()
    async with desk().stored_sessions(store) as here, desk().stored_sessions(store) as there:
        async with here.open("chat") as session:
            session.set_fact("unlocked", True)
            async with there.open("chat") as other:
                await other.activate("plain")
            async with session.request():
                assert (session.active, session.facts) == (("plain",), {"unlocked": True})
        async with there.open("chat") as other:
            assert (other.active, other.facts) == (("plain",), {"unlocked": True})


@pytest.mark.spec("NTF-1", "STO-4")
async def test_a_change_that_the_client_is_still_to_be_notified_of_stays_so_after_further_transitions() -> None:
    store = MemoryStore()
    _, sessions = of_kind(desk(), store)
    session = sessions.draft("chat", notifies=True)
    for path in ("mail", "notes", "plain"):
        await session.activate(path)
    _, elsewhere = of_kind(desk(), store)
    found = await elsewhere.get("chat")
    assert found is not None
    assert await found.claim() == (frozenset({"tool"}), frozenset({"prompt"}))
    assert await found.claim() == ()


@pytest.mark.spec("NTF-1", "STO-5")
async def test_a_change_is_reported_if_the_store_does_not_say_whether_another_process_is_to_report_it() -> None:
    store = Interrupting()
    _, sessions = of_kind(desk(), store)
    session = sessions.draft("chat", notifies=True)
    await session.activate("mail")
    store.answers = False
    assert await session.claim() == (frozenset({"tool"}),)


@pytest.mark.spec("NTF-1", "STO-7")
async def test_of_a_great_many_transitions_a_bounded_number_is_retained_the_last_of_which_covers_the_rest() -> None:
    _, sessions = of_kind(desk(), MemoryStore())
    session = sessions.draft("chat", notifies=True)
    for _ in range(20):
        await session.activate("mail")
        await session.deactivate("mail")
    await session.activate("notes")
    assert await session.claim() == (*[{"tool"}] * (MAX_PENDING - 1), {"tool", "prompt"})


@pytest.mark.spec("DEL-4", "STO-4")
async def test_a_transition_leaves_the_hooks_of_inherited_groups_to_their_owner_in_whichever_process() -> None:
    store, events = MemoryStore(), list[str]()
    owners, sessions = of_kind(desk(events), store)
    owner = await owners.get_or_create("all", None, ["mail"])
    await owners.get("all")
    heir = sessions.draft("chat", snapshot=owner.snapshot, owner=owner)
    await heir.activate("plain")
    await heir.activate("notes")
    assert events == ["open mail", "open notes"]

    _, elsewhere = of_kind(desk(events), store)
    found = await elsewhere.get("chat")
    assert found is not None
    assert (found.active, found.state.inherited) == (("mail", "notes", "plain"), ("mail",))
    await found.close()
    assert events == ["open mail", "open notes", "close notes"]


@pytest.mark.spec("DEL-4", "STO-4")
async def test_a_group_that_a_transition_closes_and_opens_again_is_no_longer_inherited_in_whichever_process() -> None:
    store, events = MemoryStore(), list[str]()
    owners, sessions = of_kind(desk(events), store)
    await owners.get_or_create("all", None, ["mail"])
    owner = await owners.get("all")
    assert owner is not None
    heir = sessions.draft("chat", snapshot=owner.snapshot, owner=owner)
    await heir.deactivate("mail")
    await heir.activate("mail")
    assert events == ["open mail"] * 2

    _, elsewhere = of_kind(desk(events), store)
    found = await elsewhere.get("chat")
    assert found is not None
    assert found.state.inherited == ()
    await found.close()
    assert events == ["open mail", "open mail", "close mail"]


class Unregistering(MemoryStore):
    """A store that does something else while a lease is taken."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    async def acquire(self, *args: Any, **named: Any) -> Lease | None:
        """Take the lease, and then do what is to happen meanwhile."""
        lease = await super().acquire(*args, **named)
        self.meanwhile()
        return lease


@pytest.mark.spec("STO-3", "REG-7")
async def test_a_transition_that_the_catalog_no_longer_allows_once_it_has_the_lease_leaves_no_intent() -> None:
    events: list[str] = []
    store, tools = Unregistering(), desk(events)
    async with tools.stored_sessions(store) as stored, stored.open("chat") as session:
        await session.activate("plain")
        store.meanwhile = lambda: tools.unregister_group("mail").close()
        with pytest.raises(GroupNotFound):
            await session.activate("mail")
        store.meanwhile = lambda: None
        assert list(await store.due("desk/session", 10)) == []
        await session.deactivate("plain")
    assert events == []


@pytest.mark.spec("STO-2", "HOOK-4")
async def test_a_transition_whose_lease_another_has_taken_between_two_hooks_runs_no_more_of_them() -> None:
    store, events = MemoryStore(), list[str]()
    tools = ToolSet("desk", control="none")

    async def lose(context: HookContext) -> None:
        events.append("first")
        await store.release(context.session.id, context.fence or 0)

    tools.register_group("mail", on_activate=lose)
    tools.register_group("notes", on_activate=lambda: events.append("second"))
    async with tools.stored_sessions(store) as stored, stored.open("chat") as session:
        with pytest.raises(LeaseLost):
            await session.transition(activate=["mail", "notes"])
        assert session.active == ()
    assert events == ["first"]


@pytest.mark.spec("STO-7")
async def test_what_is_too_long_for_a_record_is_refused_before_it_is_stored(tmp_path: Path) -> None:
    async with SQLiteStore(tmp_path / "state.db") as store:
        owners, _ = of_kind(desk(), store)
        with pytest.raises(QuotaExceeded, match="characters of a stored session"):
            await owners.ensure(owners.draft("chat", about="x" * MAX_DATA))
        assert await store.read(owners.key("chat")) is None
