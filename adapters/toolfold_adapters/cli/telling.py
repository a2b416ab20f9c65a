"""`toolfold demo`."""

from __future__ import annotations

import textwrap
from functools import partial

import attrs
import click
from rich.console import Console
from rich.text import Text

from ..demo import Told, story
from ..tokens import saved_percent
from .options import Failed, examples, run
from .output import about, console, counted, show_json

MARGIN = "   ← "


@click.command(
    "demo",
    short_help="See what it does, on an example.",
    epilog=examples("toolfold demo", "toolfold demo --json"),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demonstrate(as_json: bool) -> None:
    """Drive an example server, a library's desk, with a real MCP client, and check every step.

    Server and client run in this process and talk over a session of the protocol; no network is used. The status is 1
    if a step does not come out as it should.
    """
    steps: list[Told] = []
    screen = console()

    def tell(told: Told) -> None:
        steps.append(told)
        if not as_json:
            _print(screen, len(steps), told)

    if not as_json:
        _open(screen)
    run(partial(story, tell))
    if as_json:
        show_json([attrs.asdict(step) for step in steps])
    if any(step.failures for step in steps):
        raise Failed("The demo did not go as it should; what does not hold is said above.")
    if not as_json:
        _close(screen, steps)


def _open(screen: Console) -> None:
    _line(screen, Text("A library's desk behind MCP: its tools are in groups that open and close.\n"))


def _print(screen: Console, number: int, told: Told) -> None:
    sign = ("✓", "green") if not told.failures else ("✗", "red")
    _line(screen, Text.assemble(sign, " ", (f"{number} {told.title}", "bold")))
    _line(screen, Text.assemble(("   → ", "cyan"), told.request))
    for line in "\n".join(told.answers).splitlines():
        for part in textwrap.wrap(line, screen.width - len(MARGIN), subsequent_indent="  "):
            _line(screen, Text.assemble((MARGIN, "cyan"), part))
    if told.notices:
        _line(screen, Text.assemble((MARGIN, "cyan"), f"notifications/tools/list_changed, {_times(told.notices)}"))
    moved = about(told.after) if told.before == told.after else f"{about(told.before)} → {about(told.after)}"
    _line(screen, Text(f"     the list: {counted(told.listed, 'tool')}, {moved} tokens\n", style="dim"))
    for failure in told.failures:
        _line(screen, Text(f"     this does not hold: {failure}\n", style="red"))


def _close(screen: Console, steps: list[Told]) -> None:
    everything, first = steps[0].before, steps[0].after
    _line(
        screen,
        Text(
            f"All {len(steps)} steps went as they should. At first the model reads {about(first)} tokens instead of "
            f"{about(everything)}: {saved_percent(everything, first):g}% less."
        ),
    )
    _line(screen, Text("Next: toolfold inspect toolfold_adapters.demo:library_desk, or toolfold serve --help"))


def _line(screen: Console, text: Text) -> None:
    screen.print(text, soft_wrap=not screen.is_terminal)


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
