"""`toolfold stubs`: typed declarations of tools, for programs that call them (SPEC COD-1)."""

from __future__ import annotations

from typing import Any

import click

from toolfold import stubs
from toolfold.spi import listed
from toolfold_adapters.tokens import approximate, approximate_tokens, plural

from .costs import inspected
from .options import OneOf, chosen_target, parse_names, target_command


@target_command(
    "stubs",
    "toolfold stubs shop:tools > shop_tools.py",
    "toolfold stubs shop:tools --open orders,orders.returns --language typescript > shop.d.ts",
    "toolfold stubs gateway.toml --open github,github.issue",
    "toolfold stubs -- npx -y some-mcp-server",
)
@click.option("--profile", metavar="NAME", help="Declare what this profile has.")
@click.option(
    "--open",
    "active",
    metavar="GROUPS",
    multiple=True,
    callback=parse_names,
    help="Groups to open first, separated by commas; hooks do not run.",
)
@click.option(
    "--language", type=OneOf(["python", "typescript"]), default="python", show_default=True, help="Of the program."
)
def stubs_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    profile: str | None,
    active: tuple[str, ...],
    language: Any,
    **given: Any,
) -> None:
    """Print typed declarations of the tools of a TARGET that can be called.

    The number of tools and of tokens goes to standard error.
    """
    view = inspected(*chosen_target(ctx, targets, **given), profile, active).view
    text = stubs(view, language)
    click.echo(text, nl=False)
    number = plural(len(listed(view, "tool")), "tool")
    click.echo(f"toolfold: {number}, {approximate(approximate_tokens(text))} tokens", err=True)
