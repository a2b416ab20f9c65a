"""A gateway between clients of both eras and servers that change, end and are slow, and what has to hold there.

Judged are: that each call reaches the server that its name says, as often as it was sent; that lists follow what the
servers offer, and whoever lists after each notice knows what a fresh list shows; that nothing is used under quarantine
which has changed, from the moment on when the gateway can know it; that callers have limits of their own; that no
client is sent what is another's; and that all works again once nothing is wrong any more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from attrs import define, field

from tests.adapters.mcp.asgi import application
from tests.process.stores.clients import Unknown
from tests.simulation.guests import HANDLE, Failed, Guest
from tests.simulation.loop import Loop
from tests.simulation.network import Network
from tests.simulation.outcome import Outcome
from tests.simulation.plan import ALWAYS, Fault, GatewayPlan, Use
from tests.simulation.suppliers import Supplier, starting
from toolfold import Limit
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, open_gateway
from toolfold_adapters.gateway.stored import Approvals
from toolfold_adapters.gateway.upstream.life import Backoff
from toolfold_adapters.mcp import Limits, build_server

BACKOFF = Backoff(first=0.5, most=4.0, steady=5.0)
GRACE = 20.0
"""Seconds after which a trouble is over for all, and a change known to all."""
PATIENCE = 120.0
"""Seconds that anything may take."""
ALONE = 3
"""How many requests of one client may be in progress: a call that asks counts as three, as its question goes on."""
NAMES = ("alpha", "beta")
TOKEN = re.compile(r"<(\d+):\d+>")


@define(eq=False)
class GatewayWorld:
    """The servers, the gateway, the clients, and what went wrong with them."""

    plan: GatewayPlan
    loop: Loop
    outcome: Outcome = field(factory=Outcome)
    suppliers: dict[str, Supplier] = field(init=False)
    network: Network = field(init=False)
    guests: list[Guest] = field(init=False)
    opened: dict[int, dict[str, float]] = field(factory=dict[int, dict[str, float]])
    app: Any = None
    _asked: dict[str, tuple[str, str]] = field(factory=dict[str, tuple[str, str]])
    _openings: dict[int, int] = field(factory=dict[int, int])
    _under_way: dict[str, int] = field(factory=dict[str, int])
    _given_up: set[str] = field(factory=set[str])
    _rushes: int = 0

    def __attrs_post_init__(self) -> None:
        plan = self.plan
        self.suppliers = {name: Supplier(name, self.loop, plan.random(name), plan.slow) for name in NAMES}
        self.network = Network(self.loop, plan.random("network"), plan.slow)
        self.guests = [Guest(self.network, lambda: self.app, era, caller) for era, caller in plan.clients]

    @property
    def digest(self) -> tuple[Any, ...]:
        """What is the same for two runs of a plan."""
        return tuple((one.starts, *one.ran) for one in self.suppliers.values())

    @property
    def awaits(self) -> int:
        """How often its processes have waited; none is killed here."""
        return 0

    def log(self, *what: object) -> None:
        """Log something."""
        self.outcome.log.append(f"{self.loop.time():.3f} {' '.join(map(str, what))}")

    def wrong(self, *what: object) -> None:
        """Take note that something is wrong."""
        self.log("WRONG", *what)
        self.outcome.wrong.append(" ".join(map(str, what)))

    async def live(self) -> None:
        """Begin, go on until the clients have what they want, and end."""
        with ExitStack() as stack:
            approvals = None
            if self.plan.quarantine:
                approvals = Approvals(Path(stack.enter_context(TemporaryDirectory())))
            runtime = Runtime(
                clock=self.loop.time, backoff=BACKOFF, transport=starting(self.suppliers), approvals=approvals
            )
            gateway = open_gateway(self._config(), runtime=runtime)
            with anyio.fail_after(2000):
                async with gateway as tools, anyio.create_task_group() as lasting:
                    limits = Limits(calls=Limit(100, self.plan.calls))
                    server = build_server(tools, handles="stored", extend=gateway.extend, limits=limits)
                    self.app = application(server)
                    async with self.app.router.lifespan_context(self.app):
                        await self._use(lasting, gateway)
                        lasting.cancel_scope.cancel()
        self.outcome.counted.update(self.network.counted)
        self._judge_calls()
        self._judge_messages()

    def _config(self) -> GatewayConfig:
        plan = self.plan
        settings = {
            "mode": plan.mode,
            "shared": plan.shared,
            "idle_timeout": plan.idle,
            "start_timeout": 5,
            "max_connections_per_caller": plan.connections,
        }
        return GatewayConfig.model_validate(
            {
                "upstreams": {name: {"command": [name], **settings} for name in NAMES},
                "on_change": "quarantine" if plan.quarantine else "mark",
                "options": {"search": "none"},
            }
        )

    async def _use(self, lasting: Any, gateway: Gateway) -> None:
        async with anyio.create_task_group() as tasks:
            for fault in self.plan.faults:
                tasks.start_soon(self._suffer, fault)
            for number, guest in enumerate(self.guests):
                tasks.start_soon(self._live_as, number, guest, lasting)
        self.network.calm()
        await anyio.sleep(GRACE)
        for number, guest in enumerate(self.guests):
            await self._settle(number, guest)
        await anyio.sleep(GRACE)
        for number, guest in enumerate(self.guests):
            await self._compare(number, guest)
        await self._leave()

    # -- faults -------------------------------------------------------------------------------------------------------

    async def _suffer(self, fault: Fault) -> None:
        await anyio.sleep(fault.when)
        self.outcome.counted[f"fault: {fault.kind}"] += 1
        supplier = self.suppliers[NAMES[fault.replica % 2]]
        self.log("fault", fault.kind, supplier.name, fault)
        match fault.kind:
            case "end":
                supplier.end(fault.seconds)
            case "lag":
                supplier.lag(fault.seconds, 2.0)
            case "offer":
                tool, definition = f"t{fault.awaits % 3}", fault.writes % 3
                if self.plan.rushes and self.plan.quarantine and not any(use.patience for use in self.plan.uses):
                    await self._rush(fault.replica % 2, tool)
                else:
                    await supplier.change(tool, None if definition == 2 else definition)
            case "network":
                self.network.worsen(fault.seconds)

    async def _rush(self, upstream: int, tool: str) -> None:
        """Change what clients use, and have them call it once the gateway can know of it, and before it can list it."""
        supplier = self.suppliers[NAMES[upstream]]
        await self._all_do("open", upstream, "")
        await self._all_do("call", upstream, "echo")
        await supplier.change(tool, 1)
        supplier.lag(1.0, 2.0)
        await anyio.sleep(2 * self.plan.slow + 0.01)
        await self._all_do("call", upstream, tool)

    async def _all_do(self, kind: str, upstream: int, tool: str) -> None:
        self._rushes += 1
        async with anyio.create_task_group() as tasks:
            for number in self.opened:
                use = Use(number, 0.0, kind, upstream, tool, 8000 + self._rushes)
                tasks.start_soon(self._do, number, self.guests[number], use)

    # -- clients ------------------------------------------------------------------------------------------------------

    async def _live_as(self, number: int, guest: Guest, lasting: Any) -> None:
        if guest.legacy:
            await self._until_done(guest.initialize)
        self.opened[number] = {}
        lasting.start_soon(guest.stand)
        lasting.start_soon(guest.follow)
        for use in self.plan.uses:
            if use.client == number:
                await anyio.sleep(use.pause)
                await self._do(number, guest, use)

    async def _until_done(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Return what a function returns once it is answered."""
        for _ in range(60):
            try:
                return await function()
            except Unknown:
                await anyio.sleep(0.5)
        return self.wrong("it is never answered")

    async def _do(self, number: int, guest: Guest, use: Use) -> None:
        """Use the gateway as a client, and judge the answer."""
        name, token, began = NAMES[use.upstream], f"<{number}:{use.number}>", self.loop.time()
        what = f"{guest.caller} {guest.era} {number} {use.kind} {name} {use.tool} {token}"
        self.outcome.counted[f"uses: {use.kind}"] += 1
        self._under_way[guest.caller] = self._under_way.get(guest.caller, 0) + 1
        try:
            with anyio.fail_after(PATIENCE):
                match use.kind:
                    case "open":
                        answer = await self._open(number, guest, name)
                    case "list":
                        answer = await guest.list()
                        self._judge_list(number, name, answer, began, what)
                    case _:
                        answer = await self._call(number, guest, use, token)
                        self._judge_answer(number, guest, use, token, answer, began, what)
            self.log(f"since {began:.3f}", what, "->", answer)
        except Unknown as error:
            self.log(what, "is unknown", error)
            self.outcome.counted["uses without an answer"] += 1
            self._given_up.add(guest.caller)
            guest.look()  # a transition may have been notified within the answer that was lost
            if not self.network.counted:
                self.wrong(what, "is not answered")
        except Failed as error:
            self.log(what, "fails", error)
            self._judge_refusal(number, guest, use, str(error), began, what)
        except TimeoutError:
            self.wrong(what, "hangs")
        finally:
            self._under_way[guest.caller] -= 1

    async def _open(self, number: int, guest: Guest, name: str) -> Any:
        """Open a group, and take note since when it is open."""
        result = await guest.call("open_group", {"group": name})
        if result.get("isError"):
            raise Failed(result["content"][0]["text"])
        if not guest.legacy:
            guest.handle = result["_meta"][HANDLE]
            guest.look()
        if name not in self.opened[number]:
            self.opened[number][name] = self.loop.time()
            self._openings[number] = self._openings.get(number, 0) + 1
        return sorted(self.opened[number])

    async def _call(self, number: int, guest: Guest, use: Use, token: str) -> str:
        """Return the text of an answer; raises `Failed` for an error."""
        name, tool = NAMES[use.upstream], use.tool
        self._asked[token] = name, tool
        scope = anyio.CancelScope()
        if use.patience:
            scope.deadline = self.loop.time() + use.patience
        with scope:
            result = await guest.call(f"{name}__{tool}", {"token": token}, progressToken=use.number)
            text: str = result["content"][0]["text"]
            if result.get("isError"):
                raise Failed(text)
            return text
        self._given_up.add(guest.caller)
        await guest.cancel()
        raise Failed("given up")

    # -- judging ------------------------------------------------------------------------------------------------------

    def _is_calm(self, name: str, begin: float, end: float) -> bool:
        """Return whether a server had no trouble for long enough that nothing of it is felt."""
        return not self.suppliers[name].is_troubled(begin - GRACE, end)

    def _is_settled(self, name: str, tool: str, begin: float) -> bool:
        """Return whether a tool has been offered as it is, or not at all, for long enough that it is known."""
        return self.suppliers[name].since.get(tool, -GRACE) <= begin - GRACE

    def _is_usable(self, name: str, tool: str) -> bool:
        """Return whether a tool is offered, and not withheld."""
        supplier = self.suppliers[name]
        offered = supplier.offered.get(tool)
        approved = not self.plan.quarantine or supplier.first is None or (tool, offered) in supplier.first
        return offered is not None and approved

    def _judge_answer(
        self, number: int, guest: Guest, use: Use, token: str, answer: str, began: float, what: str
    ) -> None:
        name = NAMES[use.upstream]
        expected = f"{name} {use.tool} {token}"
        if use.tool == "ask":
            said = f"{guest.caller}: {token}"
            fits = answer.startswith(f"{expected} ") and (said in answer or "refused" in answer)
            alone = not self.plan.shared and not self.network.counted
            if not fits or (alone and "refused" in answer and self._is_calm(name, began, self.loop.time())):
                self.wrong(what, "is answered", answer)
        elif answer != expected:
            self.wrong(what, "is answered", answer)
        if name not in self.opened[number] and not self.network.counted:
            self.wrong(what, "is answered, though its group was never opened")

    def _judge_refusal(self, number: int, guest: Guest, use: Use, text: str, began: float, what: str) -> None:
        """Judge whether there was a reason to refuse something."""
        name, now = NAMES[use.upstream], self.loop.time()
        if text == "given up":
            return
        if "of one caller" in text:
            alone = sum(other.caller == guest.caller for other in self.guests) == 1
            if alone and guest.caller not in self._given_up and ("connections" in text or self.plan.calls > ALONE):
                self.wrong(what, "is refused because of others:", text)
            return
        if self.network.counted:  # a request that was sent again may have been answered to nobody
            return
        if not self._is_calm(name, began, now):
            return
        if use.kind in ("open", "list"):
            self.wrong(what, "is refused:", text)
            return
        known = self._is_settled(name, use.tool, began)
        if name in self.opened[number] and known and self._is_usable(name, use.tool):
            self.wrong(what, "is refused:", text)

    def _judge_list(self, number: int, name: str, listed: frozenset[str], began: float, what: str) -> None:
        """Judge what is listed of a server: all that has been offered for long, and nothing that has not been."""
        if self.network.counted or not self._is_calm(name, began, self.loop.time()):
            return
        its = {tool.removeprefix(f"{name}__") for tool in listed if tool.startswith(f"{name}__")}
        open_since = self.opened[number].get(name)
        for tool in (*self.suppliers[name].offered, "t0", "t1", "t2"):
            if self._is_settled(name, tool, began):
                expected = open_since is not None and self._is_usable(name, tool)
                if expected != (tool in its):
                    self.wrong(what, "lists", sorted(its), "but", tool, "is" if expected else "is not", "offered")

    def _judge_calls(self) -> None:
        """Judge what reached the servers."""
        repeats = 2 if self.network.counted["network: twice"] else 1
        seen: dict[str, int] = {}
        for name, supplier in self.suppliers.items():
            for ran in supplier.ran:
                seen[ran.token] = seen.get(ran.token, 0) + 1
                if self._asked.get(ran.token) != (name, ran.tool):
                    self.wrong(f"{ran.token} was for {self._asked.get(ran.token)} and reached {name} {ran.tool}")
                if seen[ran.token] > repeats:
                    self.wrong(f"{ran.token} reached {name} {seen[ran.token]} times")
                withheld = supplier.first is not None and (ran.tool, ran.definition) not in supplier.first
                if self.plan.quarantine and withheld and ran.when - ran.since > 2 * self.plan.slow + 1e-6:
                    self.wrong(f"{ran} used what has changed")
        self.outcome.counted["calls"] += sum(seen.values())

    def _judge_messages(self) -> None:
        """Judge whether anybody was sent what is another's."""
        for number, guest in enumerate(self.guests):
            for text in guest.received:
                others = {one for one in TOKEN.findall(text) if int(one) != number}
                if others:
                    self.wrong(f"client {number} of {guest.caller} was sent what is of {others}: {text}")
        calm = not self.plan.faults and not any(use.patience for use in self.plan.uses)
        for number, guest in enumerate(self.guests):
            if calm and guest.legacy and guest.notices != self._openings.get(number, 0):
                self.wrong(f"client {number} was notified {guest.notices} times of {self._openings.get(number, 0)}")

    # -- at the end ---------------------------------------------------------------------------------------------------

    async def _settle(self, number: int, guest: Guest) -> None:
        """Open all, and call all that is offered, which has to succeed now."""
        for upstream in range(len(NAMES)):
            await self._finally(number, guest, Use(number, 0.0, "open", upstream, "", 9000))
            for place, tool in enumerate(ALWAYS):
                await self._finally(
                    number, guest, Use(number, 0.0, "call", upstream, tool, 9001 + 10 * upstream + place)
                )

    async def _leave(self) -> None:
        """Have servers end that nobody uses, or whose clients have all ended."""
        if self._given_up:
            return
        if self.plan.idle >= GRACE:
            if self.plan.shared or not all(guest.legacy for guest in self.guests):
                return
            for guest in self.guests:
                await guest.end()
        await anyio.sleep(GRACE)
        if left := {name: len(one.running) for name, one in self.suppliers.items() if one.running}:
            self.wrong(f"servers that nobody uses go on: {left}")

    async def _finally(self, number: int, guest: Guest, use: Use) -> None:
        name = NAMES[use.upstream]
        try:
            with anyio.fail_after(PATIENCE):
                if use.kind == "open":
                    await self._open(number, guest, name)
                else:
                    token = f"<{number}:{use.number}>"
                    text = await self._call(number, guest, use, token)
                    if not text.startswith(f"{name} {use.tool} {token}"):
                        self.wrong("at the end,", use, "is answered", text)
        except (Unknown, TimeoutError) as error:
            self.wrong("at the end,", use, f"is not answered: {error!r}")
        except Failed as error:
            if "of one caller" not in str(error):
                self.wrong("at the end,", use, f"fails: {error}")

    async def _compare(self, number: int, guest: Guest) -> None:
        """Compare what a client knows that lists after each notice with a fresh list, and that with what is offered."""
        known = guest.known
        try:
            fresh = await guest.list()
        except Failed as error:
            if guest.caller not in self._given_up:  # else it may have calls under way that nobody has cancelled
                self.wrong(f"at the end, client {number} is not listed anything: {error}")
            return
        if known is not None and known != fresh:
            self.wrong(f"client {number} ({guest.era}) knows {sorted(known - fresh)} but not {sorted(fresh - known)}")
        for name in NAMES:
            its = {tool.removeprefix(f"{name}__") for tool in fresh if tool.startswith(f"{name}__")}
            offered = {tool for tool in self.suppliers[name].offered if self._is_usable(name, tool)}
            expected = offered if name in self.opened[number] else set[str]()
            if its != expected:
                self.wrong(f"at the end, client {number} is listed {sorted(its)} of {name}, not {sorted(expected)}")
        self.outcome.states.add(fresh)
        self.outcome.counted["lists that follow"] += 1
