"""`toolfold inspect`: the groups and tools of a target, without serving it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from toolfold import Component, GroupInfo, Visibility
from toolfold.spi import RequestView, listed
from toolfold_adapters.tokens import Costs, GroupCost, approximate, approximate_tokens, saved_percent

from .costs import costs_by_server, in_brief, inspected, wire_costs
from .failures import Failed
from .options import Integer, active_option, chosen_target, target_command
from .printing import show, show_json, table
from .targets import Target

if TYPE_CHECKING:
    from toolfold_adapters.gateway.upstream.upstream import UpstreamStatus

ROOT = "(in no group)"
MANY_GROUPS = 12
"""How many groups may have control tools of their own before `inspect` says what is shorter."""
NUMBERS = ("TOOLS", "LISTED", "BEFORE", "AFTER")
_ONE_FOR_ALL = {True: "--control open_group", False: 'ToolSet(..., control="open_group")'}
"""What gives all groups the same two control tools, for a gateway or not."""


@target_command(
    "inspect",
    "toolfold inspect shop:tools",
    "toolfold inspect shop:tools --active orders,orders.returns --tools",
    "toolfold inspect gateway.toml --json",
    "toolfold inspect shop:tools --check --max-group-tokens 5000",
    "toolfold inspect catalog.toml               groups and tools as data, with no program",
    "toolfold inspect --groups groups.toml -- npx -y some-mcp-server",
)
@click.option("--profile", metavar="NAME", help="Inspect it with this profile.")
@active_option(help="Groups to open first, or servers of a gateway, separated by commas; hooks do not run.")
@click.option("--tools", "with_tools", is_flag=True, help="Name the tools, and mark those that are listed.")
@click.option("--call-tools", is_flag=True, help="Count call_tools too, as for `toolfold serve --call-tools`.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--check", is_flag=True, help="Fail, with status 1, if a tool or a group has no description.")
@click.option(
    "--max-group-tokens",
    type=Integer(min=1),
    metavar="N",
    help="With --check: fail if the tools of a group cost more tokens.",
)
def inspect_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    profile: str | None,
    active: tuple[str, ...],
    with_tools: bool,
    call_tools: bool,
    as_json: bool,
    check: bool,
    max_group_tokens: int | None,
    **given: Any,
) -> None:
    """Show a TARGET's groups with their tools and approximate tokens.

    BEFORE is the cost of all tools without groups, AFTER that of the list that a client gets at first, including
    call_tool and the tools that open groups. Tokens are a quarter of the characters of the definitions.
    """
    if max_group_tokens is not None and not check:
        raise click.UsageError("--max-group-tokens is what --check compares with: add --check.", ctx)
    target, options = chosen_target(ctx, targets, **given)
    view, servers, status, _ = inspected(target, options, profile, active)
    costs = wire_costs(view, read_tool=target.is_gateway, call_tools=call_tools)
    if as_json:
        show_json(_report(view, *costs, servers, status))
    else:
        _show_number_of_control_tools(view, target)
        _show_table(view, *costs, with_tools, target)
        _show_servers(view, servers)
        for one in status:
            if one.reason:
                show(f"The server {one.name} is {one.state}: {one.reason}")
            if one.cut:
                show(f"The server {one.name} lists more than is kept, so {one.cut:,} or more are left out.")
    if check and (problems := list(_problems(view, costs[0], max_group_tokens))):
        raise Failed("\n".join(problems))


def _problems(view: RequestView, costs: Costs, max_group_tokens: int | None) -> Iterator[str]:
    """Yield what a model would miss, or have to read too much of."""
    infos = view.snapshot.groups
    for name in view.snapshot.catalog.undescribed:
        yield f"The tool {name} has no description."
    for info in infos:
        if not info.description.strip():
            yield f"The group {info.name} has no description."
    for cost in costs.groups:
        if max_group_tokens is not None and cost.path is not None and cost.before > max_group_tokens:
            yield f"The tools of {cost.path} cost {approximate(cost.before)} tokens, more than {max_group_tokens:,}."


def _show_servers(view: RequestView, servers: Mapping[str, str]) -> None:
    """Print what each server costs, where there are several (SPEC GWY-5)."""
    costs = costs_by_server(view, servers)
    if len(costs) < 2:
        return
    rows = table("SERVER", *NUMBERS, numbers=NUMBERS)
    for server, cost in costs.items():
        rows.add_row(server, *_cells(cost))
    show("")
    show(rows)


def _show_number_of_control_tools(view: RequestView, target: Target) -> None:
    """Say first where groups are so many that tools for each one are too much to read."""
    of_groups = _control_tools_of_groups(view)
    groups = len({component.group for component in of_groups})
    if groups > MANY_GROUPS:
        show(
            f"Each of {groups:,} groups has control tools of its own, {len(of_groups):,} in all. "
            f"{_ONE_FOR_ALL[target.is_gateway]} has two for all of them.\n"
        )


def _control_tools_of_groups(view: RequestView) -> list[Component]:
    tools = view.snapshot.catalog.tools.values()
    return [component for component in tools if component.control and component.group is not None]


def _show_table(view: RequestView, costs: Costs, without_session: int | None, with_tools: bool, target: Target) -> None:
    infos = {info.name: info for info in view.snapshot.groups}
    listed_names = {component.name for component in listed(view, "tool")}
    rows = table("GROUP", "STATE", *NUMBERS, "DESCRIPTION", numbers=NUMBERS)
    for cost in costs.groups:
        info = infos.get(cost.path or "")
        depth = cost.path.count(".") if cost.path else 0
        label = info.name.rpartition(".")[2] if info else ROOT
        description = " ".join(info.description.split()) if info else ""
        rows.add_row(Text("  " * depth + label), info.state.word if info else "", *_cells(cost), description)
        if with_tools:
            for component in _tools_of(view, cost.path):
                mark = "*" if component.name in listed_names else "-"
                label = f"{mark} {view.snapshot.catalog.spoken(component.name)}{_modes(view, component)}"
                rows.add_row(Text("  " * (depth + 1) + label, style="dim" if mark == "-" else ""))
    rows.add_row("total", "", *_cells(costs), style="bold")
    show(rows)
    show(_verdict(view, costs, without_session, target))
    if bare := view.snapshot.catalog.undescribed:
        show(
            f"Without a description: {', '.join(bare)}. A model can't know what {'they do' if bare[1:] else 'it does'}."
        )
    if without_session not in (None, costs.after):
        show(f"Clients without sessions (MCP 2026-07-28) get {approximate(without_session or 0)} tokens.")
    for component in view.snapshot.catalog.tools.values():
        if component.replaces_control:
            show(
                f"The tool {component.name} takes the place of the control tool of that name, and opens nothing itself."
            )
    for members in view.snapshot.catalog.exclusions:
        show(f"Only one at a time: {', '.join(sorted(members))}")


def _cells(cost: GroupCost | Costs) -> tuple[str, ...]:
    return f"{cost.tools:,}", f"{cost.listed:,}", approximate(cost.before), approximate(cost.after)


def _verdict(view: RequestView, costs: Costs, without_session: int | None, target: Target) -> str:
    when = f"with {', '.join(view.snapshot.active)} open" if view.snapshot.active else "at first"
    if not costs.before:
        added = f" but what opens groups: {approximate(costs.after)} tokens {when}" if costs.after else ""
        return f"\nThere are no tools to list{added}."
    if costs.after <= costs.before:
        said = f"\n{in_brief(costs, when)}: {costs.saved:g}% saved"
        if without_session is None or without_session <= costs.before:
            return f"{said}."
        more = -saved_percent(costs.before, without_session)
        return (
            f"{said} with a session, but {more:g}% more without one. "
            f"What costs less: {' or '.join(_advice(view, target))}."
        )
    return (
        f"\nThe list costs {-costs.saved:g}% more {when} than all tools would: their definitions are shorter than "
        f"those of the control tools. What costs less: {' or '.join(_advice(view, target))}."
    )


def _advice(view: RequestView, target: Target) -> list[str]:
    """Return ways to make the list shorter, as an option or as code, depending on the target."""
    advice = ["larger groups"]
    control_tools = _control_tools_of_groups(view)
    if control_tools:
        advice.append(_ONE_FOR_ALL[target.is_gateway])
    if any(component.rule == Visibility.always() for component in control_tools):
        advice.append(
            "--control-visibility relevant" if target.is_gateway else 'ToolSet(..., control_visibility="relevant")'
        )
    return advice


def _modes(view: RequestView, component: Component) -> str:
    """Return the modes of a composite tool that are available now."""
    return (
        ""
        if component.modes is None
        else f" ({component.modes.parameter}: {', '.join(view.modes_of(component)) or '-'})"
    )


def _tools_of(view: RequestView, path: str | None) -> list[Component]:
    tools = view.snapshot.catalog.tools.values()
    own = [
        component
        for component in tools
        if component.control is None and component.group == path and not component.never_listed
    ]
    return sorted(own, key=lambda component: component.name)


def _report(
    view: RequestView,
    costs: Costs,
    without_session: int | None,
    servers: Mapping[str, str],
    status: Iterable[UpstreamStatus],
) -> dict[str, Any]:
    """Return the output of `inspect --json`; keys may be added to it, and none removed."""
    infos = {info.name: info for info in view.snapshot.groups}
    listed_names = {component.name for component in listed(view, "tool")}
    by_server = costs_by_server(view, servers)
    return {
        "name": view.snapshot.catalog.name,
        "active": list(view.snapshot.active),
        "tools": costs.tools,
        "listed": costs.listed,
        "tokens": {
            "before": costs.before,
            "after": costs.after,
            "after_without_session": without_session,
            "saved_percent": costs.saved,
        },
        "groups": [_group_report(view, cost, infos.get(cost.path or ""), listed_names) for cost in costs.groups],
        "servers": [_server_report(one, by_server.get(one.name)) for one in status],
        "exclusions": [sorted(members) for members in view.snapshot.catalog.exclusions],
    }


def _server_report(status: UpstreamStatus, cost: GroupCost | None) -> dict[str, Any]:
    """Return how a server is doing, and what it puts into the list; `offered` is how many of its tools are known."""
    return {
        "name": status.name,
        "tools": cost.tools if cost else 0,
        "listed": cost.listed if cost else 0,
        "tokens": {"before": cost.before if cost else 0, "after": cost.after if cost else 0},
        "state": status.state,
        "connections": status.connections,
        "failures": status.failures,
        "reason": status.reason,
        "offered": status.tools,
        "left_out": status.cut,
    }


def _group_report(view: RequestView, cost: GroupCost, info: GroupInfo | None, listed_names: set[str]) -> dict[str, Any]:
    return {
        "path": cost.path,
        "parent": info.parent if info else None,
        "description": info.description if info else "",
        "state": info.state.value if info else None,
        "tokens": {"before": cost.before, "after": cost.after},
        "listed": cost.listed,
        "tools": [
            {
                "name": component.name,
                "listed": component.name in listed_names,
                "tokens": approximate_tokens(dict(component.definition)),
                "replaces_control": component.replaces_control,
                **({} if component.modes is None else {"modes": list(view.modes_of(component))}),
            }
            for component in _tools_of(view, cost.path)
        ],
    }
