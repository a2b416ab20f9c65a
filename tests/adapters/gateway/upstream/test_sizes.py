"""How large a message of an upstream may be."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from functools import partial

import anyio
import httpx2
import pytest

from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, UpstreamError, open_gateway

LIMIT = 1_000_000
CHUNK = b"x" * 100_000


class Endless(httpx2.AsyncByteStream):
    """A body without an end, of which more than a limit must not be read."""

    def __init__(self, *, packed: bool) -> None:
        self._packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16) if packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            yield (
                CHUNK if self._packer is None else self._packer.compress(CHUNK) + self._packer.flush(zlib.Z_SYNC_FLUSH)
            )
            await anyio.lowlevel.checkpoint()
        pytest.fail("more was read than the limit")


@pytest.mark.spec("GWY-12")
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_answer_over_http_that_does_not_end_is_read_up_to_the_limit(
    kind: str, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        headers = {"content-type": kind, **({"content-encoding": "gzip"} if packed else {})}
        return httpx2.Response(200, headers=headers, stream=Endless(packed=packed))

    server = httpx2.MockTransport(answer)
    monkeypatch.setattr(httpx2, "AsyncClient", partial(httpx2.AsyncClient, transport=server))
    config = GatewayConfig().with_upstream(UpstreamConfig(url="http://upstream/mcp", max_message_bytes=LIMIT))
    with anyio.fail_after(60), pytest.raises(UpstreamError, match="1000000 byte"):
        async with open_gateway(config):
            pytest.fail("there was an answer")
