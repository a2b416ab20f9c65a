"""The processes that serve the sessions of a store, and how a request is answered there."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import anyio
import httpx2
from attrs import define, evolve, field

from tests.adapters.mcp.asgi import endpoint_of
from tests.process.stores import clients
from tests.process.stores.clients import UNCERTAIN, Client, Refused, Unknown, refusal
from tests.simulation.desk import PATHS, Note, make_tools
from tests.simulation.disk import Connection, Disk
from tests.simulation.judging import Request, numbered
from tests.simulation.loop import Died, Extent, Loop
from toolfold import Limit, QuotaExceeded, Session, SessionClosed, StoredSessions, ToolSet
from toolfold.errors import KeyInUse, StoreUnavailable
from toolfold_adapters.mcp import build_server
from toolfold_adapters.observe.trace import Trace

LIFETIME = 20.0
"""Seconds without use after which a session ends."""
FINAL = 1000
"""From which number on requests are those that settle a session, and can be notified of what is pending."""

Answer = tuple[Any, frozenset[int] | None]
"""What a request is answered, and the active groups that the answer shows beside that."""


@define(eq=False)
class Replica:
    """One of the processes, which ends and starts again.

    Attributes:
        number: Which one.
        loop: The time.
        disk: The store.
        note: Notes what its hooks do.
        random: What it draws.
        pause: Seconds that a hook takes.
        sessions: How many sessions there are.
        notify: Takes note that the client of a session is notified of a transition that changed its list.
        wired: Whether it serves MCP over HTTP, or the sessions of a program.
        clients: The clients of the sessions over HTTP.
        selected: The groups that are selected for sessions over HTTP.
        networked: Whether its clients are on a network, and have names.
        traced: Returns where a process writes what its sessions do, if it does.
        trace: Where its process writes that.
        http: What its requests are sent with.
    """

    number: int
    loop: Loop
    disk: Disk
    note: Note
    random: Random
    pause: float
    sessions: int
    notify: Callable[[int], None]
    wired: bool
    clients: dict[int, Client]
    selected: tuple[str, ...] = ()
    networked: bool = False
    traced: Callable[[str, Callable[[], float]], Trace] | None = None
    app: Any = None
    http: httpx2.AsyncClient | None = None
    starts: int = 0
    process: Extent | None = None
    trace: Trace | None = None
    tools: ToolSet | None = None
    served: StoredSessions | None = None
    key: Callable[[str], str] | None = None
    under_way: int = 0
    ended: bool = False
    _waited: int = 0
    stopping: anyio.Event = field(factory=anyio.Event)
    stopped: anyio.Event = field(factory=anyio.Event)

    @property
    def serves(self) -> bool:
        """Whether it takes requests."""
        return self.process is not None and self.process.alive and self._is_up and not self.stopping.is_set()

    @property
    def _is_up(self) -> bool:
        return self.served is not None or self.http is not None

    @property
    def awaits(self) -> int:
        """How often its processes have waited."""
        return self._waited + (0 if self.process is None else self.process.awaits)

    def start(self) -> None:
        """Start it."""
        self._waited = self.awaits
        self.starts += 1
        self.under_way, self.served, self.ended = 0, None, False
        self.stopping, self.stopped = anyio.Event(), anyio.Event()
        self.process = Extent(f"{self.number}.{self.starts}", self.loop)
        self.process.start(self._serve(self.process))

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        assert self.process is not None
        self.process.kill()
        if self.trace is not None:
            self.trace.abandon()
        self.served = self.http = None
        self.stopped.set()

    async def stop(self) -> bool:
        """Have it end in order, so that it answers what it was asked, and takes nothing more; return whether it has."""
        process, stopped = self.process, self.stopped
        self.stopping.set()
        await stopped.wait()
        return process is self.process and self.ended

    async def _serve(self, process: Extent) -> None:
        self.tools = make_tools(self.note, process.name, self.random, self.pause)
        connection: Any = Connection(self.disk, self.random, process.name)
        trace = self.trace = None if self.traced is None else self.traced(process.name, self.loop.time)
        if trace is not None:
            trace.listen(self.tools)
            connection = trace.around(connection)
        if self.wired:
            lifetime = 100 * LIFETIME if self.networked else LIFETIME  # what is judged there takes long
            server = build_server(
                self.tools, separator=".", store=connection, handle_lifetime=lifetime, active=self.selected
            )
            async with (
                endpoint_of(server, authenticated=self.networked) as endpoint,
                endpoint.connect() as self.http,
            ):
                self.app = endpoint.app
                await self._until_stopped()
        else:
            limit = Limit(2 * self.sessions, 1)
            async with self.tools.stored_sessions(connection, lifetime=LIFETIME, limit=limit) as self.served:
                self.key = self.served.key
                await self._until_stopped()
        self.served = self.http = None
        if trace is not None:
            trace.close()
        process.alive, self.ended = False, True
        if self.networked:
            process.kill()  # which ends the streams that stand
        self.stopped.set()

    async def _until_stopped(self) -> None:
        await self.stopping.wait()
        while self.under_way:  # noqa: ASYNC110
            await anyio.sleep(0.01)

    async def pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request from a network, unless the process ends before that."""
        with suppress(Died):
            assert self.process is not None
            await self.process.run(partial(self._pass_on, scope, receive, send))

    async def _pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        lasts = scope["method"] == "GET" or (b"mcp-method", b"subscriptions/listen") in scope["headers"]
        self.under_way += not lasts
        try:
            await self.app(scope, receive, send)
        finally:
            self.under_way -= not lasts

    async def open(self, legacy: bool) -> Client:
        """Return a client of a new session over MCP; one of the modern era has the group `plain` open."""
        assert self.http is not None
        client = Client(self.http, "anybody")
        if legacy:
            return await client.initialize()
        result = await client.call("plain.activate", {})
        return evolve(client, handle=result["_meta"]["dev.toolfold/handle"])

    async def answer(self, session: int, request: Request) -> Answer:
        """Return the answer to a request; raises `Unknown`, `Refused` and `Wrong`."""
        self.under_way += 1
        try:
            if self.http is not None:
                return await clients.answered(evolve(self.clients[session], http=self.http), request)
            assert self.served is not None
            return await answered(self.served, session, request, partial(self.notify, session))
        except StoreUnavailable as error:
            raise (Unknown if UNCERTAIN in str(error) else Refused)(str(error)) from error
        except SessionClosed as error:
            if self.disk.lost:  # it may be a session whose record is lost
                raise Refused(str(error)) from error
            raise
        finally:
            self.under_way -= 1


def caller_of(session: int) -> str:
    """Return whose a session is."""
    return f"caller{session}"


def name_of(session: int) -> str:
    """Return what a session is found by."""
    return json.dumps(["desk", caller_of(session)])


async def answered(stored: StoredSessions, number: int, request: Request, notify: Callable[[], None]) -> Answer:
    """Return the answer to a request of a session in a store; raises as the product does."""
    caller = caller_of(number)
    if request.kind == "list":
        return await _listed(stored, number)
    if request.kind == "another":
        try:
            async with stored.open("another", caller=caller):
                return "opened", None
        except QuotaExceeded as error:
            return type(error).__name__, None
    if await stored.get(name_of(number)) is None:
        with suppress(KeyInUse):
            await stored.ensure(stored.draft(name_of(number), None, caller, notifies=True))
    async with stored.open("desk", caller=caller) as session:
        async with session.storing():
            answer = await asked(session, request)
        if not request.number % 2 or request.number >= FINAL:  # otherwise the client can't be notified now
            for _ in await session.claim():
                notify()
        return answer


async def asked(session: Session, request: Request) -> Answer:
    """Return the answer of a session to a request; raises as the product does."""
    if request.kind == "control":
        verb, (group,) = ("activate", request.activate) if request.activate else ("deactivate", request.deactivate)
        changed = await (session.activate if verb == "activate" else session.deactivate)(PATHS[group])
        return changed, numbered(session.active)
    if request.fact is not None:
        await session.call("note", dict(zip(("name", "value"), request.fact, strict=True)))
        return (), None
    if request.kind == "look":
        found = await _read(session, "look", {})
        return (numbered(found["active"]), frozenset(found["facts"].items())), None
    groups = {"activate": request.activate, "deactivate": request.deactivate}
    paths = {verb: [PATHS[one] for one in chosen] for verb, chosen in groups.items()}
    return _stepped(await _read(session, "step", paths))


def _stepped(found: dict[str, Any]) -> Answer:
    """Return what a transition has answered."""
    if found.get("error") == SessionClosed.__name__:
        raise SessionClosed("desk")
    if "error" in found:
        return found["error"], None
    return (numbered(found["activated"]), numbered(found["deactivated"])), None


async def _listed(stored: StoredSessions, number: int) -> Answer:
    """Return the groups whose tools are listed."""
    session = await stored.get(name_of(number), reading=True)
    if session is None:
        return frozenset(), None
    if session.is_away:
        raise Refused("the list may be old")
    names = [tool.name for tool in session.list_tools().tools if tool.name.endswith(".probe")]
    return numbered(name.removesuffix(".probe") for name in names), None


async def _read(session: Session, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return what a tool answers as JSON."""
    result = await session.call(name, arguments)
    text = result.content[0]["text"]
    if result.is_error:
        raise refusal(text)
    found: dict[str, Any] = json.loads(text)
    return found
