"""`toolfold man` prints a page with the help of all commands."""

from __future__ import annotations

import re

from tests.cli.support import invoke
from toolfold import __version__
from toolfold_cli.program import COMMANDS

KEPT = {".SS", ".B"}
"""The requests whose arguments are text."""


def letters(text: str) -> str:
    """A text without what differs between a page and help: spaces, and where lines end."""
    return "".join(text.split())


def shown(roff: str) -> str:
    """What is shown of roff, without its requests."""
    lines = (line.partition(" ") if line.startswith(".") else ("", "", line) for line in roff.splitlines())
    text = "\n".join(rest for request, _, rest in lines if not request or request in KEPT)
    return text.replace("\\&", "").replace("\\-", "-").replace("\\e", "\\")


def test_the_page_has_the_help_of_each_command() -> None:
    result = invoke("man")
    assert result.exit_code == 0
    first, name, synopsis, description, *rest = re.split(r"^\.SH ", result.stdout, flags=re.MULTILINE)
    assert first == f'.TH TOOLFOLD 1 "" "toolfold {__version__}"\n'
    assert name.startswith("NAME\ntoolfold \\- Tools in groups")
    whole = synopsis.removeprefix("SYNOPSIS\n") + description.removeprefix("DESCRIPTION\n")
    chapters = [whole, *(chapter.partition("\n")[2] for chapter in rest)]
    for command, chapter in zip([(), *((name,) for name in sorted(COMMANDS))], chapters, strict=True):
        helped = re.sub(r"^Usage: |^(\w[\w ,]*):$", r"\1", invoke(*command, "--help").stdout, flags=re.MULTILINE)
        assert letters(shown(chapter)) == letters(helped)
