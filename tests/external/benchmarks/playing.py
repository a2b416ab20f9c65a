"""Players of tau2's tasks: one makes the calls of the benchmark's solution, another also tries what is forbidden."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field, frozen
from mcp import Client
from mcp.server import Server

from toolfold_adapters.evaluation.links import Served
from toolfold_adapters.evaluation.players import SCRIPTS, Scripted
from toolfold_adapters.evaluation.surfaces import ARMS, EVERYTHING, HOSTS, Surface
from toolfold_adapters.evaluation.tasks import Expected, Task
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.answer.answers import AnswerForm
from toolfold_adapters.names import wire_name

from .link import Worker
from .service import Desk, desk

SIGNATURES = "groups, in signatures"
WAYS = {"everything listed": "everything", "groups": "groups", SIGNATURES: "groups"}
"""The ways to offer the tools, and the arm of `toolfold evaluate` that each is."""
SOLUTION, TRIES = "solution", "tries what is forbidden"
PLAYERS = (SOLUTION, TRIES)


@frozen(kw_only=True)
class Outcome:
    """How one task went: whether the benchmark says that it is done, what was forbidden and tried, and what it took.

    `broke` says whether a call that the policy forbids has reached a tool.
    """

    task: str
    way: str
    player: str
    done: bool
    why: str
    tried: Mapping[str, int]
    reached: Mapping[str, int]
    requests: int
    read: int
    longest: int
    broke: bool


@define(kw_only=True)
class Agent(Scripted):
    """Makes the calls of a solution, in order; what the simulated user does between them, the worker does."""

    link: Worker
    solution: Sequence[Mapping[str, Any]]
    tries: bool
    tried: Counter[str] = field(factory=Counter[str])
    reached: Counter[str] = field(factory=Counter[str])

    async def play(self) -> None:
        """Make the calls; one that tries what is forbidden does so at the start, once it has called, and at the end."""
        await self.transgress()
        made = 0
        for call in self.solution:
            if call["by"] == "user":
                self.link.call(**call)
                continue
            await self.make(call)
            made += 1
            if made == 1 and not call["tool"].startswith("airline."):  # whose callers need not say first who they are
                await self.transgress()
        await self.transgress()
        await self.surface.request()

    async def make(self, call: Mapping[str, Any]) -> None:
        """Make a call of the solution."""
        expected = Expected.model_validate({"tool": call["tool"], "arguments": call["arguments"]})
        await self.use(expected, await self.learn(expected))

    async def transgress(self) -> None:
        """Try what the policy forbids now, each thing after what has to be looked up for it."""
        for attempt in self.link.ask("forbidden") if self.tries else ():
            for call in attempt["first"]:
                await self.make(call)
            before = len(self.surface.simulation.made)
            await self.learn(Expected.model_validate({"tool": attempt["tool"], "arguments": attempt["arguments"]}))
            await self.call(attempt["tool"], attempt["arguments"])
            self.tried[attempt["rule"]] += 1
            self.reached[attempt["rule"]] += len(self.surface.simulation.made) > before


@define
class Desks:
    """The ways to offer the tools of one worker, each made once, and their servers."""

    link: Worker
    made: dict[bool, Desk] = field(factory=dict[bool, Desk])
    servers: dict[str, Server[Any]] = field(factory=dict[str, Server[Any]])

    async def play(self, task: Mapping[str, Any], way: str, player: str = SOLUTION) -> Outcome:
        """Return how a task goes."""
        arm = ARMS[WAYS[way]]
        if arm.grouped not in self.made:
            self.made[arm.grouped] = desk(self.link, grouped=arm.grouped)
        made = self.made[arm.grouped]
        if way not in self.servers:
            answers: AnswerForm = "signatures" if way == SIGNATURES else "auto"
            self.servers[way] = build_server(made.tools, handles="stored", answers=answers)
        self.link.ask("begin", task=task["id"], attack=None)
        asked = Task(id=task["id"], ask=task["ask"], calls=())
        made.simulation.begin(asked)
        async with Client(self.servers[way], mode="auto", cache=None) as client:
            surface = Surface(
                Served(client, changes=False),
                HOSTS[EVERYTHING],
                arm,
                asked,
                made.simulation,
                {wire_name(name): name for name in made.definitions},
                {name: name.partition(".")[0] for name in made.definitions},
                {name: one["inputSchema"] for name, one in made.definitions.items()},
            )
            tries, calls = player == TRIES, task["calls"]
            agent = Agent(surface=surface, script=SCRIPTS["perfect"], link=self.link, solution=calls, tries=tries)
            await agent.play()
        score = self.link.ask("score")
        return Outcome(
            task=task["id"],
            way=way,
            player=player,
            done=score["done"],
            why=score["why"] or "",
            tried=agent.tried,
            reached=agent.reached,
            requests=surface.requests,
            read=surface.input_tokens,
            longest=surface.context,
            broke=score["broke"],
        )
