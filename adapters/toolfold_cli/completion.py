"""`toolfold completion`."""

from __future__ import annotations

import os
from pathlib import Path, PurePath

import click
from click.shell_completion import get_completion_class

from .options import examples

PLACES = {
    "bash": (
        ".local/share/bash-completion/completions/toolfold",
        "Bash loads it if bash-completion is there.",
    ),
    "fish": (".config/fish/completions/toolfold.fish", "Fish loads it."),
    "zsh": (".zfunc/_toolfold", "Zsh loads it if ~/.zshrc has: fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
}
"""Where each shell looks for completions in a home folder, and on what condition."""


@click.command(
    "completion", epilog=examples("toolfold completion", "toolfold completion zsh", "toolfold completion --show")
)
@click.argument("shell", type=click.Choice(sorted(PLACES)), required=False)
@click.option("--show", is_flag=True, help="Print the script, and install nothing.")
def completion_command(shell: str | None, show: bool) -> None:
    """Have the shell complete commands and options of toolfold.

    Writes a script to where SHELL looks for it; without SHELL it is the one that $SHELL names.
    """
    name = shell or PurePath(os.environ.get("SHELL", "")).name
    if name not in PLACES:
        raise click.UsageError(f"$SHELL names none of {', '.join(sorted(PLACES))}: give one of them as SHELL.")
    kind = get_completion_class(name)
    assert kind is not None
    source = kind(click.Command("toolfold"), {}, "toolfold", "_TOOLFOLD_COMPLETE").source()
    if show:
        click.echo(source)
        return
    place, note = PLACES[name]
    path = Path.home() / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source, encoding="utf-8", newline="\n")
    click.echo(f"Wrote {path}. {note}")
