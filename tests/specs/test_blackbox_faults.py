"""One fault of a server that was not made for the kit is one finding, by the clause that it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mcp_types as types
import pytest

from toolfold_specs.driver import Driver, Group, Setup, Tool
from toolfold_specs.drivers.blackbox import BlackBoxDriver
from toolfold_specs.drivers.description import ControlCall, Described, Description
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.protocol import TOOL, Era
from toolfold_specs.kit import check
from toolfold_specs.report import Verdict
from verification.mutants.engine import Engine, Session
from verification.mutants.server import Fixture, handle_in

TOOLS = {"a": ("one", "two"), "a.b": ("one", "two"), "c": ("one", "two"), "d": ("one", "two")}
SYSTEM = Setup(
    groups=[Group(path) for path in TOOLS],
    exclusions=[("a", "c")],
    tools=[Tool(name, path) for path, names in TOOLS.items() for name in names],
)
DESCRIPTION = Description(
    tuple(
        Described(
            path,
            tuple(f"{path}.{name}" for name in names),
            ControlCall(f"{path}.activate"),
            ControlCall(f"{path}.deactivate"),
        )
        for path, names in TOOLS.items()
    ),
    (("a", "c"),),
)


class Ordered(Fixture):
    """Lists everything in one order, and nothing that is for the kit."""

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        page = await super().list_tools(ctx, params)
        tools = sorted((tool for tool in page.tools if tool.name != TOOL), key=lambda tool: tool.name)
        return page.model_copy(update={"tools": tools})


def served(fixture: type[Fixture] = Ordered, engine: type[Engine] = Engine, era: Era = "legacy") -> Driver:
    server = fixture(engine)
    server.install(engine(SYSTEM))
    return BlackBoxDriver(Link(server.server(), era), DESCRIPTION, grace=0.01)


def violated(make: Callable[[], Driver], *layers: str) -> set[str]:
    return {
        violation.clause for violation in check(make, layers=layers or ("exhaustive", "wire"), budget=150).violations
    }


@pytest.mark.spec("CNF-10")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_right_server_violates_nothing_of_the_state(era: Era) -> None:
    assert violated(partial(served, era=era)) == set()


class OpensWhenAsked(Engine):
    """Lists no control of a locked group, but opens it if that is called all the same."""

    def control_listed(self, group: Group, verb: str, session: Session) -> bool:
        return super().control_listed(group, verb, session) and self.state(group.path, session) != "locked"

    def check_ancestors(self, now: set[str], path: str) -> None:
        pass


@pytest.mark.spec("CNF-9")
def test_a_control_that_is_not_listed_is_asked_for_all_the_same() -> None:
    rows = {row.clause.id: row for row in check(partial(served, Ordered, OpensWhenAsked), layers=["exhaustive"]).rows}
    assert rows["ACT-2"].verdict is Verdict.VIOLATED


class GatesOnlyTheFirst(Engine):
    def callable(self, tool: Tool, session: Session) -> bool:
        return tool.name == "two" or super().callable(tool, session)


@pytest.mark.spec("CNF-9")
def test_every_closed_tool_is_tried() -> None:
    assert violated(partial(served, Ordered, GatesOnlyTheFirst), "wire") >= {"CALL-1"}


class LosesATool(Engine):
    def listed(self, tool: Tool, session: Session) -> bool:
        return super().listed(tool, session) and tool.full_name != "c.one"


class LeavesATool(Engine):
    def listed(self, tool: Tool, session: Session) -> bool:
        self.seen[session.name] |= set(session.active)
        left = tool.full_name == "d.one" and "d" in self.seen[session.name]
        return left or super().listed(tool, session)


@pytest.mark.spec("CNF-10")
@pytest.mark.parametrize("engine", [LosesATool, LeavesATool])
def test_a_tool_of_a_group_that_is_lost_or_left_over_is_a_fault_of_the_list(engine: type[Engine]) -> None:
    assert violated(partial(served, Ordered, engine), "exhaustive") == {"VIS-2"}


class Shares(Ordered):
    """All connections have one state."""

    def session(self, ctx: Any, arguments: Mapping[str, Any] | None = None) -> Session:
        return self.engine.session("the only one")


@pytest.mark.spec("CNF-10")
def test_a_state_that_connections_share_is_no_fault_of_the_transitions() -> None:
    assert violated(partial(served, Shares)) == {"SES-1", "DEL-1"}


class IgnoresHandles(Ordered):
    """Lists and calls as if no request carried a handle; only the call of a control tool does."""

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return await super().list_tools(Anonymous(ctx), params)


class Anonymous:
    """A request without its handle."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self.meta: Mapping[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


@pytest.mark.spec("CNF-10")
def test_a_handle_that_lists_ignore_is_one_finding() -> None:
    assert handle_in(Anonymous(None)) is None
    assert violated(partial(served, IgnoresHandles, era="modern")) == {"DEL-11"}
