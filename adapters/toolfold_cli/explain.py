"""`toolfold explain`: why a tool can or can't be seen and called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from toolfold import Reason, explain
from toolfold.spi import RequestView
from toolfold_adapters.names import WIRE_SEPARATOR

from .costs import inspected
from .options import COMMAND, OneOf, TargetCommand, active_option, chosen_target, target_command
from .printing import show, show_json, table
from .targets import full_name

KINDS = ("tool", "prompt", "resource")


class NamesCommand(TargetCommand):
    """A command with a TARGET and names of tools; or the names, and after `--` the command of a server."""

    positional = "TARGET NAME..."
    before_command = "NAME..."


def target_and_names(
    ctx: click.Context, words: tuple[str, ...], others: tuple[str, ...] = ()
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the TARGET, if it is given, and the names after it with `others`; raises `click.UsageError`."""
    first = 0 if COMMAND in ctx.meta else 1
    names = tuple(dict.fromkeys((*words[first:], *others)))
    if not names:
        raise click.UsageError("Say which tools it is about: one NAME or more after the TARGET.", ctx)
    return words[:first], names


def reason_for(view: RequestView, name: str, kind: Any = "tool") -> Reason:
    """Return the reason of what a user names, also if a profile leaves it out."""
    catalog = view.snapshot.catalog
    known = (catalog.whole or catalog).components[kind].by_name
    found = full_name(known, name, catalog.spoken)
    path = name.replace(WIRE_SEPARATOR, ".")
    return explain(view, path if found is None and path in catalog.index else found or name, kind)


def parse_facts(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the facts in an option's values."""
    facts: dict[str, Any] = {}
    for value in values:
        name, sign, text = value.partition("=")
        if not name or not sign:
            raise click.BadParameter(f"{value!r} is not NAME=VALUE, such as role=manager.", ctx)
        try:
            facts[name] = json.loads(text)
        except ValueError:
            facts[name] = text
    return facts


facts_option = click.option(
    "--fact",
    "facts",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parse_facts,
    help="A fact of the caller's session, which predicates see; JSON if it can be read as that, else a text.",
)


@target_command(
    "explain",
    "toolfold explain shop:tools orders.refund",
    "toolfold explain shop:tools orders.refund --active orders --profile clerk",
    "toolfold explain shop:tools orders.refund --active orders --fact role=manager",
    "toolfold explain gateway.toml github.create_issue --json",
    "toolfold explain create_issue -- npx -y some-mcp-server",
    cls=NamesCommand,
)
@click.option("--profile", metavar="NAME", help="Explain it with this profile.")
@active_option(help="Groups to open first, separated by commas; hooks do not run.")
@facts_option
@click.option("--kind", type=OneOf(KINDS), default="tool", help="What the names are names of.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def explain_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    profile: str | None,
    active: tuple[str, ...],
    facts: Mapping[str, Any],
    kind: str,
    as_json: bool,
    **given: Any,
) -> None:
    """Say why a NAME can or can't be seen and called in a TARGET, and what changes that; also of a group.

    The status is 1 if there is nothing of a name.
    """
    targets, names = target_and_names(ctx, targets)
    view = inspected(*chosen_target(ctx, targets, **given), profile, active, facts).view
    reasons = [reason_for(view, name, kind) for name in names]
    if as_json:
        show_json([data_of(reason) for reason in reasons])
    else:
        rows = table("NAME", "WHY", "")
        for reason in reasons:
            rows.add_row(reason.name, reason.why, reason.text)
        show(rows)
    if any(reason.why == "unknown" for reason in reasons):
        ctx.exit(1)


def data_of(reason: Reason) -> dict[str, Any]:
    """Return a reason as JSON."""
    return {
        "name": reason.name,
        "kind": reason.kind,
        "why": reason.why,
        "listed": reason.is_listed,
        "callable": reason.is_callable,
        "text": reason.text,
        "group": reason.group,
        "excluding": list(reason.excluding),
        "near": list(reason.near),
    }
