"""`toolfold profiles`."""

from __future__ import annotations

from typing import Any

import click

from .costs import inspected
from .options import chosen_target, target_command
from .printing import show, show_json, table
from .targets import GatewayOptions, Target


@target_command(
    "profiles",
    "toolfold profiles shop:tools",
    "toolfold profiles gateway.toml --json",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def profiles_command(ctx: click.Context, /, targets: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Show a TARGET's profiles: groups that are open from the start, and groups that can be opened.

    Serve one of them with: toolfold serve TARGET --profile NAME
    """
    show_profiles(*chosen_target(ctx, targets, **given), as_json=as_json)


def show_profiles(target: Target, options: GatewayOptions, *, as_json: bool = False) -> None:
    """Print the profiles of a target (SPEC PRO-2)."""
    profiles = inspected(target, options).view.snapshot.catalog.profiles.values()
    if as_json:
        show_json(
            [
                {
                    "name": profile.name,
                    "description": profile.description,
                    "active": list(profile.active),
                    "available": list(profile.available),
                    "read_only": profile.read_only,
                    "destructive": profile.destructive,
                }
                for profile in profiles
            ]
        )
        return
    if not profiles:
        show("There are no profiles.")
        return
    rows = table("PROFILE", "ACTIVE", "AVAILABLE", "DESCRIPTION", texts=("ACTIVE", "AVAILABLE"))
    for profile in profiles:
        filtered = {None: "", True: "read-only tools", False: "no read-only tools"}[profile.read_only]
        harm = {None: "", True: "destructive tools", False: "no destructive tools"}[profile.destructive]
        description = "; ".join(part for part in (profile.description, filtered, harm) if part)
        rows.add_row(profile.name, ", ".join(profile.active) or "-", ", ".join(profile.available) or "-", description)
    show(rows)
