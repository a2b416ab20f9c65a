"""`toolfold check`: whether the tools that an agent needs can be had, before it runs (SPEC EXP-2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import click
from attrs import frozen

from toolfold import ExclusionConflict, QuotaExceeded, Reason, ToolfoldError, TransitionRequest
from toolfold.spi import RequestView
from toolfold_adapters.files import read_text
from toolfold_adapters.skills import read_skill

from .allowed import principal_called, show_allowed
from .costs import inspected
from .explain import NamesCommand, data_of, reason_for, target_and_names
from .failures import failing
from .options import COMMAND, active_option, chosen_target, target_command
from .printing import show, show_json, table


@frozen
class Availability:
    """Whether a tool can be had: the groups that have to open first, in their order, and the reason after that."""

    reason: Reason
    openings: tuple[str, ...]


def availability(view: RequestView, name: str) -> Availability:
    """Return whether a tool can be had, and by which openings, of those that a client has tools for."""
    openings = list[str]()
    reason = reason_for(view, name)
    while reason.how is not None and reason.group is not None and reason.group not in openings:
        try:
            view = view.of(view.snapshot.after(TransitionRequest(activate=[reason.group])))
        except ToolfoldError:
            break
        openings.append(reason.group)
        reason = reason_for(view, name)
    return Availability(reason, tuple(openings))


def apart(view: RequestView, found: Sequence[Availability]) -> Iterator[tuple[Availability, Availability]]:
    """Yield the pairs of tools that can be had, but not at the same time."""
    can = [one for one in found if one.reason.is_callable]
    for one, other in combinations(can, 2):
        after = _after(view, (one, other))
        if after is None or not all(reason_for(after, each.reason.name).is_callable for each in (one, other)):
            yield one, other


def _after(view: RequestView, found: Sequence[Availability]) -> RequestView | None:
    """Return the view after all openings in one transition, or `None` if they can't be open at the same time."""
    needed = sorted({path for one in found for path in one.openings})
    try:
        return view.of(view.snapshot.after(TransitionRequest(activate=needed)))
    except (ExclusionConflict, QuotaExceeded):
        return None


@target_command(
    "check",
    "toolfold check shop:tools orders.place orders.refund",
    "toolfold check gateway.toml --skill skills/release",
    "toolfold check shop:tools --file needed.txt --profile clerk --json",
    "toolfold check create_issue -- npx -y some-mcp-server",
    "toolfold check gateway.toml --as alice --claim role=admin",
    cls=NamesCommand,
)
@click.option("--profile", metavar="NAME", help="Check it with this profile.")
@active_option(help="Groups that are open at first, separated by commas; hooks do not run.")
@click.option(
    "--skill",
    "skills",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Check the tools that a skill allows: a folder with a SKILL.md, or that file.",
)
@click.option(
    "--file",
    "files",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    multiple=True,
    help="Check the names in a text file, one on each line; # begins a comment.",
)
@click.option(
    "--as",
    "caller",
    metavar="CALLER",
    help="Check what this caller of a gateway may do, by its rights; without a NAME, print the table of it.",
)
@click.option("--claim", "claims", metavar="NAME=VALUE", multiple=True, help="A claim of that caller's token.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    profile: str | None,
    active: tuple[str, ...],
    skills: tuple[Path, ...],
    files: tuple[Path, ...],
    caller: str | None,
    claims: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Say whether an agent can have the tools of some NAMEs, which groups it has to open, and which exclude others.

    No hook runs and no tool is called. The status is 1 if one of them can't be had.
    """
    with failing():
        others = [name for skill in skills for name in _of_skill(skill)]
        others += [name for file in files for name in _in(file)]
    if caller is None and claims:
        raise click.UsageError("--claim is of a caller: add --as NAME.", ctx)
    principal = None if caller is None else principal_called(caller, claims)
    named = caller is None or COMMAND in ctx.meta or len(targets) > 1 or bool(others)
    targets, names = target_and_names(ctx, targets, tuple(others)) if named else (targets, ())
    found_there = inspected(*chosen_target(ctx, targets, **given), profile, active, principal=principal)
    if principal is not None and not names:
        rights = found_there.rights
        if rights is None:
            raise click.UsageError("--as is for the configuration of a gateway, which has rows of rights.", ctx)
        show_allowed(found_there, rights, principal, as_json=as_json)
        return
    view = found_there.view
    found = [availability(view, name) for name in names]
    exclusive = [*apart(view, found)]
    if as_json:
        show_json(
            {
                "tools": [{**data_of(one.reason), "open": list(one.openings)} for one in found],
                "apart": [[one.reason.name, other.reason.name] for one, other in exclusive],
            }
        )
    else:
        _show(found, exclusive)
    if not all(one.reason.is_callable for one in found):
        ctx.exit(1)


def _of_skill(path: Path) -> Sequence[str]:
    return tuple(read_skill(path if path.is_dir() else path.parent).allowed_tools)


def _in(file: Path) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in read_text(file).splitlines())
    return [line for line in lines if line]


def _show(found: Sequence[Availability], exclusive: Sequence[tuple[Availability, Availability]]) -> None:
    rows = table("TOOL", "", "OPEN FIRST", "WHY NOT", texts=("OPEN FIRST",))
    for one in found:
        can = one.reason.is_callable
        rows.add_row(
            one.reason.name,
            "yes" if can else "no",
            ", ".join(one.openings) if can else "",
            "" if can else one.reason.text,
        )
    show(rows)
    for one, other in exclusive:
        show(f"{one.reason.name} and {other.reason.name} can't be called at the same time.")
