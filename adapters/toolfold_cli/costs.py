"""The initial state of a session, and the cost of its list of tools (SPEC GWY-5)."""

from __future__ import annotations

from collections.abc import Iterable

from toolfold import Snapshot, ToolSet, TransitionRequest, WireNames
from toolfold.spi import RequestView, listed
from toolfold_adapters.names import WIRE_SEPARATOR
from toolfold_adapters.tokens import Costs, approximate_tokens, measure

from .signals import stdout_reserved
from .targets import GatewayOptions, Target, open_target

CALL_TOOL = "call_tool"


async def initial_view_of(
    target: Target, options: GatewayOptions, profile: str | None, active: Iterable[str]
) -> RequestView:
    """Return a view of the initial state of a target, which is opened and closed again."""
    with stdout_reserved():
        async with open_target(target, options) as opened:
            return initial_view(opened.tools, profile, active)


def initial_view(tools: ToolSet, profile: str | None = None, active: Iterable[str] = ()) -> RequestView:
    """Return a view of a session's initial state, without opening a session or running hooks.

    Raises:
        ConfigError: There is no such profile.
        ToolfoldError: The initial groups can't be active together.
    """
    selected = tools.profile(profile)
    snapshot = Snapshot.of(tools.catalog_under(selected))
    groups = (*(selected.active if selected else ()), *active)
    return tools.view_of(snapshot.after(TransitionRequest(activate=groups)))


def wire_costs(view: RequestView) -> tuple[Costs, int | None]:
    """Return the costs for a client with a session, and the approximate tokens for one without.

    The list without a session, of MCP 2026-07-28, has the same tools, but its control tools take a handle. If the
    package `mcp` is not installed, return the costs for a conversation in process, and `None`.
    """
    try:
        from toolfold_adapters.mcp.proxy import CallToolProxy, with_handle
    except ModuleNotFoundError:
        return measure(view), None
    if not view.snapshot.catalog.groups:
        costs = measure(view)
        return costs, costs.after
    to_wire = WireNames(WIRE_SEPARATOR).to_wire
    costs = measure(view, [CallToolProxy(CALL_TOOL, with_handle=False).component], to_wire)
    definitions = [
        {
            **(with_handle(component.definition) if component.control else component.definition),
            "name": to_wire(component.name),
        }
        for component in listed(view, "tool")
    ]
    definitions.append(dict(CallToolProxy(CALL_TOOL, with_handle=True).component.definition))
    return costs, sum(map(approximate_tokens, definitions))
