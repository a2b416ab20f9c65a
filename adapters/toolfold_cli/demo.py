"""`toolfold demo`."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from .failures import Failed, run
from .options import examples
from .printing import console, show_json

if TYPE_CHECKING:
    from .scenario import DemoStep

WIDTH = 100
"""The most columns that a line has."""
BAR = 40
"""The columns of the bar that stands for what would have been read with all tools listed."""
PAUSE = 0.8
"""Seconds in which a person can read a step before the next one."""


@click.command("demo", epilog=examples("toolfold demo", "toolfold demo --fast", "toolfold demo --json"))
@click.option("--fast", is_flag=True, help="Do not pause between the steps, as when the output is not a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo_command(fast: bool, as_json: bool) -> None:
    """Drive an example server, the back office of a shop, with a real MCP client, and check every step.

    Server and client run in this process and speak MCP 2026-07-28, which has no sessions; no network is used. The bar
    compares what the client has read so far with what it would have read if all tools were listed. The status is 1 if a
    step does not have the expected result.
    """
    screen = console()
    if not as_json:
        _print(screen, Text("A shop's back office behind MCP: forty tools in groups that open and close.\n"))
    steps = run(lambda: _played(screen, fast or not screen.is_terminal, as_json))
    if as_json:
        import attrs

        show_json([attrs.asdict(step) for step in steps])
    if any(step.failures for step in steps):
        raise Failed("The demo failed; the steps above show what was expected.")
    if not as_json:
        _print_summary(screen, steps)


async def _played(screen: Console, fast: bool, quiet: bool) -> list[DemoStep]:
    """Return the steps, each of which is printed as it happens, unless `quiet`."""
    import anyio

    from toolfold_adapters.transport.starting import starting
    from toolfold_diagrams.tree import tree

    from .scenario import CLIENT, play, tools

    steps: list[DemoStep] = []
    if not quiet:
        _print(screen, Text(tree(tools, width=min(screen.width, WIDTH))))

    async def show(step: DemoStep) -> None:
        steps.append(step)
        if not quiet:
            if not fast:
                await anyio.sleep(PAUSE)
            _print_step(screen, len(steps), step)

    with starting(CLIENT):
        await play(show, tools)
    return steps


def _print_step(screen: Console, number: int, step: DemoStep) -> None:
    sign = ("✗", "red") if step.failures else ("✓", "green")
    _print(screen, Text.assemble(sign, " ", (f"{number} {step.title}", "bold")))
    _print_part(screen, "→", step.request)
    _print_part(screen, "←", step.answer)
    full = max(1, round(BAR * step.read / step.flat))
    bar = Text.assemble(("█" * min(full, BAR), "cyan"), ("░" * (BAR - full), "dim"))
    _print(screen, Text.assemble("     ", bar, f" ~{step.read:,} of ~{step.flat:,} tokens"))
    _print(screen, Text(f"     open: {', '.join(step.open_groups) or 'nothing'}\n", style="dim"))
    for failure in step.failures:
        _print(screen, Text(f"     expected: {failure}\n", style="red"))


def _print_part(screen: Console, arrow: str, text: str) -> None:
    """Print what was sent or received, wrapped behind an arrow."""
    for line in text.splitlines():
        for number, part in enumerate(textwrap.wrap(line, min(screen.width, WIDTH) - 5, subsequent_indent="  ")):
            _print(screen, Text.assemble("   ", (arrow if not number else " ", "cyan"), " ", part))


def _print_summary(screen: Console, steps: list[DemoStep]) -> None:
    first, last = steps[0], steps[-1]
    saved = 100 * (1 - first.read / first.flat)
    summary = (
        f"All {len(steps)} steps succeeded. The list, which a model reads with every request, has ~{first.read:,} "
        f"tokens instead of ~{first.flat:,}: {saved:.0f}% less. With what it opened on the way, the client has read "
        f"~{last.read:,} instead of ~{last.flat:,}."
    )
    _print(screen, Text("\n".join(textwrap.wrap(summary, min(screen.width, WIDTH)))))
    _print(screen, Text("Next: toolfold init --dry-run, or toolfold inspect toolfold_cli.shop:tools"))


def _print(screen: Console, text: Text) -> None:
    screen.print(text, soft_wrap=not screen.is_terminal)
