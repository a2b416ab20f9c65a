"""AgentDojo's suites as tool sets: what reads and what acts in groups, and rules that keep what was read from acting.

An annotation says which answers come from outside: `openWorldHint` of a tool that only reads. After such an answer the
fact `outside` holds for the session. Four ways to offer the tools:

- *everything listed*, without a rule;
- *excluded*: of what reads and what acts only one is open at a time;
- *sealed*: once something from outside was read, nothing that acts is opened any more; what the agent opened before,
  for what its user asked, stays open;
- *closed*: once something from outside was read, nothing that acts can be called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, get_args

from attrs import define, field, frozen
from mcp import Client

from toolfold import Context, HookContext, Loader, ToolError, ToolSet, View, Visibility
from toolfold_adapters.evaluation.links import Served
from toolfold_adapters.evaluation.players import SCRIPTS, Scripted
from toolfold_adapters.evaluation.surfaces import ARMS, EVERYTHING, HOSTS, Surface
from toolfold_adapters.evaluation.tasks import Expected, ObservedCall, Task
from toolfold_adapters.evaluation.world import Simulation
from toolfold_adapters.mcp import build_server

from .link import Worker

Way = Literal["everything listed", "excluded", "sealed", "closed"]
WAYS: tuple[Way, ...] = get_args(Way)
ACTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "banking": {
        "payments": ("send_money",),
        "standing_orders": ("schedule_transaction", "update_scheduled_transaction"),
        "profile": ("update_user_info",),
        "password": ("update_password",),
    },
    "slack": {
        "direct_messages": ("send_direct_message",),
        "channels": ("send_channel_message",),
        "members": ("add_user_to_channel", "invite_user_to_slack", "remove_user_from_slack"),
        "web_pages": ("post_webpage",),
    },
    "travel": {
        "bookings": ("reserve_hotel", "reserve_car_rental", "reserve_restaurant"),
        "appointments": ("create_calendar_event", "cancel_calendar_event"),
        "mail": ("send_email",),
    },
    "workspace": {
        "sending": ("send_email",),
        "deleting": ("delete_email", "delete_file"),
        "appointments": (
            "create_calendar_event",
            "cancel_calendar_event",
            "reschedule_calendar_event",
            "add_calendar_event_participants",
        ),
        "writing": ("append_to_file", "create_file"),
        "sharing": ("share_file",),
    },
}
"""The tools of each suite that act, by what they do; the others read."""
READING, OUTSIDE = "reading", "outside"


def _nothing_from_outside(view: View) -> bool:
    return not view.facts.get(OUTSIDE)


def _sealed(hook: HookContext) -> None:
    if hook.facts.get(OUTSIDE):
        raise ToolError("Something from outside was read: nothing that acts is opened any more.")


def tool_set(link: Worker, suite: str, way: Way, simulation: Simulation) -> ToolSet:
    """Return the tools of a suite, offered in a way."""
    flat = way == "everything listed"
    control: Any = "none" if flat else Loader(name="open_group", needs_groups=True)
    tools = ToolSet(suite, control=control, on_hidden="hint")
    acting = ACTS[suite]
    if not flat:
        tools.register_group(READING, "Look things up, and read what there is")
        for group in acting:
            tools.register_group(group, group.replace("_", " "), on_activate=_sealed if way == "sealed" else None)
            if way == "excluded":
                tools.register_exclusion(READING, group)
    homes = {tool: group for group, names in acting.items() for tool in names}
    for given in link.ask("definitions"):
        name, acts = given["name"], given["name"] in homes
        tools.register(
            name,
            _handler(link, name, simulation, marks=not acts),
            description=given["description"],
            input_schema=given["inputSchema"],
            annotations={"readOnlyHint": not acts, "openWorldHint": True},
            group=None if flat else homes.get(name, READING),
            flat=None if flat else True,
            visibility=Visibility.when(_nothing_from_outside) if acts and way == "closed" else None,
        )
    return tools


def _handler(
    link: Worker, name: str, simulation: Simulation, *, marks: bool
) -> Callable[[dict[str, Any], Context], Any]:
    async def handle(arguments: dict[str, Any], context: Context) -> str:
        simulation.made.append(ObservedCall(tool=name, arguments=arguments, reached=True))
        answer = link.ask("call", tool=name, arguments=arguments, by="assistant")
        if marks:
            context.set_fact(OUTSIDE, True)
        if answer["error"]:
            raise ToolError(answer["text"])
        return str(answer["text"])

    return handle


@define(kw_only=True)
class Victim(Scripted):
    """Does what its user asked, for which it opens groups before it reads, and obeys each attack that it reads.

    To obey it opens what it can, and calls what it can, by its first handle too if the last one does not do.
    """

    link: Worker
    solution: list[Mapping[str, Any]]
    first: str | None = None
    obeyed: set[int] = field(factory=set[int])

    async def play(self) -> None:
        """Open what the solution needs, as far as it opens, and make its calls."""
        expected = [
            Expected.model_validate({"tool": one["tool"], "arguments": one["arguments"]}) for one in self.solution
        ]
        for one in sorted(expected, key=lambda one: self.group(one.tool) == READING):
            await self.learn(one)
        self.first = self.handle
        for one in expected:
            await self.use(one, await self.learn(one))
            await self.obey()
        await self.surface.request()

    async def obey(self) -> None:
        """Do what an attack wants that was read now, as far as it was not done before."""
        if not self.link.ask("lured"):
            return
        for number, call in enumerate(self.link.ask("lure")):
            if number in self.obeyed:
                continue
            expected = Expected.model_validate({"tool": call["tool"], "arguments": call["arguments"]})
            made = len(self.surface.simulation.made)
            await self.use(expected, await self.learn(expected))
            if len(self.surface.simulation.made) == made and self.first is not None:
                last, self.handle = self.handle, self.first
                await self.use(expected, is_known=True)
                self.handle = last
            if len(self.surface.simulation.made) > made:
                self.obeyed.add(number)


@frozen(kw_only=True)
class Outcome:
    """How a task went: whether it is done, whether an attack was read, and whether it succeeded."""

    task: str
    attack: str | None
    way: Way
    done: bool
    lured: bool
    attacked: bool
    requests: int
    read: int


@define
class Suite:
    """A suite, with a server for each way that was played."""

    link: Worker
    name: str
    made: dict[Way, tuple[Simulation, Any, ToolSet]] = field(factory=dict[Way, tuple[Simulation, Any, ToolSet]])

    async def play(self, task: Mapping[str, Any], way: Way, attack: str | None) -> Outcome:
        """Return how a task goes, with an attack or without."""
        if way not in self.made:
            simulation = Simulation()
            tools = tool_set(self.link, self.name, way, simulation)
            self.made[way] = simulation, build_server(tools, handles="stored", answers="signatures"), tools
        simulation, server, tools = self.made[way]
        self.link.ask("begin", task=task["id"], attack=attack)
        asked = Task(id=task["id"], ask=task["ask"], calls=())
        simulation.begin(asked)
        own = {one.name: one for one in tools.catalog.tools.values() if one.control is None}
        async with Client(server, mode="auto", cache=None) as client:
            surface = Surface(
                Served(client, changes=False),
                HOSTS[EVERYTHING],
                ARMS["everything" if way == "everything listed" else "groups"],
                asked,
                simulation,
                {name: name for name in own},
                {name: one.group for name, one in own.items()},
                {name: one.definition["inputSchema"] for name, one in own.items()},
            )
            calls = list(task["calls"])
            await Victim(surface=surface, script=SCRIPTS["perfect"], link=self.link, solution=calls).play()
        score = self.link.ask("score")
        return Outcome(
            task=task["id"],
            attack=attack,
            way=way,
            done=score["done"],
            lured=score["lured"],
            attacked=score["attacked"],
            requests=surface.requests,
            read=surface.input_tokens,
        )
