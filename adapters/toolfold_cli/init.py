"""`toolfold init`: MCP clients start Toolfold instead of their servers."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import define

from toolfold import ConfigError, ToolfoldError
from toolfold_adapters.observe.stored_usage import usage_file
from toolfold_adapters.tokens import approximate, plural

from .costs import costs_of_servers, known_definitions, measured_definitions
from .failures import Failed, escaped, failing, run
from .options import examples, traceback_option
from .printing import show, table

if TYPE_CHECKING:
    from toolfold_adapters.gateway import GatewayConfig
    from toolfold_adapters.gateway.upstream.definitions import Definitions
    from toolfold_adapters.tokens import GroupCost

    from .client_files import ClientFile, FileChange
    from .moving import Moved


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
@click.option("--yes", is_flag=True, help="Change the files without asking.")
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option(
    "--measure",
    is_flag=True,
    help="Start the servers that were never asked, to learn how many tools and tokens they have.",
)
@click.option("--undo", is_flag=True, help="Put the servers back that Toolfold serves.")
@traceback_option
def init_command(configs: tuple[Path, ...], yes: bool, dry_run: bool, measure: bool, undo: bool) -> None:
    """Have the MCP clients on this machine start Toolfold instead of each of their servers.

    The servers of each client that Toolfold can serve move, as they are, to a file beside its configuration, which
    Toolfold then serves, in groups; others stay. The configuration is copied to a backup first. It asks before it
    changes anything.
    """
    with failing():
        from .client_files import client_file, client_files, of_other_projects
        from .moving import plan_change, plan_undo

        known = client_files(Path.home(), Path.cwd(), os.environ)
        named = {one.place: one for one in (client_file(path.absolute(), known) for path in configs)}
        files = tuple(named.values()) or known
        if not files:
            raise Failed("No configuration of an MCP client was found; name one with --config.")
        places = {one.place for one in files}
        beside = [one for one in (*known, *of_other_projects(known)) if one.place not in places]
        command = (*_program(), "connect")
        plan = plan_undo(files) if undo else plan_change(files, beside, command)
    total = _Total()
    failed = [_show(file, found, total, undo=undo, measure=measure) for file, found in plan.sections].count(False)
    total.show(advise=not (measure or yes))
    if plan.files:
        failed += _carry_out(plan.files, yes=yes, dry_run=dry_run, undo=undo)
    if failed:
        raise click.exceptions.Exit(1)


def _show(file: ClientFile, found: Moved | ConfigError | None, total: _Total, *, undo: bool, measure: bool) -> bool:
    """Print what is planned for a section, and return whether something could be."""
    show(f"{file.client}: {file.path}" if file.client else str(file.path))
    if isinstance(found, Exception):
        show("  Nothing is changed.\n")
        Failed(str(found)).show()
        return False
    if found is None:
        show("  There is nothing to put back." if undo else "  There is nothing to change.")
    elif undo:
        show(f"  {plural(len(found.servers), 'server')} to put back: {', '.join(found.servers)}.")
    else:
        try:
            with failing():
                _show_savings(found, measure, total)
        except Failed as error:
            error.show()
            return False
    show("")
    return True


def _carry_out(changes: Sequence[FileChange], *, yes: bool, dry_run: bool, undo: bool) -> int:
    """Change files if that is wanted, and return how many could not be."""
    from .client_files import apply

    files = "this file" if len(changes) == 1 else f"these {len(changes)} files"
    question = f"Put the servers back in {files}?" if undo else f"Have {files} start Toolfold instead?"
    if dry_run or not (yes or click.confirm(question)):
        show("Nothing was changed.")
        return 0
    if not undo:
        with suppress(OSError):  # a record that can't be written stops no server
            usage_file().parent.mkdir(0o700, parents=True, exist_ok=True)
    failed = 0
    for change in changes:
        try:
            with failing(OSError):
                backup = apply(change)
        except Failed as error:
            error.show()
            failed += 1
            continue
        show(f"Done: {change.path}, which is as in {backup} again." if change.backup else f"Done: {change.path}.")
        if not change.backup:
            show(f"  What was there before is in {backup}.")
    if failed < len(changes):
        if not undo:
            show(
                f"What is used will be recorded in {usage_file()}, without arguments and results: see toolfold report."
            )
        show("Restart the clients.")
    return failed


def _show_savings(moved: Moved, measure: bool, total: _Total) -> None:
    """Print the servers of a client, with what they cost as far as that is known (SPEC GWY-5), and add it up."""
    from toolfold_adapters.names import server_name

    if not moved.servers:
        _show_unmoved(moved)
        return
    config = _configuration(moved)
    definitions: Mapping[str, Definitions] = {}
    if config is not None:
        known_or_asked = partial(measured_definitions, config, _note_answer) if measure else partial(_cached, config)
        definitions = run(known_or_asked)
    nothing: tuple[Mapping[str, GroupCost], int] = ({}, 0)
    known, listed = costs_of_servers(config, definitions) if config and definitions else nothing
    rows = table("  SERVER", "TOOLS", "TOKENS", "", numbers=("TOOLS", "TOKENS"))
    for name in moved.servers:
        cost = known.get(server_name(name))
        unknown = "no answer" if measure else "not measured"
        rows.add_row(f"  {name}", *((f"{cost.tools:,}", approximate(cost.before)) if cost else ("", unknown)), "")
    for name, why in moved.staying.items():
        rows.add_row(f"  {name}", "", "", f"stays: {why}")
    show(rows)
    _show_notes(moved)
    before = sum(cost.before for cost in known.values())
    if known:
        show(f"  {approximate(before)} tokens of tool definitions become {approximate(listed)} at first.")
        if listed >= before and len(known) == len(moved.servers):
            show("  That is more: so few tools cost less as they are.")
    total.add(len(moved.servers), len(known), before, listed)
    show(f"  They go to {moved.file.served}, which the entry {moved.name} starts.")


async def _cached(config: GatewayConfig) -> Mapping[str, Definitions]:
    return known_definitions(config)


def _note_answer(server: str, answer: Definitions | ToolfoldError) -> None:
    """Say that a server was asked, for whoever waits for that, and why it has no figures if it can't be."""
    said = str(answer) if isinstance(answer, ToolfoldError) else f"{server}: {plural(len(answer.tools), 'tool')}"
    click.echo(f"  {escaped(said)}", err=True)


@define
class _Total:
    """How many servers move, of how many what they offer is known, and about how many tokens that is."""

    servers: int = 0
    measured: int = 0
    before: int = 0
    listed: int = 0

    def add(self, servers: int, measured: int, before: int, listed: int) -> None:
        """Add those of a section."""
        self.servers, self.measured = self.servers + servers, self.measured + measured
        self.before, self.listed = self.before + before, self.listed + listed

    def show(self, *, advise: bool) -> None:
        """Print it, with what to do about servers that were never measured if that is wanted."""
        if not self.servers:
            return
        if not self.measured:
            one = self.servers == 1
            said = "The server was not measured" if one else f"None of the {self.servers:,} servers was measured"
            cost = "it and see what it costs" if one else "them and see what they cost"
            show(f"{said}: add --measure to start {cost}." if advise else f"{said}.")
            return
        before, listed = approximate(self.before), approximate(self.listed)
        show(
            f"{self.measured} of {plural(self.servers, 'server')} measured: "
            f"{before} tokens of tool definitions become {listed} at first."
        )
        if self.measured < self.servers and advise:
            show("Add --measure to ask the others, which starts them.")


def _show_unmoved(moved: Moved) -> None:
    """Print why none of a client's servers moves, and what changes all the same."""
    for name, why in moved.staying.items():
        show(f"  {name} stays: {why}.")
    _show_notes(moved)
    if not moved.changes:
        show("  There is nothing to change.")


def _show_notes(moved: Moved) -> None:
    for note in moved.notes:
        show(f"  {note.replace('The server is left out.', 'It stays where it is.')}")


def _configuration(moved: Moved) -> GatewayConfig | None:
    """Return the configuration of what is served after a change, if that is anything."""
    from toolfold_adapters.files import table_in
    from toolfold_adapters.gateway.config.read import parse_config

    text = moved.served[1]
    if text is None:
        return None
    environ = {**dict.fromkeys(moved.passed_on, ""), **os.environ}
    return parse_config(moved.file.served, table_in(moved.file.served, text), environ)


def _program() -> tuple[str, ...]:
    """Return what starts this program, for a client that has another PATH."""
    found = shutil.which("toolfold")
    return (str(Path(found).absolute()),) if found else (sys.executable, "-m", "toolfold_cli")
