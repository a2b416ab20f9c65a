"""Commands that other packages bring along, from the entry points of the group `toolfold.commands`.

An entry point is a `click.Command`, loaded when it is asked for. One that can't be loaded is still a command: it says
why, so that help and every other command work all the same.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import NoReturn

import click

from toolfold import MissingExtra
from toolfold.spi import extras_named

from .options import Failed, traceback_wanted

GROUP = "toolfold.commands"


def plugin_names() -> tuple[str, ...]:
    """Return the names of the commands that are brought along, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def plugin_command(name: str) -> click.Command | None:
    """Return the command of that name, or one that says why it can't be loaded; `None` if nobody brings it along."""
    entry = next(iter(entry_points(group=GROUP, name=name)), None)
    if entry is None:
        return None
    try:
        with extras_named():
            command = entry.load()
    except MissingExtra as error:
        return _absent(entry, str(error), error)
    except ModuleNotFoundError as error:
        return _absent(entry, f"{_whose(entry)}: {error}.", error)
    except Exception as error:
        return _absent(entry, f"{_whose(entry)}: {type(error).__name__}: {error}", error)
    if not isinstance(command, click.Command):
        return _absent(
            entry, f"{_whose(entry)}: {entry.value} is of type {type(command).__name__}, and no click.Command."
        )
    return command


def _whose(entry: EntryPoint) -> str:
    owner = entry.dist.name if entry.dist is not None else entry.value
    return f"The command {entry.name!r}, which comes with {owner}, can't be loaded"


def _absent(entry: EntryPoint, why: str, error: Exception | None = None) -> click.Command:
    def say(arguments: tuple[str, ...]) -> NoReturn:
        if error is not None and traceback_wanted():
            raise error
        raise Failed(why)

    return click.Command(
        entry.name,
        callback=say,
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        context_settings={"ignore_unknown_options": True},
        add_help_option=False,
        help=why,
        short_help="(can't be loaded; run it to see why)",
    )
