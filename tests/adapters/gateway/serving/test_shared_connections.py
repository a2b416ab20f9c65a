"""Whom an upstream reaches with what it sends unasked, where callers share the connection to it (SPEC GWY-19)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define, field

from tests.adapters.gateway.inprocess import SECONDS, config_of, wired
from tests.adapters.gateway.upstreams.byhand import ByHand, Carrier
from tests.blocked import all_blocked
from toolfold_adapters.gateway import Runtime, open_gateway
from toolfold_adapters.gateway.upstream.link import Link
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("GWY-19", "GWY-12")

CAN_ANSWER: dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}}, "roots": {}}
NOTIFICATIONS: dict[str, dict[str, Any]] = {
    "notifications/message": {"level": "error", "data": "the PIN is 1234"},
    "notifications/progress": {"progress": 1},
    "notifications/resources/updated": {"uri": "x://1"},
    "notifications/example.org/unknown": {"data": "the PIN is 1234"},
    "notifications/elicitation/complete": {"elicitationId": "1"},
    "notifications/cancelled": {"requestId": "none"},
    "notifications/tools/list_changed": {},
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "Your PIN?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
    "roots/list": {},
}
KINDS = {**NOTIFICATIONS, **QUESTIONS}
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {}},
    "sampling/createMessage": {"role": "user", "content": {"type": "text", "text": "Hm."}, "model": "m"},
    "roots/list": {"roots": []},
}
FOR_THE_GATEWAY = {"notifications/cancelled", "notifications/tools/list_changed"}
"""What no client is to see as it came."""

UPSTREAMS: dict[str, tuple[bool, Carrier]] = {
    "legacy over a pipe": (False, "pipe"),
    "legacy over HTTP": (False, "http"),
    "modern over a pipe": (True, "pipe"),
    "modern over HTTP": (True, "http"),
}
MOMENTS = (
    "no other ever called",
    "another called before",
    "another calls, too",
    "it is answered and another calls",
    "it is cancelled and another calls",
)


@define(eq=False)
class Caller:
    """A client of the gateway, and what reached it."""

    name: str
    wire: Wire = field(init=False)
    reached: list[str] = field(factory=list)
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    answer: Any = None
    ended: anyio.Event = field(factory=anyio.Event)

    async def asked(self, method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
        self.reached.append(method)
        return ANSWERS[method]

    def notified(self, method: str, params: Mapping[str, Any], cause: object) -> None:
        self.reached.append(method)

    async def hold(self) -> None:
        async def nothing(progress: float, total: float | None, message: str | None) -> None: ...

        with self.scope:
            params = {"name": "hold", "arguments": {"who": self.name}}
            self.answer = await self.wire.request("tools/call", params, on_progress=nothing)
        self.ended.set()


@define(eq=False)
class House:
    """An upstream whose connection is shared, and two callers of it."""

    upstream: ByHand
    alice: Caller
    bob: Caller
    tasks: anyio.abc.TaskGroup

    async def begin(self, caller: Caller) -> None:
        self.tasks.start_soon(caller.hold)
        while caller.name not in self.upstream.calls:
            await anyio.lowlevel.checkpoint()

    async def reach(self, moment: str) -> None:
        """Have the moment of a call of Alice's come."""
        if moment == "another called before":
            await self.bob.wire.request("tools/call", {"name": "now"})
        await self.begin(self.alice)
        if "another calls" in moment:
            await self.begin(self.bob)
        if "answered" in moment:
            self.upstream.calls["alice"].answer()
            await self.alice.ended.wait()
        elif "cancelled" in moment:
            self.alice.scope.cancel()
            await all_blocked()
        for caller in (self.alice, self.bob):
            caller.reached.clear()

    def say(self, method: str, *, own_stream: bool) -> None:
        """Have the upstream send something that Alice's call is the cause of."""
        call = self.upstream.calls["alice"]
        send = call.send if own_stream else self.upstream.standing[0]
        params: dict[str, Any] = KINDS[method]
        if method == "notifications/progress":
            params = {**params, "progressToken": call.token}
        id = {"id": method} if method in QUESTIONS else {}
        send({"jsonrpc": "2.0", **id, "method": method, "params": params})


@asynccontextmanager
async def house_of(upstream: ByHand) -> AsyncGenerator[House]:
    config = config_of("byhand", shared=True, mode="auto" if upstream.modern else "legacy")
    gateway = open_gateway(config, runtime=Runtime(clock=lambda: 0.0, transport=upstream.transport))
    alice, bob = Caller("alice"), Caller("bob")
    with anyio.fail_after(SECONDS):
        async with gateway as tools, anyio.create_task_group() as tasks:
            server = build_server(tools, active=[g.path for g in tools.catalog.groups], extend=gateway.extend)
            async with (
                wired(server, "legacy", CAN_ANSWER, alice.asked, alice.notified) as alice.wire,
                wired(server, "legacy", CAN_ANSWER, bob.asked, bob.notified) as bob.wire,
            ):
                yield House(upstream, alice, bob, tasks)
                tasks.cancel_scope.cancel()


def is_told(upstream: str, moment: str, method: str, *, own_stream: bool) -> bool:
    """Return whether it can be told that something is caused by Alice's call, which is what the test is about."""
    in_progress = moment in MOMENTS[:3]
    if method == "notifications/progress":
        return in_progress  # by its token
    return moment == MOMENTS[0] or (in_progress and own_stream and UPSTREAMS[upstream][1] == "http")


async def played(upstream: str, moment: str, methods: Sequence[str], *, own_stream: bool) -> House:
    """Have an upstream send each kind of message, and return what came of it."""
    async with house_of(ByHand(*UPSTREAMS[upstream])) as house:
        await house.reach(moment)
        for method in methods:
            house.say(method, own_stream=own_stream)
        await all_blocked()
        if "another calls" in moment:
            house.upstream.calls["bob"].answer()
            await house.bob.ended.wait()
    return house


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("own_stream", [True, False], ids=["its own stream", "the standing stream"])
async def test_what_a_call_causes_reaches_its_caller_where_that_can_be_told_and_nobody_else(
    upstream: str, moment: str, own_stream: bool
) -> None:
    house = await played(upstream, moment, list(KINDS), own_stream=own_stream)
    told = {method for method in KINDS if is_told(upstream, moment, method, own_stream=own_stream)}
    assert house.bob.reached == []
    assert house.alice.reached == [method for method in KINDS if method in told - FOR_THE_GATEWAY]
    answered = {method for method, answer in house.upstream.answers.items() if "result" in answer}
    assert answered == told & QUESTIONS.keys()
    assert (house.bob.answer is not None) == ("another calls" in moment)


def takes_whoever_calls(link: Link, cause: object) -> Any:
    return next(reversed(link._calls.values()), link._only)


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_a_gateway_that_takes_whoever_calls_for_the_caller_is_found(
    upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Link, "_addressee", takes_whoever_calls)
    methods = ["notifications/message", "elicitation/create"]
    house = await played(upstream, "it is answered and another calls", methods, own_stream=False)
    assert house.bob.reached == methods


async def test_a_server_that_asks_over_a_shared_pipe_is_called_over_a_connection_of_each_client_from_then_on() -> None:
    async with house_of(ByHand(modern=False, carrier="pipe")) as house:
        await house.reach("another calls, too")
        house.say("elicitation/create", own_stream=True)  # whose it is can't be told
        for caller in (house.alice, house.bob):
            house.upstream.calls.pop(caller.name).answer()
            await caller.ended.wait()
        assert (house.upstream.connections, house.alice.reached) == (1, [])
        for caller in (house.alice, house.bob):
            await house.begin(caller)
        house.say("elicitation/create", own_stream=True)
        await all_blocked()
        assert house.upstream.connections == 3
        assert (house.alice.reached, house.bob.reached) == (["elicitation/create"], [])


@pytest.mark.parametrize(("levels", "taken"), [(["error", "info"], "info"), (["info", "error"], "info")])
async def test_a_shared_server_logs_what_any_client_wants_and_each_client_gets_what_it_wants(
    levels: list[str], taken: str
) -> None:
    async with house_of(ByHand(modern=False, carrier="http")) as house:
        callers = (house.alice, house.bob)
        for caller, level in zip(callers, levels, strict=True):
            await caller.wire.request("logging/setLevel", {"level": level})
            await house.begin(caller)
        assert house.upstream.level == taken
        for caller in callers:
            params = {"level": "warning", "data": caller.name}
            house.upstream.calls[caller.name].send(
                {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
            )
        await all_blocked()
        assert [len(caller.reached) for caller in callers] == [int(level == "info") for level in levels]
