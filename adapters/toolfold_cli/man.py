"""`toolfold man`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from inspect import cleandoc

import click

from toolfold import __version__

from .options import examples


@click.command("man", epilog=examples("toolfold man | man -l -", "toolfold man > toolfold.1"))
@click.pass_context
def man_command(ctx: click.Context) -> None:
    """Print the manual page of toolfold: the help of all commands, as roff."""
    above = ctx.parent
    assert above is not None
    assert isinstance(above.command, click.Group)
    page = _Page()
    page.write(f'.TH TOOLFOLD 1 "" "toolfold {__version__}"\n')
    page.write_chapter("name")
    page.write_text(f"toolfold - {above.command.get_short_help_str(200)}")
    page.write_chapter("synopsis")
    above.command.format_usage(above, page)
    page.write_chapter("description")
    above.command.format_help_text(above, page)
    above.command.format_options(above, page)
    above.command.format_epilog(above, page)
    for name in above.command.list_commands(above):
        command = above.command.get_command(above, name)
        assert command is not None
        page.write_chapter(f"{above.info_name} {name}")
        command.format_help(click.Context(command, parent=above, info_name=name), page)
    click.echo(page.getvalue(), nl=False)


class _Page(click.HelpFormatter):
    """What click writes help with, as roff."""

    def write_chapter(self, title: str) -> None:
        self.write(f".SH {_escaped(title.upper())}\n")

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        self.write(f".PP\n.B {_escaped(prog)}\n{_escaped(args)}\n")

    def write_heading(self, heading: str) -> None:
        self.write(f".SS {_escaped(heading)}\n")

    def write_paragraph(self) -> None:
        self.write(".PP\n")

    def write_text(self, text: str) -> None:
        self.write(".sp\n".join(_paragraph(one) for one in re.split(r"\n\s*\n", cleandoc(text))))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        for term, text in rows:
            self.write(f".TP\n.B {_escaped(term)}\n")
            self.write_text(text)


def _paragraph(text: str) -> str:
    """Return a paragraph, whose lines are kept if it begins as click marks that."""
    lines = [_escaped(line) for line in text.removeprefix("\b\n").splitlines()]
    return "\n".join([".nf", *lines, ".fi", ""] if text.startswith("\b\n") else [*lines, ""])


def _escaped(text: str) -> str:
    """Return text that begins no request of roff, and whose hyphens can be copied and searched for."""
    return re.sub(r"^(?=[.'])", r"\\&", text.replace("\\", r"\e").replace("-", r"\-"))
