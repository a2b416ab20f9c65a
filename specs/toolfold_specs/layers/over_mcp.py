"""The view of a test run that the checks of the wire have: requests over MCP, evidence and judgements."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from ..driver import Group, LeftOut, Setup, Tool
from ..drivers.protocol import HANDLE, HANDLE_META
from ..drivers.replies import Reply
from ..runs import TestRun

if TYPE_CHECKING:
    from ..drivers.connection import Connection
    from ..drivers.link import Link

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")

OPTIONAL = {"type": "object", "properties": {"fathoms": {"type": "integer"}}}
"""A schema whose arguments may be left out."""

SETUP = Setup(
    groups=[
        Group("a", "First group"),
        Group("a.b", "Within the first"),
        Group("c", "Excluded by the first"),
        Group("d"),
    ],
    exclusions=[("a", "c")],
    tools=[
        Tool("root"),
        Tool("tool", "a", input_schema=OPTIONAL),
        Tool("tool", "a.b"),
        Tool("tool", "c"),
        Tool("tool", "d"),
    ],
)


class OverMcp(Protocol):
    """What the checks need from a driver with the capability "wire"."""

    link: Link
    main: Connection
    """A connection with the present setup."""
    call_tool: str | None
    """The name of the call-tool proxy, if there is one."""
    grace: float
    """Seconds that a notice may arrive after its answer."""
    starts_active: Sequence[str]
    """The groups that are active in a new session."""
    apart: bool
    """Whether each session has a process of its own."""

    def change(self, connection: Connection, setup: Setup) -> object:
        """Replace the system behind a connection, which stays open; only where any system can be configured."""
        ...

    def expire(self) -> object:
        """Let the handles expire that were given so far; only with the capability "expiry"."""
        ...

    def control(self, verb: str, group: str) -> tuple[str, Mapping[str, Any]]:
        """Return the call that activates or deactivates a group."""
        ...

    def name_of(self, tool: str) -> str:
        """Return what clients call a tool."""
        ...

    def another(self, extension: str | None = None) -> Connection:
        """Return another connection with the present setup, for the caller to close; it may declare an extension."""
        ...


class Wire:
    """A test run of a driver over MCP; counts the requests."""

    def __init__(self, test_run: TestRun, setup: Setup) -> None:
        self.test_run = test_run
        self.setup = setup
        self.driver = cast(OverMcp, test_run.driver)
        self.main = self.driver.main
        self.modern = self.driver.link.era == "modern"

    @property
    def group(self) -> str:
        """The first group at root that has a listed tool and begins inactive; raises `LeftOut` if there is none."""
        closed = (path for path in self.setup.paths if "." not in path and path not in self.driver.starts_active)
        found = next((path for path in closed if self.tools_of(path)), None)
        if found is None:
            raise LeftOut("its groups are not known")
        return found

    @property
    def tool(self) -> str:
        """A tool of that group."""
        return self.tools_of(self.group)[0]

    def tools_of(self, path: str) -> list[str]:
        """Return the names, as clients see them, of the tools that are listed while a group is active."""
        shown = [tool for tool in self.setup.tools if tool.follows == path and tool.when == "group" and not tool.hidden]
        return [self.driver.name_of(tool.full_name) for tool in shown]

    @property
    def needs_handles(self) -> bool:
        """Whether the state of a request is known by its handle alone, as it is where a process has several clients."""
        return self.modern and not self.driver.apart

    @property
    def controls(self) -> set[str]:
        """The names of the control tools of the groups."""
        verbs = ("activate", "deactivate")
        return {self.driver.control(verb, path)[0] for path in self.setup.paths for verb in verbs}

    @property
    def harmless(self) -> tuple[str, Json] | None:
        """A call of a tool on the list that is known to do no harm: of a tool of the kit, or that opens a group."""
        if self.test_run.can("setups"):
            root = (tool for tool in self.setup.tools if tool.group is None and tool.does == "echo" and not tool.hidden)
            names = [self.driver.name_of(tool.full_name) for tool in root]
            return (names[0], {}) if names else None
        if not self.setup.groups:
            return None
        name, arguments = self.driver.control("activate", self.group)
        return name, dict(arguments)

    def reaches(self, reply: Reply) -> bool:
        """Return whether a call without arguments reached its tool, which may require some if it is not the kit's."""
        if reply.refused is not None or not reply.is_error:
            return reply.refused is None
        return not self.test_run.can("setups") and not reply.text.lower().startswith("unknown")

    def step(self, verb: str, group: str, handle: str | None = None, on: Connection | None = None) -> Reply:
        """Activate or deactivate a group; a handle goes with the arguments."""
        name, arguments = self.driver.control(verb, group)
        return self.keep(self.call(name, {**arguments, **({HANDLE: handle} if handle is not None else {})}, on=on))

    def keep(self, answer: T) -> T:
        """Return the answer to the last request, which is shown if a judgement finds a violation (SPEC CNF-11)."""
        self.driver.link.keep()
        return answer

    def call(self, name: str, arguments: Mapping[str, Any], meta: Any = None, on: Connection | None = None) -> Reply:
        """Call a tool."""
        self.test_run.count()
        return (on or self.main).reply(name, arguments, meta)

    def call_under(self, handle: str | None, tool: str) -> Reply:
        """Call a tool without arguments, under a handle if there is one."""
        if handle is None or self.test_run.can("listing"):
            return self.call(tool, {}, None if handle is None else {HANDLE_META: handle})
        return self.call(str(self.driver.call_tool), {HANDLE: handle, "name": tool, "arguments": {}})

    def page(self, cursor: str | None = None, meta: Any = None, on: Connection | None = None) -> Json:
        """Return a page of the list."""
        self.test_run.count()
        return (on or self.main).list_tools(cursor, meta)

    def tools(self, meta: Any = None, on: Connection | None = None) -> list[Json]:
        """Return the whole list."""
        self.test_run.count()
        return (on or self.main).list_all_tools(meta)

    def names(self, meta: Any = None, on: Connection | None = None) -> list[str]:
        """Return the names on the list."""
        return [str(tool["name"]) for tool in self.tools(meta, on)]

    def missing_words(self, clause: str, opened: Reply, names: list[str]) -> dict[str, list[str]]:
        """Return, by tool, which of its name and the names of its parameters the text of an activation lacks.

        Parameters of a tool that no list shows are a part of the clause for which there is no evidence.
        """
        meta = {HANDLE_META: opened.handle} if self.modern and self.test_run.can("listing") else None
        schemas = {tool["name"]: mapping(tool.get("inputSchema")) for tool in self.tools(meta)}
        self.observed(schemas.keys() >= set(names), "the parameters of what an activation makes available", clause)
        words = {name: [name, *mapping(schemas.get(name, {}).get("properties"))] for name in names}
        missing = {name: [word for word in words[name] if word not in opened.text] for name in names}
        return {name: words for name, words in missing.items() if words}

    # -- evidence and judgements --------------------------------------------------------------------------------------

    def observed(self, found: bool, what: str, *clauses: str) -> bool:
        """Return whether the server showed what some clauses are about; they stay undecided where it did not.

        A check asks this before it judges: what could not have gone wrong is evidence for nothing (SPEC CNF-8).
        """
        self.test_run.noted(found, what, *clauses)
        return found

    def judge(self, clause: str, holds: bool, message: str, expected: Any = None, got: Any = None) -> bool:
        """Count what was observed as evidence for a clause, or report a violation; return whether it holds."""
        if holds:
            self.test_run.holds(clause)
        else:
            values = {"expected": expected, "got": got}
            known = {name: {"answer": value} for name, value in values.items() if value is not None}
            self.test_run.violated(clause, message, setup=self.setup, **known)
        return holds


def on(setup: Setup = SETUP) -> Callable[[Callable[[Wire], None]], Callable[[TestRun], None]]:
    """Return a decorator that turns a function into a check on that setup, or on the one that the server has."""

    def decorate(check: Callable[[Wire], None]) -> Callable[[TestRun], None]:
        @wraps(check)
        def run(test_run: TestRun) -> None:
            chosen = test_run.driver.given or setup
            if test_run.begin(chosen) is not None:
                check(Wire(test_run, chosen))

        return run

    return decorate


def without_hint(text: str, group: str) -> str:
    """Return the text of a refusal without a remark in brackets that names a group (SPEC CALL-1 allows such a hint)."""
    return re.sub(rf" \([^()]*{re.escape(group)}[^()]*\)", "", text)


def seen(reply: Reply) -> Json:
    """Return a reply as data for a report."""
    return dict(reply.result) if reply.refused is None else {"error": str(reply.refused)}


def mapping(value: Any) -> Json:
    """Return a value if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[object]:
    """Return a value if it is a list, else an empty one."""
    return cast("list[object]", value) if isinstance(value, list) else []


def name_in(tool: Any) -> str:
    """Return the name of a tool that an answer contains, as a name or as a definition."""
    return str(mapping(tool).get("name", tool))
