"""HTTP between clients and a server: slow, and for a while bad, so that requests and answers are lost, cut or repeated.

A request runs in tasks of its own, as a server runs it; an answer comes in the parts in which it was sent, and those of
several requests in any order. A client that goes away, or whose connection breaks, is known to the server as it is to a
real one: it learns that the client has disconnected.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator, MutableMapping
from random import Random
from typing import Any

import anyio
import httpx2
from attrs import define, field

from tests.simulation.loop import Loop

FATES = ("fine", "lost", "unanswered", "cut", "cut", "twice")
"""What becomes of a request while the network is bad."""
SILENCE = 10.0
"""Seconds after which a client gives up a request that is not answered: a question may be lost, and not the answer."""

Message = MutableMapping[str, Any]


@define(eq=False)
class Network:
    """What lies between all clients and all servers of a world.

    Attributes:
        loop: The time.
        random: What is drawn.
        slow: Seconds that a part of a message takes at most.
        bad: Until when what is sent may be lost, cut or repeated.
        counted: What became of requests.
        under_way: How many requests a server is answering, without standing streams.
        ends: Whether it is good from now on.
    """

    loop: Loop
    random: Random
    slow: float
    bad: float = 0.0
    counted: Counter[str] = field(factory=Counter[str])
    under_way: int = 0
    ends: bool = False
    open: list[Exchange] = field(factory=list["Exchange"])

    def calm(self) -> None:
        """Be good from now on."""
        self.bad, self.ends = 0.0, True

    def worsen(self, seconds: float) -> None:
        """Be bad for some seconds, and break the streams that stand."""
        if self.ends:
            return
        self.bad = max(self.bad, self.loop.time() + seconds)
        for one in [one for one in self.open if one.stands]:
            one.cut()

    def fate(self, repeatable: bool) -> str:
        """Return what becomes of a request; one of a session can't be repeated, since its id is of that session."""
        fate = self.random.choice(FATES) if self.bad > self.loop.time() else "fine"
        return "unanswered" if fate == "twice" and not repeatable else fate

    async def delay(self) -> None:
        """Take what a part of a message takes."""
        await anyio.sleep(self.random.random() * self.slow)


class Broken(httpx2.ReadError):
    """The connection has ended in the middle."""


@define(eq=False)
class Exchange(httpx2.AsyncByteStream):
    """A request that a server is answering, and the stream of its answer.

    Attributes:
        network: Where it is.
        app: What answers.
        scope: What is asked, as ASGI has it.
        body: The body of the request.
        stands: Whether its answer is a stream that lasts.
    """

    network: Network
    app: Any
    scope: Message
    body: bytes
    stands: bool
    _parts: deque[Message | None] = field(factory=deque["Message | None"])
    _more: anyio.Event = field(factory=anyio.Event)
    _gone: anyio.Event = field(factory=anyio.Event)
    _asked: bool = False
    _is_cut: bool = False

    def begin(self) -> None:
        """Have it answered, in a task of its own."""
        self.network.under_way += not self.stands
        self.network.open.append(self)
        self.network.loop.create_task(self._serve())

    def cut(self) -> None:
        """Break the connection."""
        self._is_cut = True
        self._leave()

    async def head(self) -> Message:
        """Return how the answer begins; raises `Broken`."""
        message = await self._next()
        if message is None:
            raise Broken("the connection has ended before the answer")
        return message

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (message := await self._next()) is not None:
            if message.get("body"):
                await self.network.delay()
                yield message["body"]
            if not message.get("more_body"):
                return
        raise Broken("the connection has ended within the answer")

    async def whole(self) -> None:
        """Return once all is answered."""
        while await self._next() is not None:
            pass

    async def aclose(self) -> None:
        """Take note that the client wants no more."""
        self._leave()

    def _leave(self) -> None:
        self._gone.set()
        self._more.set()

    async def _next(self) -> Message | None:
        while not self._parts and not self._is_cut:
            self._more = anyio.Event()
            await self._more.wait()
        return None if self._is_cut else self._parts.popleft()

    def _put(self, message: Message | None) -> None:
        self._parts.append(message)
        self._more.set()

    async def _serve(self) -> None:
        try:
            await self.app(self.scope, self._receive, self._send)
        finally:
            self.network.under_way -= not self.stands
            self.network.open.remove(self)
            self._put(None)

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if not self._gone.is_set():
            self._put(message)


@define(eq=False)
class Way(httpx2.AsyncBaseTransport):
    """The way of a client to an ASGI application; counts the requests that it has repeated."""

    network: Network
    app: Any
    address: str = "127.0.0.1"
    repeats: int = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer, which may still go on; raises `Broken`."""
        network, body = self.network, await request.aread()
        exchange = self._exchange(request, body)
        fate = "fine" if exchange.stands else network.fate("mcp-session-id" not in request.headers)
        await network.delay()
        network.counted[f"network: {fate}"] += fate != "fine"
        if fate == "lost":
            raise Broken("the request is lost", request=request)
        exchange.begin()
        if fate == "twice":
            self.repeats += 1
            network.loop.create_task(self._repeat(request, body))
        if fate == "cut":
            network.loop.call_later(network.random.random() * network.slow * 3, exchange.cut)
        try:
            if fate == "unanswered":
                with anyio.move_on_after(SILENCE):
                    await exchange.whole()
                raise Broken("the answer is lost")
            head = await exchange.head()
        except BaseException:
            await exchange.aclose()
            raise
        return httpx2.Response(head["status"], headers=head.get("headers", ()), stream=exchange)

    async def _repeat(self, request: httpx2.Request, body: bytes) -> None:
        """Send a request again, as who is not answered at once does."""
        await self.network.delay()
        again = self._exchange(request, body)
        again.begin()
        await again.whole()

    def _exchange(self, request: httpx2.Request, body: bytes) -> Exchange:
        url = request.url
        scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "server": (url.host, url.port),
            "client": (self.address, 123),
            "root_path": "",
        }
        stands = request.method == "GET" or b'"subscriptions/listen"' in body
        return Exchange(self.network, self.app, scope, body, stands)
