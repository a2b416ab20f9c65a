"""`toolfold diagram`: pictures of a target.

What can be drawn, and in which formats, is known to the module behind the entry point `default` of the group
`toolfold.drawings`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import click

from toolfold import ConfigError, ToolSet

from ..targets import GatewayOptions, Target, open_target
from .inspection import view_at_start
from .options import TargetCommand, chosen, examples, failing, paths, run, target_options
from .output import console
from .signals import output_reserved

GROUP = "toolfold.drawings"

ViewInfo = tuple[str, tuple[str, ...], Literal["state", "trace", "nothing"]]
"""What is seen, the formats that it can be had in, and what it is drawn from."""


class Drawing(Protocol):
    """A module that draws."""

    def views(self) -> Mapping[str, ViewInfo]:
        """Return what can be drawn, by name; the first one is the usual one."""
        ...

    def form_of(self, suffix: str) -> str | None:
        """Return the format that a suffix of files such as `.svg` stands for."""
        ...

    def draw(self, view: str, form: str, source: Any, *, limit: int | None, width: int | None) -> bytes:
        """Return a picture."""
        ...

    def load(self, text: str) -> Any:
        """Return a trace from the text in which it was stored."""
        ...

    async def record(self, tools: ToolSet, profile: str | None, groups: tuple[str, ...]) -> Any:
        """Return the trace of a session in which groups are opened one after the other."""
        ...


def drawing() -> Drawing:
    """Return what draws; raises `ConfigError` if nothing that draws is installed."""
    for entry in entry_points(group=GROUP, name="default"):
        return cast(Drawing, entry.load())
    raise ConfigError("Nothing that draws is installed; reinstall toolfold.")


VIEWS = drawing().views()
FORMATS = tuple(dict.fromkeys(form for _, forms, _ in VIEWS.values() for form in forms))
BINARY = ("png", "pdf")


def _help() -> str:
    told = [f"  {name:<12} {summary}" for name, (summary, _, _) in VIEWS.items()]
    paragraphs = (
        "Draw a TARGET: its groups, its states, or what happens as groups are opened.",
        "On a terminal it prints a tree with the state of each group. The suffix of FILE says the format, or --format "
        f"does: {', '.join(FORMATS)}. SVG, PNG and PDF are rendered by Graphviz.",
        "\b\nViews:\n" + "\n".join(told),
        'The view "sequence" opens the groups of --active one after the other, hooks and all, and draws what happened; '
        "or TARGET is a .json file with a trace that toolfold_diagrams.tracing has recorded.",
    )
    return "\n\n".join(paragraphs)


@click.command(
    "diagram",
    cls=TargetCommand,
    short_help="Draw groups, states and traces.",
    help=_help(),
    epilog=examples(
        "toolfold diagram shop:tools                                a tree, on the terminal",
        "toolfold diagram shop:tools --active orders -o shop.svg",
        "toolfold diagram shop:tools -o shop.html                   a page to look around in",
        "toolfold diagram shop:tools --view statechart --format mermaid",
        "toolfold diagram shop:tools --view sequence --active orders,stock -o trace.svg",
        "toolfold diagram --view transaction -o transaction.svg",
        "toolfold diagram -o github.svg -- npx -y some-mcp-server",
    ),
)
@target_options
@click.option(
    "--view",
    type=click.Choice(list(VIEWS)),
    help="What to draw; unless given, the first of these that can be had in the format.",
)
@click.option("--format", "form", type=click.Choice(FORMATS), help="How to write it.")
@click.option("--profile", metavar="NAME", help="Look at it under this profile.")
@click.option("--active", metavar="GROUPS", multiple=True, callback=paths, help="Groups that are open, by commas.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="The greatest number of groups or states to draw."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write to a file."
)
@click.pass_context
def diagram(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    view: str | None,
    form: str | None,
    profile: str | None,
    active: tuple[str, ...],
    limit: int | None,
    output: Path | None,
    **said: Any,
) -> None:
    """Draw a target."""
    asked = form or (drawing().form_of(output.suffix.lower()) if output else None)
    view = view or _view_for(asked)
    form = _form(ctx, view, asked, output)
    drawn_from = VIEWS[view][2]
    source: Any = None
    stored = drawn_from == "trace" and len(targets) == 1 and Path(targets[0]).suffix == ".json"
    if stored or drawn_from == "nothing":
        what = "A stored trace" if stored else f"The view {view!r}"
        _refuse(ctx, what, {"TARGET": () if stored else targets, "--profile": profile, "--active": active})
    if stored:
        source = _stored(Path(targets[0]))
    elif drawn_from != "nothing":
        target, options = chosen(ctx, targets, **said)
        source = run(partial(_source, target, options, profile, active, drawn_from == "trace"))
    with failing():
        _write(drawing().draw(view, form, source, limit=limit, width=_width(output)), form, output)


def _view_for(form: str | None) -> str:
    """Return the usual view, or, where it can't be had in a format, the first one that can."""
    usual = next(iter(VIEWS))
    return next((view for view, (_, forms, _) in VIEWS.items() if form in forms), usual)


def _refuse(ctx: click.Context, what: str, given: Mapping[str, object]) -> None:
    """Raise `click.UsageError` if something is given that a picture does not depend on."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"{what} does not depend on {name}: leave it out.", ctx)


def _stored(path: Path) -> Any:
    """Return the trace in a file."""
    with failing():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} can't be read: {_reason(error)}.") from error
        return drawing().load(text)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror or type(error).__name__


def _form(ctx: click.Context, view: str, form: str | None, output: Path | None) -> str:
    """Return the format to write: the one asked for, or what suits a terminal or a pipe."""
    forms = VIEWS[view][1]
    if form is None and output is not None:
        raise click.UsageError(
            f"{output.name!r} does not say the format: use --format, one of {', '.join(forms)}.", ctx
        )
    if form is None:
        form = "tree" if "tree" in forms and sys.stdout.isatty() else "dot"
    if form not in forms:
        others = ", ".join(repr(name) for name, (_, theirs, _) in VIEWS.items() if form in theirs)
        raise click.UsageError(
            f"The view {view!r} can't be had as {form}; it can be as {', '.join(forms)}. As {form} there is: {others}.",
            ctx,
        )
    if form in BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"A terminal can't show {form}: write it to a file, with -o FILE.{form}.", ctx)
    return form


async def _source(
    target: Target, options: GatewayOptions, profile: str | None, active: tuple[str, ...], trace: bool
) -> Any:
    """Return the state to draw, or the trace of how it comes about."""
    with output_reserved():
        async with open_target(target, options) as opened:
            if trace:
                return await drawing().record(opened.tools, profile, active)
            return view_at_start(opened.tools, profile, active).snapshot


def _width(output: Path | None) -> int | None:
    return console().width if output is None and sys.stdout.isatty() else None


def _write(picture: bytes, form: str, output: Path | None) -> None:
    if output is None:
        click.echo(picture, nl=False)
        return
    try:
        output.write_bytes(picture)
    except OSError as error:
        raise ConfigError(f"{output} can't be written: {_reason(error)}.") from error
    click.echo(f"Wrote {output} ({form}).", err=True)
