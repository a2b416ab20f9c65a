"""Use is stored on request, added up over processes, and forgotten after a time (SPEC EXP-3)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.core.support import with_groups
from toolfold import Place, Store, StoreError, StoreUnavailable, ToolSet
from toolfold_adapters.observe.stored_usage import DAYS, INTERVAL, KIND, SOON, Writer, key_of, stored_usage, writing
from toolfold_adapters.stores import MemoryStore, SQLiteStore

DAY = date(2026, 3, 1)


def made() -> ToolSet:
    """Return a tool set whose calls take a second."""
    tools = with_groups("a")
    tools.register("t", lambda: "12345678", group="a")
    ticks = iter(range(10_000))
    tools.count_usage(lambda: float(next(ticks)))
    return tools


async def call(tools: ToolSet, times: int) -> None:
    async with tools.open_session(active=["a"]) as session:
        for _ in range(times):
            await session.call("a.t")


@pytest.mark.spec("EXP-3")
@pytest.mark.parametrize("made_store", [MemoryStore, lambda: None])
async def test_what_several_processes_counted_is_added_up(made_store: Callable[[], Any], tmp_path: Path) -> None:
    store: Store = made_store() or SQLiteStore(tmp_path / "usage.db")
    here, there = made(), made()
    writers = [Writer(tools, store, lambda: DAY) for tools in (here, there)]
    for tools, writer in zip((here, there), writers, strict=True):
        for times in (2, 3):
            await call(tools, times)
            await writer.write()
        await writer.write()  # nothing is new
    usage = await stored_usage(store, today=DAY)
    row = usage.calls["a.t", "a", "", "in process"]
    assert (row.calls, row.seconds, row.tokens, row.spread.total()) == (10, 10.0, 20, 10)
    assert (usage.groups["a"].opened, usage.groups["a"].called, usage.sessions, usage.name) == (4, 4, 4, here.name)
    assert usage.tools == {"a.t": "a"}
    await store.aclose()


@pytest.mark.spec("EXP-3")
async def test_days_that_have_passed_are_reported_no_more_and_forgotten() -> None:
    now = [0.0]
    store = MemoryStore(lambda: now[0])
    tools = made()
    await call(tools, 1)
    await Writer(tools, store, lambda: DAY).write()
    reported = [(await stored_usage(store, today=DAY + timedelta(after))).by() for after in (0, DAYS - 1, DAYS)]
    assert [[row.calls for row in rows.values()] for rows in reported] == [[1], [1], []]
    now[0] = (DAYS + 1) * 24 * 3600.0
    assert await store.due("usage", 10) == [f"usage/{DAY}"]
    await call(tools, 1)
    await Writer(tools, store, lambda: DAY + timedelta(DAYS + 1)).write()
    assert await store.due("usage", 10) == []


@pytest.mark.spec("EXP-3")
async def test_what_a_store_did_not_take_is_written_the_next_time(caplog: pytest.LogCaptureFixture) -> None:
    class Away(MemoryStore):
        away = True

        async def read(self, key: str) -> Any:
            if self.away:
                raise StoreUnavailable("it is away")
            return await super().read(key)

    store, tools = Away(), made()
    writer = Writer(tools, store, lambda: DAY)
    await call(tools, 2)
    await writer.write()
    assert "could not be written, and will be the next time: it is away" in caplog.text
    store.away = False
    await writer.write()
    assert (await stored_usage(store, today=DAY)).by()[()].calls == 2


@pytest.mark.spec("EXP-3", "STO-9")
async def test_what_was_written_without_an_answer_is_not_added_again() -> None:
    class Unheard(MemoryStore):
        is_heard = False

        async def create(self, *arguments: Any, **named: Any) -> Any:
            return self.answer(await super().create(*arguments, **named))

        async def swap(self, *arguments: Any, **named: Any) -> Any:
            return self.answer(await super().swap(*arguments, **named))

        def answer(self, answer: Any) -> Any:
            if not self.is_heard:
                raise StoreUnavailable("the answer is lost")
            return answer

    store = Unheard()
    days = iter([DAY, DAY + timedelta(1), DAY + timedelta(1), DAY + timedelta(1)])
    (here, there), today = (made(), made()), DAY + timedelta(1)
    writer = Writer(here, store, lambda: next(days))
    for times in (1, 2):  # the answer to a new record is lost, and that to a swap on the next day
        await call(here, times)
        await writer.write()
    store.is_heard = True
    await call(there, 10)
    await Writer(there, store, lambda: today).write()
    await call(here, 3)
    for _ in range(2):
        await writer.write()
    assert (await stored_usage(store, today=today)).by()[()].calls == 16
    assert (await stored_usage(store, 1, today)).by()[()].calls == 15


@pytest.mark.spec("STO-8", "EXP-3")
@pytest.mark.parametrize("damaged", ["", "[]", "{}", '{"calls": 1}'])
async def test_a_damaged_record_ends_no_writer_and_is_named(damaged: str, caplog: pytest.LogCaptureFixture) -> None:
    store, tools = MemoryStore(), made()
    await store.create(key_of(DAY), damaged, Place(KIND), 60)
    await call(tools, 1)
    await Writer(tools, store, lambda: DAY).write()
    assert [key_of(DAY) in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(StoreError, match="can't be read; delete it"):
        await stored_usage(store, today=DAY)


@pytest.mark.spec("EXP-3")
async def test_what_is_used_is_written_within_seconds_and_nothing_while_nothing_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 3:
            await anyio.Event().wait()
        await anyio.lowlevel.checkpoint()

    class Counted(MemoryStore):
        writes = 0

        async def swap(self, *arguments: Any, **named: Any) -> Any:
            self.writes += 1
            return await super().swap(*arguments, **named)

        async def create(self, *arguments: Any, **named: Any) -> Any:
            self.writes += 1
            return await super().create(*arguments, **named)

    monkeypatch.setattr("toolfold_adapters.observe.stored_usage.anyio.sleep", sleep)
    tools, store = made(), Counted()
    await call(tools, 2)
    async with writing(tools, store):
        while len(pauses) <= 3:
            await anyio.lowlevel.checkpoint()
        assert (await stored_usage(store)).by()[()].calls == 2
        assert pauses[0] == SOON <= 5
        assert max(pauses) <= INTERVAL
    assert store.writes == 1


@pytest.mark.spec("EXP-3")
async def test_a_record_that_cannot_be_written_stops_no_server_and_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tools, store = made(), SQLiteStore(tmp_path / "missing" / "usage.db")
    async with writing(tools, store):
        await call(tools, 1)
        writer = Writer(tools, store)
        assert [await writer.write() for _ in range(2)] == [False, False]
    assert caplog.text.count("could not be written, and will be the next time") == 2  # by each writer
    assert not (tmp_path / "missing").exists()
