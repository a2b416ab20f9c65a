"""`toolfold down`."""

from __future__ import annotations

import os

import click

from toolfold_adapters.runtime.place import Misplaced, folder_of, prepared
from toolfold_adapters.runtime.relay import asked

from .failures import Failed
from .options import examples, traceback_option


@click.command("down", epilog=examples("toolfold down    end the runtime; the next relay starts another"))
@traceback_option
def down_command() -> None:
    """End the runtime that the relays of this user share, if there is one.

    Relays that are connected start another one at once and go on there: to be without any, end their hosts.
    """
    try:
        folder = prepared(folder_of(os.environ))
    except Misplaced as error:
        raise Failed(str(error)) from error
    try:
        asked(folder, "end")
    except TimeoutError as error:
        raise Failed(
            "The runtime does not answer; end its process, which has `toolfold_cli up` in its name."
        ) from error
    except OSError:
        click.echo("There is no runtime.")
        return
    click.echo("The runtime has ended.")
