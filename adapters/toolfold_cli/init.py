"""`toolfold init`: MCP clients start Toolfold instead of their servers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolfold_adapters.tokens import approximate, plural

from .costs import costs_of_servers, known_definitions
from .failures import Failed, failing, run
from .options import examples, traceback_option
from .printing import show, table

if TYPE_CHECKING:
    from toolfold_adapters.gateway import GatewayConfig
    from toolfold_adapters.gateway.upstream.definitions import Definitions
    from toolfold_adapters.tokens import GroupCost

    from .client_files import ClientFile, FileChange


@click.command(
    "init",
    epilog=examples(
        "toolfold init --dry-run                 show what would change",
        "toolfold init --measure                 and start the servers to say what would be saved",
        "toolfold init --config .mcp.json --yes  change one file, and don't ask",
        "toolfold init --undo                    put the servers back",
    ),
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="The configuration of a client; those of known clients unless given.",
)
@click.option("--yes", is_flag=True, help="Change all files without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--measure", is_flag=True, help="Start the servers to learn how many tools and tokens they have.")
@click.option("--undo", is_flag=True, help="Put the servers back that Toolfold serves.")
@traceback_option
def init_command(configs: tuple[Path, ...], yes: bool, dry_run: bool, measure: bool, undo: bool) -> None:
    """Have the MCP clients on this machine start Toolfold instead of each of their servers.

    The servers of each client that Toolfold can serve move, as they are, to a file beside its configuration, which
    Toolfold then serves, in groups; others stay. The configuration is copied to a backup first. It asks before it
    changes a file.
    """
    with failing():
        from .client_files import ClientFile, client_files, plan_change, plan_undo

        files = tuple(ClientFile("", path.absolute()) for path in configs) or client_files(
            Path.home(), Path.cwd(), os.environ
        )
    if not files:
        raise Failed("No configuration of an MCP client was found; name one with --config.")
    plan = plan_undo if undo else partial(plan_change, command=_program())
    failed = 0
    for file in files:
        try:
            with failing(OSError):
                _one(file, plan, yes=yes, dry_run=dry_run, measure=measure, undo=undo)
        except Failed as error:
            error.show()
            failed += 1
    if failed:
        raise click.exceptions.Exit(1)


def _one(
    file: ClientFile,
    plan: Callable[[ClientFile], FileChange | None],
    *,
    yes: bool,
    dry_run: bool,
    measure: bool,
    undo: bool,
) -> None:
    """Show what would change in a file, and change it if that is wanted."""
    change = plan(file)
    show(f"{file.client}: {file.path}" if file.client else str(file.path))
    if change is None:
        show("  There is nothing to put back.\n" if undo else "  There is nothing to change.\n")
        return
    if undo:
        show(f"  {plural(len(change.servers), 'server')} to put back: {', '.join(change.servers)}.")
    else:
        _show_savings(change, measure)
    if dry_run or not change.servers:
        show("  Nothing was changed.\n")
        return
    if not yes and not click.confirm("  Put them back?" if undo else "  Have this client start Toolfold instead?"):
        show("  Nothing was changed.\n")
        return
    from .client_files import apply

    backup = apply(change)
    where = "" if undo else f" The servers are in {file.served}."
    show(f"  Done.{where} What was there before is in {backup}. Restart the client.\n")


def _show_savings(change: FileChange, measure: bool) -> None:
    """Print the servers of a client, with what they cost as far as that is known (SPEC GWY-5)."""
    from toolfold_adapters.names import server_name

    config = _configuration(change)
    definitions: Mapping[str, Definitions] = (
        run(partial(known_definitions, config, start=measure)) if config is not None else {}
    )
    nothing: tuple[Mapping[str, GroupCost], int] = ({}, 0)
    known, listed = costs_of_servers(config, definitions) if config and definitions else nothing
    rows = table("  SERVER", "TOOLS", "TOKENS", numbers=("TOOLS", "TOKENS"))
    for name in change.servers:
        cost = known.get(server_name(name))
        rows.add_row(f"  {name}", *((f"{cost.tools:,}", approximate(cost.before)) if cost else ("", "not measured")))
    for name in change.staying:
        rows.add_row(f"  {name}", "", "stays")
    show(rows)
    for note in change.notes:
        show(f"  {note.replace('The server is left out.', 'It stays where it is.')}")
    if known:
        before = sum(cost.before for cost in known.values())
        show(f"  {approximate(before)} tokens of tool definitions become {approximate(listed)} at first.")
    elif config is not None and not measure:
        show("  Add --measure to see what would be saved: it starts the servers.")


def _configuration(change: FileChange) -> GatewayConfig | None:
    """Return the configuration of what is served after a change, if that is anything."""
    from toolfold_adapters.data import table_in
    from toolfold_adapters.gateway.config.read import parse_config

    if change.served is None:
        return None
    environ = {**dict.fromkeys(change.passed_on, ""), **os.environ}
    return parse_config(change.file.served, table_in(change.file.served, change.served), environ)


def _program() -> tuple[str, ...]:
    """Return what starts this program, for a client that has another PATH."""
    found = shutil.which("toolfold")
    return (str(Path(found).absolute()),) if found else (sys.executable, "-m", "toolfold_cli")
