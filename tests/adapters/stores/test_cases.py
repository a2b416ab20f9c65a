"""`check_store` finds stores that do something else than every store does."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from attrs import evolve

from tests.adapters.stores.trouble import FileInTrouble
from toolfold import Created, Lease, Place, Record, records
from toolfold_adapters.stores import STORE_CASES, MemoryStore, SQLiteStore, Stores, check_store
from toolfold_adapters.stores.cases import StoreFactory

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-5", "STO-7", "STO-9", "PER-3", "CNF-2")

T = TypeVar("T")
Change = Callable[[records.Entry | None, records.Moment, records.Decision[Any]], records.Decision[Any]]


class Mutant(MemoryStore):
    """A store that decides something else where its mutation does."""

    def __init__(self, operation: str, change: Change) -> None:
        super().__init__()
        self._operation, self._change = operation, change

    def mutated(self, name: str, operation: records.Operation[T]) -> records.Operation[T]:
        """Return an operation, with the mutation if it is the one that is mutated."""
        if name != self._operation:
            return operation
        return lambda entry, at: self._change(entry, at, operation(entry, at))

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        total, own = self._counts[place.kind], len(self._used.get((place.kind, place.caller), ()))
        return self._apply(key, self.mutated("create", records.create(data, place, lifetime)), total, own)

    async def read(self, key: str) -> Record | None:
        return self._apply(key, self.mutated("read", records.read))

    async def swap(self, key: str, version: int, data: object, token: int | None = None) -> int | None:
        name = "swap" if token is None else "swap under a lease"
        return self._apply(key, self.mutated(name, records.swap(version, data, token)))

    async def acquire(self, key: str, seconds: float, version: int = 0, intent: str | None = None) -> Lease | None:
        return self._apply(key, self.mutated("acquire", records.acquire(seconds, version, intent)))

    async def intend(self, key: str, intent: str | None, token: int) -> bool:
        name = "intend" if intent is not None else "take back"
        return self._apply(key, self.mutated(name, records.intend(intent, token)))

    async def renew(self, key: str, token: int, seconds: float) -> bool:
        return self._apply(key, self.mutated("renew", records.renew(token, seconds)))

    async def release(self, key: str, token: int) -> None:
        self._apply(key, self.mutated("release", records.release(token)))

    async def delete(self, key: str, token: int) -> bool:
        return self._apply(key, self.mutated("delete", records.delete(token)))


def always(**fields: Any) -> Change:
    """Return the mutation that does what was asked for also where it is refused, and sets these fields."""

    def change(
        entry: records.Entry | None, at: records.Moment, decision: records.Decision[Any]
    ) -> records.Decision[Any]:
        if entry is None or decision.entry is not entry:
            return decision
        return records.Decision(at.number, evolve(entry, version=at.number, **fields))

    return change


def wrong(**fields: Any) -> Change:
    """Return the mutation that writes other fields than it should; a function is given what there was before."""

    def change(entry: records.Entry | None, _: records.Moment, decision: records.Decision[Any]) -> Any:
        if decision.entry is None or decision.entry is entry:
            return decision
        values = {name: value(entry) if callable(value) else value for name, value in fields.items()}
        return evolve(decision, entry=evolve(decision.entry, **values))

    return change


def last(name: str) -> Callable[[records.Entry], Any]:
    return lambda entry: getattr(entry, name)


def taken_twice(entry: records.Entry | None, at: records.Moment, _: object) -> records.Decision[Any]:
    return records.acquire(60, 0, None)(None if entry is None else evolve(entry, until=0), at)


def found_when_expired(entry: records.Entry | None, at: records.Moment, decision: records.Decision[Any]) -> Any:
    return evolve(decision, answer=None if entry is None else entry.record(at.now))


def created_where(*answers: str) -> Change:
    """Return the mutation that creates a record also where that is answered."""

    def change(_: records.Entry | None, at: records.Moment, decision: records.Decision[Any]) -> records.Decision[Any]:
        if decision.answer not in answers:
            return decision
        return records.create("[]", Place("desk/handle", "ann"), 600)(None, at)

    return change


def released(entry: records.Entry | None, *_: object) -> records.Decision[Any]:
    return records.Decision(True, None if entry is None else evolve(entry, until=0))


MUTANTS: dict[str, tuple[str, Change]] = {
    "a swap ignores versions and leases": ("swap", always()),
    "a swap under a lease needs none": ("swap under a lease", always()),
    "a swap does not change the version": ("swap", wrong(version=last("version"))),
    "a swap changes no data": ("swap", wrong(data=last("data"))),
    "a swap keeps the lease": ("swap under a lease", wrong(until=last("until"))),
    "a swap keeps the intent": ("swap under a lease", wrong(intent=last("intent"))),
    "a lease has the token of before": ("acquire", wrong(token=7)),
    "a lease is never lost": ("acquire", wrong(until=1e12)),
    "a lease is given to two": ("acquire", taken_twice),
    "the intent of a lease is lost": ("acquire", wrong(intent=None)),
    "an intent comes with any version": ("acquire", wrong(intent="open a")),
    "an intent is not recorded": ("intend", wrong(intent=None)),
    "an intent that is taken back keeps the lease": ("take back", wrong(until=last("until"))),
    "a renewal does nothing": ("renew", wrong(until=last("until"))),
    "a renewal is no use": ("renew", lambda _e, _at, decision: evolve(decision, is_use=False)),
    "a release does nothing": ("release", wrong(until=last("until"))),
    "a release ends the lease of another": ("release", released),
    "a record is deleted by anybody": ("delete", lambda *_: records.Decision(True, None)),
    "a deletion does nothing": ("delete", lambda entry, *_: records.Decision(True, entry)),
    "a record that has expired is read": ("read", found_when_expired),
    "a record is replaced": ("create", created_where("exists")),
    "the number of records is not bounded": ("create", created_where("full")),
    "a caller has any number of records": ("create", created_where("caller_full")),
    "nobody learns of changes": ("swap", lambda _e, _at, decision: evolve(decision, is_news=False)),
}


@pytest.mark.parametrize("mutant", MUTANTS)
async def test_a_store_with_a_wrong_rule_is_found(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolfold_adapters.stores.cases.PATIENCE", 0.3)

    @asynccontextmanager
    async def broken() -> AsyncGenerator[Stores]:
        async with Mutant(*MUTANTS[mutant]) as store:
            yield Stores(store, store)

    with pytest.raises(ExceptionGroup, match=r"cases of stores fail: \w+"):
        await check_store(broken)


class Blocking(SQLiteStore):
    """A store that waits for its file on the event loop."""

    async def _run(self, work: Callable[[sqlite3.Connection], T], *, writes: bool = True) -> T:
        return self._in_transaction(work, writes)


def file_factory(store_class: type[SQLiteStore], path: Path) -> StoreFactory:
    @asynccontextmanager
    async def opened() -> AsyncGenerator[Stores]:
        async with store_class(path, timeout=0.1) as store, store_class(path, timeout=0.1) as other:
            yield Stores(store, other, FileInTrouble(store, path))

    return opened


def names(error: ExceptionGroup) -> Sequence[str]:
    return [note.removeprefix("in the case ") for one in error.exceptions for note in one.__notes__]


async def test_a_store_that_blocks_the_loop_is_found(tmp_path: Path) -> None:
    case = "a_store_that_waits_for_its_engine_does_not_block_the_loop"
    with pytest.raises(ExceptionGroup) as raised:
        await check_store(file_factory(Blocking, tmp_path / "state.db"), [case])
    assert names(raised.value) == [case]


async def test_a_store_that_gives_numbers_again_after_a_loss_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "following", lambda last, _now: last + 1)
    case = "what_an_older_copy_that_is_put_back_has_lost_is_not_numbered_again"
    with pytest.raises(ExceptionGroup) as raised:
        await check_store(file_factory(SQLiteStore, tmp_path / "state.db"), [case])
    assert names(raised.value) == [case]


async def test_a_case_that_does_not_exist_is_refused_with_those_that_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"There is no case nothing; there are {STORE_CASES[0]}, "):
        await check_store(file_factory(SQLiteStore, tmp_path / "state.db"), ["nothing"])
