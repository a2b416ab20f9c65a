"""`toolfold demo`."""

from __future__ import annotations

import textwrap
from functools import partial

import attrs
import click
from rich.console import Console
from rich.text import Text

from toolfold_adapters.tokens import approximate, plural, saved_percent

from .failures import Failed, run
from .options import examples
from .printing import console, show_json
from .scenario import DemoStep, play

MARGIN = "   ← "


@click.command("demo", epilog=examples("toolfold demo", "toolfold demo --json"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo_command(as_json: bool) -> None:
    """Drive an example server, a library's desk, with a real MCP client, and check every step.

    Server and client run in this process and talk over a session of the protocol; no network is used. The status is 1
    if a step does not have the expected result.
    """
    steps: list[DemoStep] = []
    screen = console()

    def show_step(step: DemoStep) -> None:
        steps.append(step)
        if not as_json:
            _print_step(screen, len(steps), step)

    if not as_json:
        _print(screen, Text("A library's desk behind MCP: its tools are in groups that open and close.\n"))
    run(partial(play, show_step))
    if as_json:
        show_json([attrs.asdict(step) for step in steps])
    if any(step.failures for step in steps):
        raise Failed("The demo failed; the steps above show what was expected.")
    if not as_json:
        _print_summary(screen, steps)


def _print_step(screen: Console, number: int, step: DemoStep) -> None:
    sign = ("✗", "red") if step.failures else ("✓", "green")
    _print(screen, Text.assemble(sign, " ", (f"{number} {step.title}", "bold")))
    _print(screen, Text.assemble(("   → ", "cyan"), step.request))
    for line in "\n".join(step.answers).splitlines():
        for part in textwrap.wrap(line, screen.width - len(MARGIN), subsequent_indent="  "):
            _print(screen, Text.assemble((MARGIN, "cyan"), part))
    if step.notices:
        times = {1: "once", 2: "twice"}.get(step.notices, f"{step.notices} times")
        _print(screen, Text.assemble((MARGIN, "cyan"), f"notifications/tools/list_changed, {times}"))
    before, after = approximate(step.before), approximate(step.after)
    tokens = after if step.before == step.after else f"{before} → {after}"
    _print(screen, Text(f"     the list: {plural(step.listed, 'tool')}, {tokens} tokens\n", style="dim"))
    for failure in step.failures:
        _print(screen, Text(f"     expected: {failure}\n", style="red"))


def _print_summary(screen: Console, steps: list[DemoStep]) -> None:
    everything, first = steps[0].before, steps[0].after
    _print(
        screen,
        Text(
            f"All {len(steps)} steps succeeded. At first the model reads {approximate(first)} tokens instead of "
            f"{approximate(everything)}: {saved_percent(everything, first):g}% less."
        ),
    )
    _print(screen, Text("Next: toolfold inspect toolfold_cli.library:desk, or toolfold serve --help"))


def _print(screen: Console, text: Text) -> None:
    screen.print(text, soft_wrap=not screen.is_terminal)
