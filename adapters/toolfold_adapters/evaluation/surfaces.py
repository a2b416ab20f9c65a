"""What tasks are played against: ways to offer the same tools, and what a player sees of them (SPEC EVA-1, EVA-2).

What hosts show a model of what a server sends was measured on those of 2026-11-23. What a host adds of its own is not
modelled: permissions, its own search for tools, and files that it puts long results into. That a host shows
descriptions only once its own search has found them is modelled as if it never did.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal, TypedDict

from attrs import define, field
from mcp import Client
from mcp.types import Implementation

from toolfold import Ranker, ToolSet
from toolfold.spi import frozen, table
from toolfold_adapters import hosts
from toolfold_adapters.hosts import HostView
from toolfold_adapters.inprocess import Conversation, Native
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import wire_name
from toolfold_adapters.search import bm25
from toolfold_adapters.tokens import approximate_tokens

from .links import ArmLink, InProcess, Programs, Served, ToolAnswer
from .tasks import ObservedCall, Task
from .world import Simulation, Tool, World

PROXY = "call_tool"
PROGRAM = "(program)"
"""What stands in a record before the calls of a program."""
GIVEN = "(the last handle that was given)"


Why = Literal["context", "refusal", "output", "time", "requests", "malformed", "unreachable", "error"]
"""What ended a task early: what was too long to read, a limit, or that the model's provider did not answer."""


@frozen(kw_only=True)
class Exchange:
    """One request that a model answered: the tokens sent by our count, those read and written as its provider says."""

    sent: int
    read: int
    written: int


@frozen
class Malformed:
    """A call that could not be made: of a tool that is not there, or with arguments that are no JSON object."""

    tool: str
    arguments: str
    problem: str


class Stopped(Exception):
    """A model is ended at what it does: by a limit of ours, or by a request that went wrong."""

    def __init__(self, why: Why, text: str) -> None:
        self.why: Why = why
        super().__init__(text)

    @property
    def said(self) -> str:
        """What ended it, in the words of records."""
        return f"the model stopped ({self.why}): {self}"


@frozen(kw_only=True)
class Played:
    """How a player did a task: what stopped it, if anything, and for a model what was exchanged with it.

    `cost` is in dollars, if it is known.
    """

    stopped: str | None = None
    why: Why | None = None
    cost: float | None = None
    exchanges: tuple[Exchange, ...] | None = None
    texts: tuple[str, ...] = ()
    malformed: tuple[Malformed, ...] = ()


@define
class Surface:
    """What a player sees of an arm, as a host shows it, and what it did there.

    `to_full` has the full names of tools by those on the wire, `groups` and `schemas` what is true of them, for a
    player that knows what it needs. `requests` are those of a model: each reads all that was said before, which is what
    `input_tokens` counts; `context` is how much the last one read.
    """

    link: ArmLink
    host: HostView
    arm: Arm
    task: Task
    simulation: Simulation
    to_full: Mapping[str, str]
    groups: Mapping[str, str | None]
    schemas: Mapping[str, Mapping[str, Any]]
    calls: list[ObservedCall] = field(factory=list[ObservedCall])
    said: list[str] = field(factory=list[str])
    recorded: list[tuple[str, Mapping[str, Any]]] = field(factory=list[tuple[str, Mapping[str, Any]]])
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    context: int = 0
    _listed: list[dict[str, Any]] | None = None
    _shown: dict[str, dict[str, Any]] = field(factory=dict[str, dict[str, Any]])
    _list_tokens: int = 0
    _in_program: bool = False

    @property
    def wire(self) -> Mapping[str, str]:
        """The name of each tool where it is called, by its full name."""
        return {full: wire for wire, full in self.to_full.items()}

    @property
    def instructions(self) -> str:
        """The instructions of the server, as far as the host passes them on."""
        return self.link.instructions[: self.host.instructions]

    async def definitions(self) -> Mapping[str, dict[str, Any]]:
        """Return the list, as far as the host passes it on, by name."""
        listed = await self.link.definitions()
        if listed is not self._listed:
            cut = self.host.descriptions
            shown = [{**one, "description": one["description"][:cut]} for one in listed]
            self._listed = listed
            self._shown = {one["name"]: one for one in shown}
            self._list_tokens = self.link.tokens(self._shown.values())
        return self._shown

    async def request(self) -> Mapping[str, dict[str, Any]]:
        """Count one request of a model, unless a program that it wrote runs, and return the tools that it has."""
        listed = await self.definitions()
        if self._in_program:
            return listed
        texts = [self.instructions, self.task.ask, *self.said]
        self.context = self._list_tokens + sum(map(approximate_tokens, texts))
        self.requests += 1
        self.input_tokens += self.context
        return listed

    @asynccontextmanager
    async def program(self) -> AsyncGenerator[None]:
        """Run a program for the duration of the block, with as many calls as there are: one request of a model."""
        await self.request()
        self._in_program = self.arm.code
        self.recorded.append((PROGRAM, {}))
        yield
        self._in_program = False

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Return the answer to a call, as far as the host passes it on."""
        before = len(self.simulation.made)
        self.recorded.append((name, {key: self._unnamed(value) for key, value in arguments.items()}))
        answer = await self.link.call(name, arguments)
        wire, given = name, arguments
        if name == PROXY:
            wire, given = str(arguments.get("name")), table(arguments.get("arguments")) or {}
        if wire in self.to_full:
            reached = len(self.simulation.made) > before
            self.calls.append(ObservedCall(tool=self.to_full[wire], arguments=given, reached=reached))
        shown = self.host.result(answer.text)
        written = approximate_tokens({"name": name, "arguments": dict(arguments)})
        self.output_tokens += written
        self.said += [str({"name": name, "arguments": dict(arguments)}), shown]
        return ToolAnswer(shown, answer.is_error)

    def _unnamed(self, value: Any) -> Any:
        """Return an argument as it is recorded: a handle that was given differs from run to run."""
        given = isinstance(value, str) and any(f"Handle: {value}\n" in text for text in self.said)
        return GIVEN if given else value


class AnswerOptions(TypedDict, total=False):
    """The options of `build_server` that say how the opening of a group is answered."""

    answers: Literal["auto", "definitions", "signatures", "names"]
    answer_tokens: int


@define
class Offers:
    """Makes surfaces; servers of the same tools are made once, except where a task withdraws some of them."""

    world: World
    options: AnswerOptions = field(factory=AnswerOptions)
    ranker: Ranker = bm25
    _made: dict[Any, tuple[ToolSet, Simulation, dict[str | None, Any]]] = field(factory=dict[Any, Any])

    @asynccontextmanager
    async def surface(self, arm_name: str, task: Task, size: int | None, host_name: str) -> AsyncGenerator[Surface]:
        """Yield a surface on which nothing was done yet."""
        arm, host = ARMS[arm_name], HOSTS[host_name]
        chosen = self.world.choose(task, size)
        tools, simulation, servers = self._tool_set(arm, chosen, task)
        simulation.begin(task)
        to_full = {wire_name(tool.name): tool.name for tool in chosen}
        profile = task.profile if arm.grouped else None
        async with AsyncExitStack() as stack:
            link: ArmLink
            if arm.native:
                conversation = Conversation(tools, profile=profile, native=arm.native)
                link = InProcess(await stack.enter_async_context(conversation), arm.native)
            elif arm.code:
                link = Programs(await stack.enter_async_context(tools.open_session(profile)))
                to_full = {link.to_wire(tool.name): tool.name for tool in chosen}
            else:
                info = Implementation(name=host.client, version="1")
                if profile not in servers:
                    servers[profile] = build_server(tools, profile=profile, **self.options)
                client = Client(servers[profile], mode=host.era, cache=None, client_info=info)
                changes = bool(task.withdrawn) or (arm.grouped and host.era == "legacy")
                link = Served(await stack.enter_async_context(client), changes and host.lists_again)
            groups = {tool.name: tool.group for tool in chosen}
            schemas = {tool.name: tool.definition["inputSchema"] for tool in chosen}
            yield Surface(link, host, arm, task, simulation, to_full, groups, schemas)

    def _tool_set(
        self, arm: Arm, chosen: Sequence[Tool], task: Task
    ) -> tuple[ToolSet, Simulation, dict[str | None, Any]]:
        """Return a tool set with its simulation, and its servers by profile: the same one for the same tools."""
        key = (arm.grouped, arm.search, arm.directory, tuple(tool.name for tool in chosen))
        if key in self._made and not task.withdrawn:
            return self._made[key]
        simulation = Simulation()
        search = self.ranker if arm.search else None
        tools = self.world.tool_set(chosen, simulation, grouped=arm.grouped, search=search, directory=arm.directory)
        if task.withdrawn:
            gone = [tool.name for tool in chosen if tool.name in task.withdrawn]
            simulation.withdraw = lambda: _unregister(tools, gone)
            return tools, simulation, {}
        self._made[key] = tools, simulation, {}
        return self._made[key]


def _unregister(tools: ToolSet, names: Iterable[str]) -> None:
    for name in names:
        tools.unregister(name if name in tools.catalog.tools else wire_name(name))


# -- arms --------------------------------------------------------------------------------------------------------------


@frozen(kw_only=True)
class Arm:
    """A way to offer tools: in groups or not, with a search or not; `directory`: groups are named, and can be opened.

    With `native` a provider loads them late, as its API does it; with `code` programs call several in a request.
    """

    about: str
    grouped: bool = True
    search: bool = False
    directory: bool = True
    native: Native | None = None
    code: bool = False


ARMS: Mapping[str, Arm] = {
    "everything": Arm(about="all tools are listed, without groups, exclusions and profiles", grouped=False),
    "search": Arm(about="find_tools and call_tool alone; groups are not named", search=True, directory=False),
    "groups": Arm(about="groups, which open_group opens"),
    "groups+search": Arm(about="groups, and find_tools, which opens them", search=True),
    "native": Arm(about="groups and find_tools; Anthropic's API loads tools late", search=True, native="anthropic"),
    "native-openai": Arm(about="the same by OpenAI's API, whose tool search finds", search=True, native="openai"),
    "code": Arm(
        about="groups and find_tools, for programs that see stubs of what can be called", search=True, code=True
    ),
}


EVERYTHING = "everything"
HOSTS: Mapping[str, HostView] = {
    EVERYTHING: HostView(),
    **{key: view for host in hosts.HOSTS for key, view in host.views.items()},
}
"""What hosts show, by the names that runs have for them."""
