"""What every store does (SPEC STO-1, STO-2, STO-7, PER-3), as cases to run against an engine.

    await check_store(factory)

Each case is a function whose name says what a store does, with asserts of its own. A factory opens two stores on the
same records, as two processes have them, and no records but those. Where an engine is outside of the process, it also
gives what makes trouble for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint
from attrs import frozen

from toolfold import Place, Record, Store

PATIENCE = 60.0
LONG = 600.0
SHORT = 0.05
PLACE = Place("desk/handle")

Case = Callable[[Store, Store], Awaitable[None]]


class Trouble(Protocol):
    """What can be done to the engine of a store that has one outside of this process."""

    def stalled(self) -> AbstractAsyncContextManager[None]:
        """Return a context manager within which nothing that is written is answered."""
        ...

    async def copied(self) -> Callable[[], Awaitable[None]]:
        """Copy what is stored, and return what puts the copy in the place of what was stored since."""
        ...


CaseInTrouble = Callable[[Store, Trouble], Awaitable[None]]


@frozen
class Stores:
    """What is checked: two stores on the same records, one store twice if its records are in memory alone.

    Attributes:
        store: One store.
        other: That of another process.
        trouble: What can be done to the engine; without it, the cases of an engine in trouble are left out.
    """

    store: Store
    other: Store
    trouble: Trouble | None = None


StoreFactory = Callable[[], AbstractAsyncContextManager[Stores]]
"""Opens stores without records, and closes them at the end."""


async def check_store(factory: StoreFactory, cases: Sequence[str] | None = None) -> Sequence[str]:
    """Return the names of the cases that a store was found to do as every store does.

    Args:
        factory: Opens what is checked, anew for each case.
        cases: The names of those to run; all by default.

    Raises:
        ExceptionGroup: Some are not as they should be; its message names them, and each error is of one.
        ValueError: There is no such case.
    """
    if unknown := set(cases or ()).difference(STORE_CASES):
        raise ValueError(f"There is no case {', '.join(sorted(unknown))}; there are {', '.join(STORE_CASES)}.")
    held: list[str] = []
    failures: dict[str, Exception] = {}
    for name in cases or STORE_CASES:
        try:
            if await _holds(factory, name):
                held.append(name)
        except Exception as error:  # also what a store raises that it should not
            error.add_note(f"in the case {name}")
            failures[name] = error
    if failures:
        text = f"{len(failures)} of {len(failures) + len(held)} cases of stores fail: {', '.join(failures)}"
        raise ExceptionGroup(text, list(failures.values()))
    return held


async def _holds(factory: StoreFactory, name: str) -> bool:
    """Run a case, and return whether it applies; raises `AssertionError` if the store does something else."""
    async with factory() as stores:
        if name in _PLAIN:
            await _PLAIN[name](stores.store, stores.other)
        elif stores.trouble is not None:
            await _IN_TROUBLE[name](stores.store, stores.trouble)
        else:
            return False
    return True


async def _created(store: Store, key: str = "desk/handle/1", lifetime: float = LONG, place: Place = PLACE) -> str:
    """Create a record and return its key."""
    assert isinstance(await store.create(key, "{}", place, lifetime), int)
    return key


async def _version_of(store: Store, key: str) -> int:
    """Return the version of a record."""
    record = await store.read(key)
    assert record is not None
    return record.version


async def _leased(store: Store, key: str, seconds: float = LONG) -> int:
    """Acquire the lease of a record, once nobody holds it, and return its token."""
    with anyio.fail_after(PATIENCE):
        while True:
            lease = await store.acquire(key, seconds)
            assert lease is not None
            if lease.token is not None:
                return lease.token
            await anyio.sleep(SHORT / 5)


async def _gone(store: Store, key: str) -> None:
    """Wait until a record has expired; looking at it would be a use, so it is looked for among those that are due."""
    with anyio.fail_after(PATIENCE):
        while key not in await store.due("desk/handle", 10):  # noqa: ASYNC110 - time passes in the store alone
            await anyio.sleep(SHORT / 5)


async def _a_record_is_read_as_it_was_created(store: Store, other: Store) -> None:
    assert await other.read("desk/handle/1") is None
    version = await store.create("desk/handle/1", "{}", PLACE, LONG)
    assert isinstance(version, int)
    assert await other.read("desk/handle/1") == Record(version, "{}")
    assert await other.create("desk/handle/1", "[]", PLACE, LONG) == "exists"
    assert await store.read("desk/handle/1") == Record(version, "{}")


async def _of_two_swaps_from_one_version_one_wins(store: Store, other: Store) -> None:
    key = await _created(store)
    before = await _version_of(store, key)
    outcomes: list[int | None] = []

    async def swap(by: Store, data: str) -> None:
        outcomes.append(await by.swap(key, before, data))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(swap, store, "first")
        tasks.start_soon(swap, other, "second")
    record = await store.read(key)
    assert record is not None
    assert set(outcomes) == {None, record.version}
    assert record.version > before
    assert record.data in ("first", "second")


async def _versions_are_never_used_again(store: Store, other: Store) -> None:
    seen = [0]
    for _ in range(3):
        key = await _created(store)
        seen.append(await _version_of(store, key))
        for by in (other, store):
            version = await by.swap(key, seen[-1], "{}")
            assert version is not None
            seen.append(version)
        assert await store.delete(key, await _leased(store, key))
    assert seen == sorted(set(seen))


async def _a_lease_excludes_others(store: Store, other: Store) -> None:
    key = await _created(store)
    version = await _version_of(store, key)
    token = await _leased(store, key)
    refused = await other.acquire(key, LONG)
    assert refused is not None
    assert refused.token is None
    assert 0 < refused.record.held <= LONG
    assert not await other.swap(key, version, "stolen")
    assert not await other.swap(key, version, "stolen", token=token + 1)
    assert not await other.delete(key, token + 1)
    assert not await other.intend(key, "stolen", token + 1)
    assert await store.intend(key, "intent", token)
    assert await other.read(key) is not None
    mine = await store.swap(key, version, "mine", token)
    assert mine is not None
    assert await other.swap(key, mine, "yours")


async def _a_swap_ends_the_lease_and_removes_the_intent(store: Store, other: Store) -> None:
    key = await _created(store)
    token = await _leased(store, key)
    assert await store.intend(key, "open a", token)
    done = await store.swap(key, await _version_of(store, key), "done", token=token)
    assert done is not None
    assert not await store.swap(key, done, "again", token=token)
    lease = await other.acquire(key, LONG)
    assert lease is not None
    assert ((lease.token or 0) > token, lease.record) == (True, Record(done, "done"))


async def _a_holder_whose_lease_has_expired_writes_nothing(store: Store, other: Store) -> None:
    key = await _created(store)
    version = await _version_of(store, key)
    lease = await store.acquire(key, SHORT, version, "intent")  # at once: it may expire before anything else is done
    assert lease is not None
    before = lease.token
    assert before is not None
    after = await _leased(other, key)
    assert after > before
    assert not await store.swap(key, version, "late", token=before)
    assert not await store.intend(key, "late", before)
    assert not await store.renew(key, before, LONG)
    assert not await store.delete(key, before)
    await store.release(key, before)
    assert await other.swap(key, version, "rolled back", token=after)


async def _a_lease_that_expired_is_lost_though_nobody_took_it(store: Store, other: Store) -> None:
    key = await _created(store)
    token = await _leased(store, key, SHORT)
    with anyio.fail_after(PATIENCE):
        while (record := await other.read(key)) is not None and record.held:  # noqa: ASYNC110 - likewise
            await anyio.sleep(SHORT / 5)
    assert not await store.swap(key, await _version_of(store, key), "late", token=token)
    assert not await store.renew(key, token, LONG)


async def _a_lease_that_is_renewed_goes_on(store: Store, other: Store) -> None:
    key = await _created(store)
    token = await _leased(store, key, LONG)
    assert await store.renew(key, token, 2 * LONG)
    record = await other.read(key)
    assert record is not None
    assert record.held > LONG


async def _a_renewal_is_a_use_unless_the_record_has_expired(store: Store, other: Store) -> None:
    place = Place("desk/handle", "ann")
    first = await _created(store, "desk/handle/2", place=place)
    second = await _created(store, "desk/handle/1", place=place)
    token = await _leased(store, first)
    assert await store.renew(first, token, LONG)
    await store.release(first, token)
    assert await other.idlest("desk/handle", "ann") == second
    expired = await _created(store, "desk/handle/3", lifetime=SHORT)
    await _gone(other, expired)
    assert await store.renew(expired, await _leased(store, expired), LONG)
    assert await other.read(expired) is None


async def _an_intent_is_left_to_the_next_holder(store: Store, other: Store) -> None:
    key = await _created(store)
    version = await _version_of(store, key)
    token = await _leased(store, key)
    assert await store.intend(key, "open a", token)
    await store.release(key, token)
    assert not await other.swap(key, version, "ignoring it")
    assert list(await other.due("desk/handle", 10)) == [key]
    lease = await other.acquire(key, LONG)
    assert lease is not None
    assert ((lease.token or 0) > token, lease.record) == (True, Record(version, "{}", "open a"))
    assert list(await store.due("desk/handle", 10)) == []
    after = await other.swap(key, version, "{}", lease.token)
    assert after is not None
    assert await store.read(key) == Record(after, "{}")


async def _an_intent_comes_with_the_lease_if_the_record_is_the_known_one(store: Store, other: Store) -> None:
    key = await _created(store)
    version = await _version_of(store, key)
    for known, recorded in ((version + 1, None), (version, "open a")):
        lease = await store.acquire(key, LONG, known, "open a")
        assert lease is not None
        assert lease.record == Record(version, "{}")
        record = await other.read(key)
        assert record is not None
        assert record.intent == recorded
        await store.release(key, lease.token or 0)
    again = await other.acquire(key, LONG, version, "open b")
    assert again is not None
    assert again.record == Record(version, "{}", "open a")
    record = await store.read(key)
    assert record is not None
    assert record.intent == "open a"


async def _an_intent_that_is_taken_back_ends_the_lease(store: Store, other: Store) -> None:
    key = await _created(store)
    token = await _leased(store, key)
    assert await store.intend(key, "open a", token)
    assert await store.intend(key, None, token)
    version = await _version_of(other, key)
    assert await other.read(key) == Record(version, "{}")
    assert list(await other.due("desk/handle", 10)) == []
    assert await other.swap(key, version, "[]")


async def _a_record_that_expired_is_due_and_can_be_taken_over(store: Store, other: Store) -> None:
    key = await _created(store, lifetime=SHORT)
    await _gone(other, key)
    assert await store.read(key) is None
    assert await store.create(key, "{}", PLACE, LONG) == "exists"
    assert await other.delete(key, await _leased(other, key))
    assert await store.acquire(key, LONG) is None
    assert list(await store.due("desk/handle", 10)) == []
    await _created(store)


async def _a_token_is_greater_than_those_of_a_record_that_was_deleted(store: Store, other: Store) -> None:
    key = await _created(store)
    before = await _leased(store, key)
    assert await store.delete(key, before)
    await _created(other)
    assert await _leased(other, key) > before


async def _the_records_of_a_kind_are_bounded(store: Store, other: Store) -> None:
    place = Place("desk/handle", "ann", total=2)
    first = await _created(store, "desk/handle/1", place=place)
    await _created(other, "desk/handle/2", place=place)
    assert await store.create("desk/handle/3", "{}", place, LONG) == "full"
    assert isinstance(await store.create("desk/shared/3", "{}", Place("desk/shared", "ann", total=2), LONG), int)
    assert await other.delete(first, await _leased(other, first))
    await _created(store, "desk/handle/3", place=place)


async def _the_records_of_a_caller_are_bounded_and_the_idlest_is_known(store: Store, other: Store) -> None:
    ann, bob = (Place("desk/handle", caller, total=10, per_caller=2) for caller in ("ann", "bob"))
    first = await _created(store, "desk/handle/1", place=ann)
    second = await _created(store, "desk/handle/2", place=ann)
    assert await other.create("desk/handle/3", "{}", ann, LONG) == "caller_full"
    assert isinstance(await other.create("desk/handle/3", "{}", bob, LONG), int)
    assert await other.idlest("desk/handle", "ann") == first
    await _leased(store, first)
    assert await other.idlest("desk/handle", "ann") == second
    assert await other.idlest("desk/handle", "eve") is None


async def _changes_are_published_to_others(store: Store, other: Store) -> None:
    key = await _created(store)
    seen: list[str | None] = []

    async def follow() -> None:
        async for changed in other.changes():
            if changed is not None:
                seen.append(changed)
                return

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            version: int | None = await _version_of(store, key)
            while not seen:  # whoever begins to follow sees what comes then
                assert version is not None
                version = await store.swap(key, version, str(version))
                await anyio.sleep(SHORT / 5)
    assert seen == [key]


async def _deletions_are_published_to_others(store: Store, other: Store) -> None:
    keys = [await _created(store), await _created(store, "desk/handle/other")]
    token = await _leased(store, keys[0])
    seen: list[str | None] = []

    async def follow() -> None:
        async for changed in other.changes():
            seen.append(changed)
            if changed == keys[0]:
                return

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            version: int | None = await _version_of(store, keys[1])
            while keys[1] not in seen:  # it follows by then
                assert version is not None
                version = await store.swap(keys[1], version, str(version))
                await anyio.sleep(SHORT / 5)
            assert await store.delete(keys[0], token)
    assert seen[-1] == keys[0]


async def _a_store_that_waits_for_its_engine_does_not_block_the_loop(store: Store, trouble: Trouble) -> None:
    key = await _created(store)
    version = await _version_of(store, key)
    written: list[int | None] = []

    async def swap() -> None:
        written.append(await store.swap(key, version, "[]"))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks, trouble.stalled():
            tasks.start_soon(swap)
            for _ in range(100):
                await checkpoint()
            assert written == []
    assert written == [await _version_of(store, key)]


async def _what_an_older_copy_that_is_put_back_has_lost_is_not_numbered_again(store: Store, trouble: Trouble) -> None:
    key = await _created(store)
    first = await _version_of(store, key)
    put_back = await trouble.copied()
    versions, tokens = [first], list[int]()
    for _ in range(3):
        version = await store.swap(key, first, "{}")
        assert version is not None
        versions.append(version)
        tokens.append(await _leased(store, key))
        await put_back()
        assert await store.read(key) == Record(first, "{}")
    assert [versions, tokens] == [sorted(set(versions)), sorted(set(tokens))]


_PLAIN: dict[str, Case] = {
    case.__name__[1:]: case
    for case in (
        _a_record_is_read_as_it_was_created,
        _of_two_swaps_from_one_version_one_wins,
        _versions_are_never_used_again,
        _a_lease_excludes_others,
        _a_swap_ends_the_lease_and_removes_the_intent,
        _a_holder_whose_lease_has_expired_writes_nothing,
        _a_lease_that_expired_is_lost_though_nobody_took_it,
        _a_lease_that_is_renewed_goes_on,
        _a_renewal_is_a_use_unless_the_record_has_expired,
        _an_intent_is_left_to_the_next_holder,
        _an_intent_comes_with_the_lease_if_the_record_is_the_known_one,
        _an_intent_that_is_taken_back_ends_the_lease,
        _a_record_that_expired_is_due_and_can_be_taken_over,
        _a_token_is_greater_than_those_of_a_record_that_was_deleted,
        _the_records_of_a_kind_are_bounded,
        _the_records_of_a_caller_are_bounded_and_the_idlest_is_known,
        _changes_are_published_to_others,
        _deletions_are_published_to_others,
    )
}
_IN_TROUBLE: dict[str, CaseInTrouble] = {
    case.__name__[1:]: case
    for case in (
        _a_store_that_waits_for_its_engine_does_not_block_the_loop,
        _what_an_older_copy_that_is_put_back_has_lost_is_not_numbered_again,
    )
}
STORE_CASES: Sequence[str] = (*_PLAIN, *_IN_TROUBLE)
"""Their names, each of which says what a store does."""
