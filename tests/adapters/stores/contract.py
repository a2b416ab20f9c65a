"""What every store does (SPEC STO-1, STO-2, STO-7, PER-3): cases to run against any engine.

Each case is given two stores on the same records, as two processes have them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from toolfold import Place, Record, Store

PATIENCE = 60.0
LONG = 600.0
SHORT = 0.05
PLACE = Place("desk/handle")

Case = Callable[[Store, Store], Awaitable[None]]


async def created(store: Store, key: str = "desk/handle/1", lifetime: float = LONG, place: Place = PLACE) -> str:
    """Create a record and return its key."""
    assert await store.create(key, "{}", place, lifetime) == "created"
    return key


async def leased(store: Store, key: str, seconds: float = LONG) -> int:
    """Acquire the lease of a record, once nobody holds it, and return its token."""
    with anyio.fail_after(PATIENCE):
        while True:
            lease = await store.acquire(key, seconds)
            assert lease is not None
            if lease.token is not None:
                return lease.token
            await anyio.sleep(SHORT / 5)


async def gone(store: Store, key: str) -> None:
    """Wait until a record has expired; looking at it would be a use, so it is looked for among those that are due."""
    with anyio.fail_after(PATIENCE):
        while key not in await store.due("desk/handle", 10):  # noqa: ASYNC110 - time passes in the store alone
            await anyio.sleep(SHORT / 5)


async def a_record_is_read_as_it_was_created(store: Store, other: Store) -> None:
    assert await other.read("desk/handle/1") is None
    key = await created(store)
    assert await other.read(key) == Record(1, "{}")
    assert await other.create(key, "[]", PLACE, LONG) == "exists"
    assert await store.read(key) == Record(1, "{}")


async def of_two_swaps_from_one_version_one_wins(store: Store, other: Store) -> None:
    key = await created(store)
    outcomes: list[bool] = []

    async def swap(one: Store, data: str) -> None:
        outcomes.append(await one.swap(key, 1, data))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(swap, store, "first")
        tasks.start_soon(swap, other, "second")
    record = await store.read(key)
    assert sorted(outcomes) == [False, True]
    assert record is not None
    assert record.version == 2
    assert record.data in ("first", "second")


async def a_lease_excludes_others(store: Store, other: Store) -> None:
    key = await created(store)
    token = await leased(store, key)
    refused = await other.acquire(key, LONG)
    assert refused is not None
    assert refused.token is None
    assert 0 < refused.record.held <= LONG
    assert not await other.swap(key, 1, "stolen")
    assert not await other.swap(key, 1, "stolen", token=token + 1)
    assert not await other.delete(key, token + 1)
    assert not await other.intend(key, "stolen", token + 1)
    assert await store.intend(key, "intent", token)
    assert await other.read(key) is not None
    assert await store.swap(key, 1, "mine", token)
    assert await other.swap(key, 2, "yours")


async def a_swap_ends_the_lease_and_removes_the_intent(store: Store, other: Store) -> None:
    key = await created(store)
    token = await leased(store, key)
    assert await store.intend(key, "open a", token)
    assert await store.swap(key, 1, "done", token=token)
    assert not await store.swap(key, 2, "again", token=token)
    lease = await other.acquire(key, LONG)
    assert lease is not None
    assert ((lease.token or 0) > token, lease.record) == (True, Record(2, "done"))


async def a_holder_whose_lease_has_expired_writes_nothing(store: Store, other: Store) -> None:
    key = await created(store)
    before = await leased(store, key, SHORT)
    assert await store.intend(key, "intent", before)
    after = await leased(other, key)
    assert after > before
    assert not await store.swap(key, 1, "late", token=before)
    assert not await store.intend(key, "late", before)
    assert not await store.renew(key, before, LONG)
    assert not await store.delete(key, before)
    await store.release(key, before)
    assert await other.swap(key, 1, "rolled back", token=after)


async def a_lease_that_expired_is_lost_though_nobody_took_it(store: Store, other: Store) -> None:
    key = await created(store)
    token = await leased(store, key, SHORT)
    with anyio.fail_after(PATIENCE):
        while (record := await other.read(key)) is not None and record.held:  # noqa: ASYNC110 - likewise
            await anyio.sleep(SHORT / 5)
    assert not await store.swap(key, 1, "late", token=token)
    assert not await store.renew(key, token, LONG)


async def a_lease_that_is_renewed_goes_on(store: Store, other: Store) -> None:
    key = await created(store)
    token = await leased(store, key, LONG)
    assert await store.renew(key, token, 2 * LONG)
    record = await other.read(key)
    assert record is not None
    assert record.held > LONG


async def an_intent_is_left_to_the_next_holder(store: Store, other: Store) -> None:
    key = await created(store)
    token = await leased(store, key)
    assert await store.intend(key, "open a", token)
    await store.release(key, token)
    assert not await other.swap(key, 1, "ignoring it")
    assert list(await other.due("desk/handle", 10)) == [key]
    lease = await other.acquire(key, LONG)
    assert lease is not None
    assert ((lease.token or 0) > token, lease.record) == (True, Record(1, "{}", "open a"))
    assert list(await store.due("desk/handle", 10)) == []
    assert await other.swap(key, 1, "{}", lease.token)
    assert await store.read(key) == Record(2, "{}")


async def an_intent_comes_with_the_lease_if_the_record_is_the_known_one(store: Store, other: Store) -> None:
    key = await created(store)
    for version, recorded in ((2, None), (1, "open a")):
        lease = await store.acquire(key, LONG, version, "open a")
        assert lease is not None
        assert lease.record == Record(1, "{}")
        record = await other.read(key)
        assert record is not None
        assert record.intent == recorded
        await store.release(key, lease.token or 0)
    again = await other.acquire(key, LONG, 1, "open b")
    assert again is not None
    assert again.record == Record(1, "{}", "open a")
    record = await store.read(key)
    assert record is not None
    assert record.intent == "open a"


async def an_intent_that_is_taken_back_ends_the_lease(store: Store, other: Store) -> None:
    key = await created(store)
    token = await leased(store, key)
    assert await store.intend(key, "open a", token)
    assert await store.intend(key, None, token)
    assert await other.read(key) == Record(1, "{}")
    assert list(await other.due("desk/handle", 10)) == []
    assert await other.swap(key, 1, "[]")


async def a_record_that_expired_is_due_and_can_be_taken_over(store: Store, other: Store) -> None:
    key = await created(store, lifetime=SHORT)
    await gone(other, key)
    assert await store.read(key) is None
    assert await store.create(key, "{}", PLACE, LONG) == "exists"
    assert await other.delete(key, await leased(other, key))
    assert await store.acquire(key, LONG) is None
    assert list(await store.due("desk/handle", 10)) == []
    await created(store)


async def a_token_is_greater_than_those_of_a_record_that_was_deleted(store: Store, other: Store) -> None:
    key = await created(store)
    before = await leased(store, key)
    assert await store.delete(key, before)
    await created(other)
    assert await leased(other, key) > before


async def the_records_of_a_kind_are_bounded(store: Store, other: Store) -> None:
    place = Place("desk/handle", "ann", total=2)
    first = await created(store, "desk/handle/1", place=place)
    await created(other, "desk/handle/2", place=place)
    assert await store.create("desk/handle/3", "{}", place, LONG) == "full"
    assert await store.create("desk/shared/3", "{}", Place("desk/shared", "ann", total=2), LONG) == "created"
    assert await other.delete(first, await leased(other, first))
    await created(store, "desk/handle/3", place=place)


async def the_records_of_a_caller_are_bounded_and_the_idlest_is_known(store: Store, other: Store) -> None:
    ann, bob = (Place("desk/handle", caller, total=10, per_caller=2) for caller in ("ann", "bob"))
    first = await created(store, "desk/handle/1", place=ann)
    second = await created(store, "desk/handle/2", place=ann)
    assert await other.create("desk/handle/3", "{}", ann, LONG) == "caller_full"
    assert await other.create("desk/handle/3", "{}", bob, LONG) == "created"
    assert await other.idlest("desk/handle", "ann") == first
    await leased(store, first)
    assert await other.idlest("desk/handle", "ann") == second
    assert await other.idlest("desk/handle", "eve") is None


async def changes_are_published_to_others(store: Store, other: Store) -> None:
    key = await created(store)
    seen: list[str | None] = []

    async def follow() -> None:
        async for changed in other.changes():
            if changed is not None:
                seen.append(changed)
                return

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            version = 1
            while not seen:  # whoever begins to follow sees what comes then
                assert await store.swap(key, version, str(version))
                version += 1
                await anyio.sleep(SHORT / 5)
    assert seen == [key]


CASES: tuple[Case, ...] = (
    a_record_is_read_as_it_was_created,
    of_two_swaps_from_one_version_one_wins,
    a_lease_excludes_others,
    a_swap_ends_the_lease_and_removes_the_intent,
    a_holder_whose_lease_has_expired_writes_nothing,
    a_lease_that_expired_is_lost_though_nobody_took_it,
    a_lease_that_is_renewed_goes_on,
    an_intent_is_left_to_the_next_holder,
    an_intent_comes_with_the_lease_if_the_record_is_the_known_one,
    an_intent_that_is_taken_back_ends_the_lease,
    a_record_that_expired_is_due_and_can_be_taken_over,
    a_token_is_greater_than_those_of_a_record_that_was_deleted,
    the_records_of_a_kind_are_bounded,
    the_records_of_a_caller_are_bounded_and_the_idlest_is_known,
    changes_are_published_to_others,
)
