"""Subscriptions of one resource that overlap end as one after the other would, in every order (SPEC NTF-3, SAF-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anyio
import mcp_types as t
import pytest
from attrs import define, field
from mcp import Client, MCPError

from tests.adapters.gateway.inprocess import House, config_of, served
from tests.adapters.gateway.serving.test_resources import LIST, noting, subscribe, unsubscribe
from tests.adapters.gateway.upstreams.shop import Shop
from tests.blocked import all_blocked

pytestmark = pytest.mark.spec("NTF-3", "SAF-4")


@define(eq=False)
class Asked:
    """A request that a server has, which it grants, refuses or waits with until it is told."""

    method: str
    done: anyio.Event = field(factory=anyio.Event)
    granted: bool = True


class Told(Shop):
    """A server that answers each request of a subscription when it is told to."""

    def __init__(self) -> None:
        super().__init__(tools=("touch",))
        self.asked: list[Asked] = []

    async def _told(self, method: str) -> None:
        self.asked.append(one := Asked(method))
        try:
            await one.done.wait()
        finally:
            if one in self.asked:
                self.asked.remove(one)
        if not one.granted:
            raise MCPError(-32050, "not now")

    async def subscribe(self, ctx: Any, params: Any) -> t.EmptyResult:
        await self._told("subscribe")
        if LIST not in self.subscribed:
            self.subscribed.append(LIST)
        return t.EmptyResult()

    async def unsubscribe(self, ctx: Any, params: Any) -> t.EmptyResult:
        await self._told("unsubscribe")
        self.subscribed.clear()
        return t.EmptyResult()

    def answer(self, *, granted: bool) -> None:
        one = self.asked.pop(0)
        one.granted = granted
        one.done.set()


@define(eq=False)
class Request:
    """A request of a client: what became of it."""

    client: str
    method: str
    outcome: str = ""
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)

    async def run(self, client: Client) -> None:
        with self.scope:
            try:
                await (subscribe if self.method == "subscribe" else unsubscribe)(client, LIST)
                self.outcome = "granted"
            except MCPError:
                self.outcome = "refused"
        self.outcome = self.outcome or "cancelled"


Choose = Callable[[Sequence[str]], str]

PLAYS: dict[str, tuple[Sequence[str], Sequence[tuple[str, str]]]] = {
    "two clients subscribe": ((), (("ada", "subscribe"), ("bob", "subscribe"))),
    "one client subscribes twice": ((), (("ada", "subscribe"), ("ada", "subscribe"))),
    "one leaves as another comes": (("ada",), (("ada", "unsubscribe"), ("bob", "subscribe"))),
    "one leaves as it comes": ((), (("ada", "subscribe"), ("ada", "unsubscribe"))),
    "one comes again, and another": (("ada",), (("ada", "subscribe"), ("bob", "subscribe"))),
    "one comes back": (("ada",), (("ada", "unsubscribe"), ("ada", "subscribe"))),
}


@pytest.mark.parametrize("play", PLAYS)
async def test_whoever_was_granted_a_subscription_has_it_in_every_order_of_starts_and_answers(play: str) -> None:
    before, requests = PLAYS[play]
    for choose in every_order():
        await _played(before, [Request(*one) for one in requests], choose)


def every_order() -> Iterator[Choose]:
    """Yield what makes choices, until it has made all that there are, whatever follows from one."""
    path: list[tuple[int, int]] = []
    while True:
        made = 0

        def choose(options: Sequence[str]) -> str:
            nonlocal made
            if made == len(path):
                path.append((0, len(options)))
            made += 1
            return options[path[made - 1][0]]

        yield choose
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return
        path[-1] = path[-1][0] + 1, path[-1][1]


async def _played(before: Sequence[str], requests: list[Request], choose: Choose) -> None:
    house = House(lambda name: Told())
    updates: dict[str, list[str]] = {"ada": [], "bob": []}
    async with (
        served(house, config_of("shop", mode="legacy", shared=True)) as (gateway, server),
        Client(server, mode="legacy", message_handler=noting(updates["ada"])) as ada,
        Client(server, mode="legacy", message_handler=noting(updates["bob"])) as bob,
        anyio.create_task_group() as tasks,
    ):
        of = {"ada": ada, "bob": bob}

        def asked() -> list[Told]:
            return [shop for shop in house.of("shop") if shop.asked]

        for name in before:
            tasks.start_soon(Request(name, "subscribe").run, of[name])
            while not asked():
                await all_blocked()
            asked()[0].answer(granted=True)
            await all_blocked()
        started, said = list[Request](), list[str]()
        while True:
            await all_blocked()
            options = [f"start {at}" for at, one in enumerate(requests) if one not in started]
            options += ["grant"] if asked() else []
            options += ["refuse"] if asked() and asked()[0].asked[0].method == "subscribe" else []
            first = requests[0]
            options += ["cancel"] if first in started and not first.outcome and first.method == "subscribe" else []
            if not options:
                break
            said.append(choice := choose(options))
            if choice.startswith("start"):
                started.append(one := requests[int(choice.split()[1])])
                tasks.start_soon(one.run, of[one.client])
            elif choice == "cancel":
                first.scope.cancel()
            else:
                asked()[0].answer(granted=choice == "grant")
        having = set(before)
        for one in started:
            if one.outcome == "granted":
                (having.add if one.method == "subscribe" else having.discard)(one.client)
        for seen in updates.values():
            seen.clear()
        await of["ada"].call_tool("touch", {"item": LIST})
        await all_blocked()
        room = gateway.clients.room
        assert {name for name, seen in updates.items() if seen} == having, said
        assert (room.resources.total, room.characters.total) == (len(having), len(having) * len(LIST)), said
        assert any(shop.subscribed for shop in house.of("shop")) == bool(having), said
        for upstream in gateway.upstreams.values():
            assert [uri for link in upstream.links for uri in link.watched] == [LIST] * bool(having), said
