"""`toolfold inspect` and `toolfold profiles`: what a target offers, without serving it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import click
from rich.text import Text

from toolfold import GroupInfo, Snapshot, Spec, ToolSet, TransitionRequest, WireNames
from toolfold.spi import Always, RequestView, group_infos, listed, never_listed

from ..names import WIRE_SEPARATOR
from ..targets import GatewayOptions, Target, open_target
from ..tokens import Costs, GroupCost, approximate_tokens, measure
from .options import TargetCommand, chosen, examples, paths, run, target_options
from .output import about, show, show_json, table
from .signals import output_reserved

ROOT = "(in no group)"
CALL_TOOL = "call_tool"


@click.command(
    "inspect",
    cls=TargetCommand,
    short_help="Show groups, their tools, and what they cost.",
    epilog=examples(
        "toolfold inspect shop:tools",
        "toolfold inspect shop:tools --active orders,orders.returns --tools",
        "toolfold inspect gateway.toml --json",
        "toolfold inspect --groups groups.toml -- npx -y some-mcp-server",
    ),
)
@target_options
@click.option("--profile", metavar="NAME", help="Look at it under this profile.")
@click.option(
    "--active",
    metavar="GROUPS",
    multiple=True,
    callback=paths,
    help="Groups to open first, by commas; hooks do not run.",
)
@click.option("--tools", "with_tools", is_flag=True, help="Name the tools, and mark those that are listed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def inspect_target(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    profile: str | None,
    active: tuple[str, ...],
    with_tools: bool,
    as_json: bool,
    **said: Any,
) -> None:
    """Show a TARGET's groups with their tools and approximate tokens.

    BEFORE is what all tools would cost if there were no groups, AFTER what a client is given at first, with the tools
    that open groups and call_tool. Tokens are a quarter of the characters of the definitions.
    """
    target, options = chosen(ctx, targets, **said)
    view = run(partial(_view, target, options, profile, active))
    if as_json:
        show_json(_report(view))
    else:
        _print(view, with_tools, target)


@click.command(
    "profiles",
    cls=TargetCommand,
    short_help="Show the profiles that it can be served under.",
    epilog=examples("toolfold profiles shop:tools", "toolfold profiles gateway.toml --json"),
)
@target_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def list_profiles(ctx: click.Context, /, targets: tuple[str, ...], as_json: bool, **said: Any) -> None:
    """Show a TARGET's profiles: groups open from the start, and groups that can be opened.

    Serve one of them with: toolfold serve TARGET --profile NAME
    """
    print_profiles(*chosen(ctx, targets, **said), as_json=as_json)


def print_profiles(target: Target, options: GatewayOptions, *, as_json: bool) -> None:
    """Print the profiles of a target (SPEC PRO-2)."""
    view: RequestView = run(partial(_view, target, options, None, ()))
    profiles = view.snapshot.catalog.profiles.values()
    if as_json:
        show_json(
            [
                {
                    "name": profile.name,
                    "description": profile.description,
                    "active": list(profile.active),
                    "available": list(profile.available),
                    "read_only": profile.read_only,
                }
                for profile in profiles
            ]
        )
        return
    if not profiles:
        show("There are no profiles.")
        return
    rows = table("PROFILE", "ACTIVE", "AVAILABLE", "DESCRIPTION")
    for profile in profiles:
        only = {None: "", True: "read-only tools", False: "no read-only tools"}[profile.read_only]
        said = "; ".join(part for part in (profile.description, only) if part)
        rows.add_row(profile.name, ", ".join(profile.active) or "-", ", ".join(profile.available) or "-", said)
    show(rows)


def view_at_start(tools: ToolSet, profile: str | None = None, active: Iterable[str] = ()) -> RequestView:
    """Return a view of the state that a session begins in; no session is opened and no hook runs.

    Raises:
        ConfigError: There is no such profile.
        ToolfoldError: The groups to begin with can't be active together.
    """
    chosen_profile = tools.profile(profile)
    start = Snapshot.of(tools.catalog_under(chosen_profile))
    groups = (*(chosen_profile.active if chosen_profile else ()), *active)
    return tools.view_of(start.after(TransitionRequest(activate=groups)))


def costs_over_mcp(view: RequestView) -> tuple[Costs, int | None]:
    """Return what a client with a session is given, and about how many tokens one without a session is.

    The list of the latter, of MCP 2026-07-28, has the same tools, but each control tool takes a handle there. Without
    the package `mcp` there is neither, and what a conversation in this process is given is returned with `None`.
    """
    try:
        from ..mcp.proxy import CallToolProxy, with_handle
    except ModuleNotFoundError:
        return measure(view), None
    if not view.snapshot.catalog.groups:
        costs = measure(view)
        return costs, costs.after
    spell = WireNames(WIRE_SEPARATOR).to_wire
    costs = measure(view, [CallToolProxy(CALL_TOOL, with_handle=False).spec], spell)
    shown = [
        {**(with_handle(spec.definition) if spec.control else spec.definition), "name": spell(spec.name)}
        for spec in listed(view, "tool")
    ]
    shown.append(dict(CallToolProxy(CALL_TOOL, with_handle=True).spec.definition))
    return costs, sum(map(approximate_tokens, shown))


async def _view(target: Target, options: GatewayOptions, profile: str | None, active: Iterable[str]) -> RequestView:
    with output_reserved():
        async with open_target(target, options) as opened:
            return view_at_start(opened.tools, profile, active)


def _print(view: RequestView, with_tools: bool, target: Target) -> None:
    costs, without_session = costs_over_mcp(view)
    infos = {info.name: info for info in group_infos(view.snapshot)}
    shown = {spec.name for spec in listed(view, "tool")}
    numbers = ("TOOLS", "LISTED", "BEFORE", "AFTER")
    rows = table("GROUP", "STATE", *numbers, "DESCRIPTION", numbers=numbers)
    for cost in costs.groups:
        info = infos.get(cost.path or "")
        depth = cost.path.count(".") if cost.path else 0
        label = info.name.rpartition(".")[2] if info else ROOT
        described = " ".join(info.description.split()) if info else ""
        rows.add_row(Text("  " * depth + label), *_cells(cost, info), described)
        if with_tools:
            for spec in _tools_of(view, cost.path):
                mark = "*" if spec.name in shown else "-"
                label = f"{mark} {spec.name}{_modes(view, spec)}"
                rows.add_row(Text("  " * (depth + 1) + label, style="dim" if mark == "-" else ""))
    rows.add_row(
        *("total", "", f"{costs.tools:,}", f"{costs.listed:,}", about(costs.before), about(costs.after)), style="bold"
    )
    show(rows)
    show(_verdict(view, costs, target))
    if without_session not in (None, costs.after):
        show(f"Clients without sessions (MCP 2026-07-28) are given {about(without_session or 0)}.")
    for members in view.snapshot.catalog.exclusions:
        show(f"Only one at a time: {', '.join(sorted(members))}")


def _cells(cost: GroupCost, info: GroupInfo | None) -> tuple[str, ...]:
    state = info.state.value if info else ""
    return state, f"{cost.tools:,}", f"{cost.listed:,}", about(cost.before), about(cost.after)


def _verdict(view: RequestView, costs: Costs, target: Target) -> str:
    when = f"with {', '.join(view.active)} open" if view.active else "at first"
    if costs.after <= costs.before:
        return f"\n{costs.saved:g}% of the tokens are saved {when}."
    return (
        f"\nThe list costs {-costs.saved:g}% more {when} than all tools would: their definitions are shorter than the "
        f"control tools. What costs less: {' or '.join(_cheaper(view, target))}."
    )


def _cheaper(view: RequestView, target: Target) -> list[str]:
    """Return what would make the list shorter, as it is said where the tools come from."""
    ways = ["larger groups"]
    of_groups = [spec for spec in view.snapshot.catalog.tools.values() if spec.control and spec.group is not None]
    if of_groups:
        ways.append("--control load_tool_group" if target.is_gateway else 'ToolSet(..., control="load_tool_group")')
    if any(spec.rule == Always() for spec in of_groups):
        ways.append(
            "--control-visibility relevant" if target.is_gateway else 'ToolSet(..., control_visibility="relevant")'
        )
    return ways


def _modes(view: RequestView, spec: Spec) -> str:
    """Return the modes of a composite tool that are available now."""
    return "" if spec.modes is None else f" ({spec.modes.parameter}: {', '.join(view.modes_of(spec)) or '-'})"


def _tools_of(view: RequestView, path: str | None) -> list[Spec]:
    tools = view.snapshot.catalog.tools.values()
    own = [spec for spec in tools if spec.control is None and spec.group == path and not never_listed(spec)]
    return sorted(own, key=lambda spec: spec.name)


def _report(view: RequestView) -> dict[str, Any]:
    """Return what `inspect --json` prints; keys are only ever added to it."""
    costs, without_session = costs_over_mcp(view)
    infos = {info.name: info for info in group_infos(view.snapshot)}
    shown = {spec.name for spec in listed(view, "tool")}
    return {
        "name": view.snapshot.catalog.name,
        "active": list(view.active),
        "tools": costs.tools,
        "listed": costs.listed,
        "tokens": {
            "before": costs.before,
            "after": costs.after,
            "after_without_session": without_session,
            "saved_percent": costs.saved,
        },
        "groups": [_group(view, cost, infos.get(cost.path or ""), shown) for cost in costs.groups],
        "exclusions": [sorted(members) for members in view.snapshot.catalog.exclusions],
    }


def _group(view: RequestView, cost: GroupCost, info: GroupInfo | None, shown: set[str]) -> dict[str, Any]:
    return {
        "path": cost.path,
        "parent": info.parent if info else None,
        "description": info.description if info else "",
        "state": info.state.value if info else None,
        "tokens": {"before": cost.before, "after": cost.after},
        "listed": cost.listed,
        "tools": [
            {
                "name": spec.name,
                "listed": spec.name in shown,
                "tokens": approximate_tokens(dict(spec.definition)),
                **({} if spec.modes is None else {"modes": list(view.modes_of(spec))}),
            }
            for spec in _tools_of(view, cost.path)
        ],
    }
