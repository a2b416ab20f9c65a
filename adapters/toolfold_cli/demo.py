"""`toolfold demo`."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.text import Text

from .failures import Failed, run
from .options import examples
from .printing import console, show_json

if TYPE_CHECKING:
    from .scenario import DemoLine, DemoStep

WIDTH = 100
"""The most columns that a line has."""
BAR = 40
"""The columns of the bar that stands for what would have been read with all tools listed."""
PAUSES = {"step": 0.6, "request": 0.2, "answer": 0.2}
"""Seconds before each line of a kind, in which a person can read those before it."""
SIGNS = {"request": "   → ", "answer": "   ← "}


@click.command("demo", epilog=examples("toolfold demo", "toolfold demo --fast", "toolfold demo --json"))
@click.option("--fast", is_flag=True, help="Do not pause between the lines, as when the output is not a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def demo_command(fast: bool, as_json: bool) -> None:
    """Drive an example server, the back office of a shop, with a real MCP client, and check every step.

    Server and client run in this process and speak MCP 2026-07-28, which has no sessions; no network is used. The bar
    compares what the client has read so far with what it would have read if all tools were listed. The status is 1 if a
    step does not have the expected result.
    """
    screen = console(_width())
    if not as_json:
        _print(screen, "A shop's back office behind MCP: forty tools in groups that open and close.")
        screen.print()
    steps = run(lambda: _played(screen, fast or not screen.is_terminal, as_json))
    if as_json:
        import attrs

        show_json([attrs.asdict(step) for step in steps])
    if any(step.failures for step in steps):
        raise Failed("The demo failed; the steps above show what was expected.")
    if not as_json:
        _print_summary(screen, steps)


async def _played(screen: Console, fast: bool, quiet: bool) -> list[DemoStep]:
    """Return the steps, each line of which is printed as it happens, unless `quiet`."""
    import anyio

    from toolfold_adapters.transport.starting import starting
    from toolfold_diagrams.tree import tree

    from .scenario import CLIENT, play, tools

    steps: list[DemoStep] = []
    if not quiet:
        screen.print(Text(tree(tools, width=_width())))

    async def show(line: DemoLine) -> None:
        if quiet:
            return
        for number, part in enumerate(_parts(line, len(steps) + 1)):
            if not (fast or (number and line.kind == "step")):
                await anyio.sleep(PAUSES[line.kind])
            screen.print(Text(part, style="bold" if line.kind == "step" else ""))

    async def end(step: DemoStep) -> None:
        steps.append(step)
        if not quiet:
            _print_outcome(screen, step)

    with starting(CLIENT):
        await play(end, tools, show)
    return steps


def _width() -> int:
    """Return how many columns lines have: those of the terminal, or what `COLUMNS` says, and not more than `WIDTH`."""
    return min(shutil.get_terminal_size((WIDTH, 24)).columns, WIDTH)


def _parts(line: DemoLine, step: int) -> Iterator[str]:
    """Yield the lines for what happens: the title of a step, or what was sent or received, wrapped behind an arrow."""
    sign = SIGNS.get(line.kind, f"{step} ")
    for text in line.text.splitlines():
        yield from textwrap.wrap(
            f"{sign}{text}", _width(), subsequent_indent=" " * (len(sign) + 2 * (line.kind != "step"))
        )


def _print_outcome(screen: Console, step: DemoStep) -> None:
    """Print whether a step succeeded, with the bar of what was read by then."""
    sign = ("✗", "red") if step.failures else ("✓", "green")
    size = max(1, min(BAR, _width() - len(f"   ✓  ~{step.read:,} of ~{step.flat:,} tokens")))
    full = max(1, round(size * step.read / step.flat))
    bar = f"{'█' * min(full, size)}{'░' * (size - full)}"
    screen.print(Text.assemble("   ", sign, f" {bar} ~{step.read:,} of ~{step.flat:,} tokens"))
    screen.print(Text(f"     open: {', '.join(step.open_groups) or 'nothing'}\n", style="dim"))
    for failure in step.failures:
        screen.print(Text(f"     expected: {failure}\n", style="red"))


def _print_summary(screen: Console, steps: list[DemoStep]) -> None:
    first, last = steps[0], steps[-1]
    saved = 100 * (1 - first.read / first.flat)
    summary = (
        f"All {len(steps)} steps succeeded. The list, which a model reads with every request, has ~{first.read:,} "
        f"tokens instead of ~{first.flat:,}: {saved:.0f}% less. With what it opened on the way, the client has read "
        f"~{last.read:,} instead of ~{last.flat:,}."
    )
    _print(screen, summary)
    _print(screen, "Next: toolfold init --dry-run, or toolfold inspect toolfold_cli.shop:tools")


def _print(screen: Console, text: str) -> None:
    screen.print(Text("\n".join(textwrap.wrap(text, _width(), break_on_hyphens=False))))
