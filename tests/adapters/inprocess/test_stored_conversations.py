"""Conversations in a store: another process, or the same one later, continues with them (SPEC STO-1, STO-4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.adapters.inprocess.support import load, names
from tests.blocked import all_blocked
from toolfold import (
    ConfigError,
    Context,
    GroupNotFound,
    HookContext,
    Limit,
    QuotaExceeded,
    SessionClosed,
    Store,
    StoredSessions,
    StoreError,
    StoreUnavailable,
    ToolError,
    ToolSet,
)
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.stores import MemoryStore, SQLiteStore

pytestmark = pytest.mark.spec("STO-1", "STO-4")


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Store]:
    async with MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "state.db") as made:
        yield made


def desk(ran: list[str] | None = None, *, fails: bool = False) -> ToolSet:
    """Return a tool set as each process has one; its hooks note what they open and close."""
    tools = ToolSet("desk", control="load_tool_group")

    def hook(context: HookContext) -> None:
        if fails:
            raise ToolError("the mail server is away")
        if ran is not None:
            ran.append(f"{context.phase} {context.group}")

    for path in ("mail", "files", "archive"):
        tools.register_group(path, path, on_activate=hook, on_deactivate=hook, run_in_thread=False)
        tools.register("look", lambda: "seen", description="Look.", group=path, input_schema={"type": "object"})

    @tools.tool()
    async def count(context: Context) -> int:
        """Count the calls."""
        number = int(context.session.facts.get("count", 0)) + 1
        context.session.set_fact("count", number)
        return number

    return tools


async def loaded(conversation: Conversation, *groups: str) -> None:
    for result in await conversation.execute(load(*groups)):
        assert not result.is_error, result.text


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_another_process_continues_with_the_groups_their_order_and_the_facts(store: Store) -> None:
    ran: list[str] = []
    async with desk(ran).stored_sessions(store) as stored, stored.open("chat") as session:
        conversation = Conversation.of_session(session)
        await loaded(conversation, "mail", "archive", "files")
        await conversation.execute([("count", {})])
        listed = conversation.loaded
    async with desk(ran).stored_sessions(store) as stored, stored.open("chat") as session:
        conversation = Conversation.of_session(session)
        assert conversation.loaded == listed == ("mail", "archive", "files")
        assert [result.text for result in await conversation.execute([("mail__look", {}), ("count", {})])] == [
            "seen",
            "2",
        ]
        assert ran == ["on_activate mail", "on_activate archive", "on_activate files"]
        await stored.end("chat")
    assert sorted(ran[3:]) == ["on_deactivate archive", "on_deactivate files", "on_deactivate mail"]


async def test_a_conversation_in_use_follows_what_another_process_does(store: Store) -> None:
    async with (
        desk().stored_sessions(store) as here,
        desk().stored_sessions(store) as there,
        here.open("chat") as session,
        there.open("chat") as other,
    ):
        first, second = Conversation.of_session(session), Conversation.of_session(other)
        await loaded(first, "mail")
        assert (await second.execute([("mail__look", {})]))[0].text == "seen"
        assert second.loaded == ("mail",)
        await loaded(second, "files")
        assert (await first.call("files__look", {})).text == "seen"
        assert "files__look" in names(first)


async def test_a_conversation_that_was_ended_elsewhere_is_over(store: Store) -> None:
    async with desk().stored_sessions(store) as here, desk().stored_sessions(store) as there:
        async with here.open("chat") as session:
            conversation = Conversation.of_session(session)
            await there.end("chat")
            with pytest.raises(SessionClosed):
                await conversation.execute([("count", {})])
        async with here.open("chat", active="mail") as session:
            assert session.active == ("mail",)


@pytest.mark.spec("STO-3", "HOOK-5")
async def test_a_transition_whose_process_died_is_undone_by_whoever_continues() -> None:
    now = [0.0]
    store, ran = MemoryStore(lambda: now[0]), list[str]()
    dying: Any = Dying(store)
    async with desk(ran).stored_sessions(dying) as stored, stored.open("chat") as session:
        await session.activate("mail")
        dying.after = 1  # the lease, with the intent of the first hook
        with pytest.raises(StoreError):
            await session.transition(activate=["archive", "files"])
    now[0] += store.lease
    async with desk(ran).stored_sessions(store) as stored, stored.open("chat") as session:
        assert session.active == ("mail",)
        assert ran == ["on_activate mail", "on_activate archive", "on_deactivate archive"]


class Dying:
    """A store that stops to answer after so many operations, as for a process that is gone."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.after = 1_000_000

    def __getattr__(self, name: str) -> Any:
        if name in ("lease", "changes", "due"):
            return getattr(self._store, name)

        async def asked(*arguments: Any, **options: Any) -> Any:
            self.after -= 1
            if self.after < 0:
                raise StoreUnavailable("The store is away.")
            return await getattr(self._store, name)(*arguments, **options)

        return asked


@pytest.mark.spec("STO-2", "HOOK-9")
async def test_a_conversation_that_is_ended_while_another_process_opens_a_group_leaves_nothing_open() -> None:
    ran: list[str] = []
    begun, proceed = anyio.Event(), anyio.Event()

    def process() -> ToolSet:
        async def on() -> None:
            ran.append("on")
            begun.set()
            await proceed.wait()

        tools = ToolSet("desk")
        tools.register_group("lock", on_activate=on, on_deactivate=lambda: ran.append("off"), run_in_thread=False)
        return tools

    store = MemoryStore()
    async with (
        process().stored_sessions(store) as here,
        process().stored_sessions(store) as there,
        here.open("chat") as session,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.activate, "lock")
        await begun.wait()
        tasks.start_soon(there.end, "chat")
        await all_blocked()
        proceed.set()
    assert ran == ["on", "off"]


@pytest.mark.spec("STO-3", "HOOK-5")
async def test_a_conversation_that_is_ended_before_the_lease_of_a_dead_process_has_expired_is_rolled_back() -> None:
    ran: list[str] = []
    store = MemoryStore(partial(next, count()))  # each look at the clock takes a second
    dying: Any = Dying(store)
    async with desk(ran).stored_sessions(dying) as stored, stored.open("chat") as session:
        dying.after = 1
        with pytest.raises(StoreError):
            await session.transition(activate=["archive", "files"])
    async with desk(ran).stored_sessions(store) as stored:
        await stored.end("chat")
        assert list(await store.due("desk/session", 1)) == []
    assert ran == ["on_activate archive", "on_deactivate archive"]


@pytest.mark.spec("STO-5")
async def test_while_the_store_is_away_calls_are_answered_with_that_and_nothing_is_lost() -> None:
    store: Any = Dying(MemoryStore())
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        conversation = Conversation.of_session(session)
        await loaded(conversation, "mail")
        store.after = 0
        refused = [
            *await conversation.execute([("mail__look", {}), ("count", {})]),
            await conversation.call("count", {}),
        ]
        assert [(result.is_error, result.text) for result in refused] == [(True, "The store is away.")] * 3
        assert "mail__look" in names(conversation)
        store.after = 1_000
        assert (await conversation.call("count", {})).text == "1"


@pytest.mark.spec("SES-1")
async def test_no_name_leads_to_the_session_of_another_caller(store: Store) -> None:
    async with desk().stored_sessions(store) as stored, stored.open("chat", caller="ann") as session:
        await session.activate("mail")
        for name, caller in (("chat", None), ("chat", "bob"), ('["chat", "ann"]', None), ("chat ann", None)):
            async with stored.open(name, caller=caller) as other:
                assert other.active == ()


@pytest.mark.spec("FND-4")
async def test_a_conversation_with_a_pinned_group_ends(store: Store) -> None:
    tools = desk()
    tools.register_group("always", pinned=True)
    async with tools.stored_sessions(store) as stored:
        await opened(stored, "chat", active="mail")
        with anyio.fail_after(60):
            await stored.end("chat")
        async with stored.open("chat") as session:
            assert session.active == ("always",)


# -- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("STO-7", "SES-4")
async def test_conversations_are_bounded_in_all_and_per_caller_and_a_caller_has_its_own(store: Store) -> None:
    async with desk().stored_sessions(store, limit=Limit(3, 1)) as stored:
        async with stored.open("chat", caller="ann") as ann, stored.open("chat", caller="bob") as bob:
            await ann.activate("mail")
            assert bob.active == ()
        with pytest.raises(QuotaExceeded, match="1 stored sessions of one caller"):
            await opened(stored, "other", caller="ann")
        await opened(stored, "anybody's")
        with pytest.raises(QuotaExceeded, match="3 stored sessions in all"):
            await opened(stored, "other")
        await stored.end("chat", caller="ann")
        await opened(stored, "other", caller="ann")


@pytest.mark.spec("STO-7", "SES-4")
async def test_the_idlest_conversation_of_a_caller_makes_room_where_that_is_chosen(store: Store) -> None:
    ran: list[str] = []
    async with desk(ran).stored_sessions(store, limit=Limit(None, 1, "end_idlest")) as stored:
        await opened(stored, "first", caller="ann", active="mail")
        await opened(stored, "bob's", caller="bob", active="mail")
        await opened(stored, "second", caller="ann")
    assert ran == ["on_activate mail", "on_activate mail", "on_deactivate mail"]


@pytest.mark.spec("STO-7", "SES-3")
async def test_a_conversation_without_use_for_its_lifetime_is_ended_in_the_background() -> None:
    now = [0.0]
    store, ran = MemoryStore(lambda: now[0]), list[str]()
    async with desk(ran).stored_sessions(store, lifetime=60) as stored:
        await opened(stored, "chat", active="mail")
        now[0] += 59
        async with stored.open("chat") as session:
            now[0] += 59
            await Conversation.of_session(session).execute([("count", {})])
            now[0] += 59
            assert (await Conversation.of_session(session).call("count", {})).text == "2"
    now[0] += 60
    async with desk(ran).stored_sessions(store, lifetime=60):
        with anyio.fail_after(60):
            while len(ran) < 2:  # the hook runs in a thread
                await anyio.lowlevel.checkpoint()
        assert ran == ["on_activate mail", "on_deactivate mail"]


async def test_what_can_not_begin_stores_nothing(store: Store) -> None:
    async with desk().stored_sessions(store, limit=Limit(1)) as stored:
        with pytest.raises(GroupNotFound):
            await opened(stored, "chat", active="nothing")
        with pytest.raises(ConfigError):
            await opened(stored, "chat", profile="nothing")
        await opened(stored, "chat")


async def test_a_group_to_start_with_whose_hook_fails_is_tried_again(store: Store) -> None:
    async with desk(fails=True).stored_sessions(store) as stored:
        with pytest.raises(Exception, match="the mail server is away"):
            await opened(stored, "chat", active="mail")
    async with desk().stored_sessions(store) as stored, stored.open("chat", active="mail") as session:
        assert session.active == ("mail",)


@pytest.mark.spec("NTF-1", "STO-7")
async def test_a_listener_is_notified_until_its_conversation_is_left(store: Store) -> None:
    notified: list[str] = []
    async with desk().stored_sessions(store) as stored:
        for name in ("first", "second"):
            async with stored.open("chat") as session:
                session.on_list_changed(lambda kinds, name=name: notified.append(name))  # type: ignore[misc]
                await session.transition(activate=["mail"] if name == "first" else ["files"])
    assert notified == ["first", "second"]


async def test_outside_of_its_context_a_session_takes_no_requests(store: Store) -> None:
    async with desk().stored_sessions(store) as stored, stored.open("chat") as session:
        pass
    with pytest.raises(SessionClosed):
        await session.activate("mail")


async def opened(stored: StoredSessions, name: str, **options: Any) -> None:
    async with stored.open(name, **options):
        pass
