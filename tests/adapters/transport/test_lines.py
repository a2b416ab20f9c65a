"""Messages as lines: whole ones of whatever parts they come in, and whole ones out, however slow the reader is."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import product

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter
from pydantic import ValidationError

from tests.blocked import all_blocked
from toolfold_adapters.transport.lines import FLUSH_SECONDS, Item, Lines, MessageTooLarge, parsed, standard_streams

SMALL, OTHER = b'{"jsonrpc": "2.0", "method": "small"}', b'{"jsonrpc": "2.0", "method": "other"}'
WAITING = 400_000
"""More bytes than fit into a pipe."""


async def nothing(data: bytes) -> None:
    raise AssertionError


async def messages(parts: Sequence[bytes], limit: int | None = None) -> list[Item]:
    left = iter(parts)

    async def receive() -> bytes:
        return next(left, b"")

    return [item async for item in Lines(receive, nothing, limit)]


def method(item: Item) -> str:
    assert isinstance(item, SessionMessage)
    assert isinstance(item.message, JSONRPCNotification)
    return item.message.method


@pytest.mark.parametrize(
    "parts",
    [
        [SMALL + b"\n" + OTHER + b"\n"],
        [SMALL[:5], SMALL[5:], b"\n", b"\n" + OTHER],
        [bytes([one]) for one in SMALL + b"\r\n\n" + OTHER],
    ],
    ids=["together", "in parts, the last without an end", "byte by byte"],
)
async def test_messages_are_lines_in_whatever_parts_they_come(parts: list[bytes]) -> None:
    assert [method(item) for item in await messages(parts)] == ["small", "other"]


MISSING = object()
KEYS: Mapping[str, Sequence[object]] = {
    "jsonrpc": ["2.0", "1.0", MISSING],
    "id": [MISSING, None, 1, "a", 1.0, True, [1], 2**70],
    "method": [MISSING, None, "x", 5],
    "params": [MISSING, None, {}, [1], {"a": None}],
    "result": [MISSING, None, {}, {"a": [1.5]}, "s"],
    "error": [MISSING, None, {"code": 1, "message": "m"}],
}


@pytest.mark.spec("GWY-1")
def test_a_message_is_read_as_the_sdk_reads_it_whatever_its_keys_are() -> None:
    read = 0
    for values in product(*KEYS.values()):
        given = {key: value for key, value in zip(KEYS, values, strict=True) if value is not MISSING}
        line = json.dumps(given).encode()
        try:
            expected = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            continue
        item = parsed(line)
        assert isinstance(item, SessionMessage), line
        assert (type(item.message), item.message.model_dump()) == (type(expected), expected.model_dump()), line
        read += 1
    assert read > 100


@pytest.mark.spec("GWY-12")
async def test_a_line_that_is_too_long_is_the_last() -> None:
    first, last = await messages([SMALL, b"\n", b"x" * 200, OTHER], 100)
    assert method(first) == "small"
    assert isinstance(last, MessageTooLarge)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of this process")
@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.spec("DEL-10")
async def test_a_line_stays_whole_whose_sender_was_cancelled_and_what_waits_is_written_at_the_end() -> None:
    reading, writing = os.pipe()
    kept = os.dup(1)
    os.dup2(writing, 1)
    os.close(writing)
    long = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="long", params={"text": "x" * WAITING}))
    short = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="short"))
    got = bytearray()
    try:
        async with standard_streams() as (_, write):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write.send, long)
                await all_blocked()
                tasks.cancel_scope.cancel()

            async def read() -> None:
                while not got.endswith(b'"short"}\n'):
                    await anyio.wait_readable(reading)
                    got.extend(os.read(reading, 65_536))

            with anyio.fail_after(60 * FLUSH_SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read)
                    await write.send(short)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(reading)
    first, second, end = bytes(got).split(b"\n")
    assert (len(first) > WAITING, b"short" in second, end) == (True, True, b"")
