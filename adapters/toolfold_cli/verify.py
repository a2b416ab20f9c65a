"""`toolfold verify`: whether the specification allows what a server did (SPEC TRC-1)."""

from __future__ import annotations

from pathlib import Path

import click

from toolfold_adapters.tokens import plural

from .failures import escaped
from .options import FILE, examples, traceback_option


@click.command(
    "verify",
    epilog=examples(
        "toolfold serve shop:tools --trace trace.jsonl    write what sessions do",
        "toolfold verify trace.jsonl",
        "toolfold verify trace.jsonl.1 trace.jsonl        with the file before it",
        "toolfold verify one.jsonl two.jsonl              of two replicas, merged by version",
    ),
)
@click.argument("files", nargs=-1, required=True, type=FILE, metavar="FILE...")
@traceback_option
def verify_command(files: tuple[Path, ...]) -> None:
    """Say whether the specification allows what a server did, or show the first line that it does not allow.

    A FILE is what `toolfold serve --trace FILE` writes. Those of replicas, which share a store, are merged by the
    versions of its records. What is verified is which groups a request opens and closes, the order of hooks and what is
    undone after a failure, and versions, leases and hooks to be undone in the store.

    The exit status is 0 if all is allowed, 1 if a line is not, and 2 if a FILE is no trace.
    """
    from toolfold_specs.traces import NotATrace, shown, verify

    from .runs import show_progress

    try:
        with show_progress() as progress:
            outcome = verify(files, lambda lines: progress(f"{lines:,} lines"))
    except NotATrace as error:
        raise click.UsageError(str(error)) from error
    if outcome.problem is not None:
        click.echo("\n".join(map(escaped, shown(outcome.problem))))
        raise click.exceptions.Exit(1)
    if outcome.gaps:
        lost = plural(outcome.gaps, "line")
        click.echo(f"toolfold: {lost} could not be written, and what they would have said is not verified.", err=True)
    if outcome.torn:
        verb = "ends in its middle and was" if outcome.torn == 1 else "end in their middle and were"
        said = f"{plural(outcome.torn, 'line')} {verb} passed over, as a process leaves one that is killed"
        click.echo(f"toolfold: {said}.", err=True)
    where = "one process" if outcome.processes == 1 else f"{outcome.processes:,} processes"
    steps, sessions = plural(outcome.steps, "step"), plural(outcome.sessions, "session")
    click.echo(f"The specification allows what {where} did: {steps} of {sessions}.")
