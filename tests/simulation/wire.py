"""Clients of replicas on a network: each request goes to any replica, and their streams are cut and opened again.

Judged are: that a client which lists again after each notice knows what a fresh list shows, and is notified of no
change twice; that who presents the id or the handle of another's session is refused as for one that never was, and is
sent nothing of it; and that what sessions inherit is open in the session that has it, and there alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import anyio
import httpx2
from attrs import define, evolve, field

from tests.process.stores import clients
from tests.process.stores.clients import Client, Refused, Unknown, Wrong
from tests.simulation.desk import PATHS
from tests.simulation.guests import CHANGED, Failed, Guest
from tests.simulation.judging import Request, opened
from tests.simulation.loop import Loop
from tests.simulation.network import Network, Way
from tests.simulation.outcome import Outcome
from tests.simulation.plan import StorePlan
from tests.simulation.replicas import Answer, Replica, caller_of

GRACE = 20.0
"""Seconds after which all is known to all."""
APART = 1_000_000
"""From which number on the ids of requests are those of who follows the lists of a session."""
INTRUDER = "eve"
"""Who knows by what the sessions of others are found."""


class Http(httpx2.AsyncClient):
    """Sends requests on a way, and has a guest look again where an answer came with a notice, or not at all."""

    def __init__(self, way: Way, guest: Guest) -> None:
        super().__init__(transport=way, timeout=None)
        self._guest = guest

    async def request(self, *given: Any, **named: Any) -> httpx2.Response:
        """Return the response."""
        try:
            response = await super().request(*given, **named)
        except BaseException:
            self._guest.look()
            raise
        if notices := response.text.count(CHANGED):
            self._guest.notices += notices
            self._guest.look()
        return response


@define(eq=False)
class Wire:
    """The network, and who uses it.

    Attributes:
        plan: What happens.
        loop: The time.
        replicas: What answers.
        outcome: Where its result is recorded.
        clients: The clients of the sessions.
        guests: The same, with their streams.
        keys: The keys of the sessions.
    """

    plan: StorePlan
    loop: Loop
    replicas: list[Replica]
    outcome: Outcome
    network: Network = field(init=False)
    clients: dict[int, Client] = field(factory=dict[int, Client])
    guests: dict[int, Guest] = field(factory=dict[int, Guest])
    keys: dict[int, str] = field(factory=dict[int, str])
    _intruders: list[Guest] = field(factory=list[Guest])
    _lasting: list[asyncio.Task[None]] = field(factory=list["asyncio.Task[None]"])
    _turns: Random = field(init=False)
    _in_use: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.network = Network(self.loop, self.plan.random("wire"), self.plan.network or 0.0)
        self._turns, self._in_use = self.plan.random("turns"), self.plan.sessions

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request in a replica that serves; if there is none, its connection is refused."""
        if serving := [replica for replica in self.replicas if replica.serves]:
            await self._turns.choice(serving).pass_on(scope, receive, send)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def open(self, session: int, era: str) -> None:
        """Open a session, and a stream for what its client is notified of; raises as `Client.request` does."""
        guest = Guest(self.network, lambda: self.app, era, caller_of(session), ids=APART)
        client = Client(self._http(guest), guest.caller)
        if era == "legacy":
            client = await client.initialize()
        else:
            result = await client.call("plain.activate", {})
            client = evolve(client, handle=result["_meta"]["dev.toolfold/handle"])
        intruder = Guest(self.network, lambda: self.app, era, INTRUDER)
        for one in (guest, intruder):
            one.session, one.handle = client.session_id, client.handle
        self.clients[session], self.guests[session] = client, guest
        lasting = [guest.stand(), guest.follow()]
        if any(ask.intrudes for ask in self.plan.asks) and era == "legacy":  # in the other one, lists are for all
            self._intruders.append(intruder)
            lasting.append(intruder.stand())
        self._lasting += map(self.loop.create_task, lasting)
        await guest.stands.wait()

    def close(self) -> None:
        """End the streams."""
        for task in self._lasting:
            task.cancel()

    def _http(self, guest: Guest) -> Http:
        return Http(Way(self.network, self.app), guest)

    async def ask(self, session: int, request: Request, repeated: Callable[[], None]) -> Answer:
        """Return the answer to a request, and call `repeated` if it was made twice; raises as `Client.request` does."""
        client, way = self.clients[session], Way(self.network, self.app)
        try:
            answer = await clients.answered(evolve(client, http=Http(way, self.guests[session])), request)
        finally:
            if way.repeats:
                repeated()
        if request.kind == "look" and session not in self.keys:
            self.keys[session] = (await clients.read(client, "look", {}))["session"]
        return answer

    async def intrude(self, session: int, request: Request) -> None:
        """Have somebody else use a session, and judge that it is refused to them, as one that never was."""
        guest = Guest(self.network, lambda: self.app, "", INTRUDER)
        own = self.clients[session]
        theirs = evolve(own, http=self._http(guest), caller=INTRUDER)
        nobodys = evolve(
            theirs,
            session_id=None if own.session_id is None else secrets.token_hex(16),
            handle=None if own.handle is None else secrets.token_urlsafe(16),
        )
        answers = [await self._refused(client, request) for client in (theirs, nobodys)]
        if own.session_id is not None:
            with suppress(Wrong):
                await theirs.end()
        if "" in answers:
            return
        self.outcome.counted["intruders refused"] += 1
        if answers[0] != answers[1]:
            self.outcome.wrong.append(f"an intruder's {request} is answered {answers[0]}, others {answers[1]}")

    async def _refused(self, client: Client, request: Request) -> str:
        """Return how a request is refused; nothing where that is due to the network or the store."""
        try:
            return f"by {await clients.answered(client, request)}"
        except Wrong as error:
            return str(error)
        except (Refused, Unknown):
            return ""

    # -- judging ------------------------------------------------------------------------------------------------------

    async def calm(self) -> None:
        """Return once all clients have done what they do; from then on, the network is good, and all is answered."""
        self._in_use -= 1
        while self._in_use:  # noqa: ASYNC110 - virtual time
            await anyio.sleep(0.5)
        self.network.calm()
        while self.network.under_way:  # noqa: ASYNC110 - virtual time
            await anyio.sleep(0.5)

    async def judge(self, lines: Mapping[str, list[str]], judge_notices: Callable[[int, int], None]) -> None:
        """Judge what clients know in the end, and what is inherited.

        Args:
            lines: What the hooks of each session did.
            judge_notices: Judges how often the client of a session was notified of its transitions.
        """
        wrong = self.outcome.wrong
        await anyio.sleep(GRACE)
        for session, guest in self.guests.items():
            if not guest.legacy:
                guest.look()  # no notice comes of what is done under a handle
                await anyio.sleep(GRACE)
            known = guest.known or frozenset()
            try:
                fresh = await guest.list()
            except (Failed, Unknown) as error:
                wrong.append(f"at the end, session {session} is not listed anything: {error!r}")
                continue
            if known != fresh:
                wrong.append(f"the client of {session} knows {sorted(known - fresh)} but not {sorted(fresh - known)}")
            if guest.legacy and not any(fault.kind == "catalog" for fault in self.plan.faults):
                judge_notices(session, guest.notices)
            self.outcome.counted["lists that follow"] += 1
        wrong += [f"a stream has ended: {task}" for task in self._lasting if task.done()]
        for intruder in self._intruders:
            if intruder.received:
                wrong.append(f"an intruder is sent {intruder.received}")
        for key, its in lines.items():
            if "/shared/" in key and opened(its) != ({PATHS[one] for one in self.plan.starts}, []):
                wrong.append(f"what sessions inherit is {opened(its)}: {its}")
