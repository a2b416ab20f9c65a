"""`toolfold diagram`: pictures of a target."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import click
from attrs import frozen

from toolfold import Catalog, ConfigError
from toolfold_adapters.files import read_text
from toolfold_adapters.manifests.catalogs import is_catalog
from toolfold_adapters.names import render_for_hosts, wire_names
from toolfold_adapters.tokens import cost
from toolfold_adapters.transport.signals import stdout_reserved
from toolfold_diagrams import drawing, tree
from toolfold_diagrams.diagram import write_atomically
from toolfold_diagrams.page import CATALOG_ALONE, Offer
from toolfold_diagrams.svg import embedded

from .costs import CALL_TOOL, initial_view
from .failures import Failed, failing, run
from .options import ARGUMENTS, FILE, Integer, OneOf, active_option, chosen_target, names_in, target_command
from .printing import console
from .targets import GatewayOptions, Target, open_target, parse_target

VIEWS = drawing.views()
FORMATS = tuple(dict.fromkeys(form for _, forms, _ in VIEWS.values() for form in forms))
BINARY = ("png", "pdf")


def _help() -> str:
    views = [f"  {name:<12} {summary}" for name, (summary, _, _) in VIEWS.items()]
    paragraphs = (
        "Draw a TARGET: its groups, its states, or what happens when groups are opened.",
        "On a terminal it prints a tree with the state of each group. The format follows from the suffix of FILE, or "
        f"from --format: {', '.join(FORMATS)}. PNG and PDF are rendered by Graphviz, and so is SVG of all views but "
        'structure and sequence; without Graphviz, pip install "toolfold[diagrams]" brings what renders SVG and PNG.',
        "\b\nViews:\n" + "\n".join(views),
        'The view "sequence" opens the groups of --active one after the other, runs their hooks, and draws what '
        "happened; or TARGET is a .json file with a trace recorded by toolfold_diagrams.tracing.",
    )
    return "\n\n".join(paragraphs)


@target_command(
    "diagram",
    "toolfold diagram shop:tools                                a tree, on the terminal",
    "toolfold diagram shop:tools --active orders -o shop.svg",
    "toolfold diagram shop:tools -o shop.html                   a page to explore",
    "toolfold diagram shop:tools --check shop.svg               fails if the file is stale",
    "toolfold diagram shop:tools --view statechart --format mermaid",
    "toolfold diagram shop:tools --view sequence --active orders,stock -o trace.svg",
    "toolfold diagram --view transaction -o transaction.svg",
    "toolfold diagram shop.toml -o shop.svg                     a catalog as data",
    "toolfold diagram -o github.svg -- npx -y some-mcp-server",
    help=_help(),
)
@click.option(
    "--view",
    type=OneOf(list(VIEWS)),
    help="What to draw; by default, the first of these that has the format.",
)
@click.option("--format", "form", type=OneOf(FORMATS), help="The format of the picture.")
@click.option("--profile", metavar="NAME", help="Draw it with this profile.")
@active_option(help="Groups to open, or servers of a gateway, separated by commas.")
@click.option("--limit", type=Integer(min=1), metavar="N", help="The greatest number of groups or states to draw.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Write to a file.")
@click.option(
    "--check",
    type=FILE,
    metavar="FILE",
    help="Write nothing; exit with status 1 if FILE is not what -o FILE would write.",
)
def diagram_command(
    ctx: click.Context,
    /,
    targets: tuple[str, ...],
    view: str | None,
    form: str | None,
    profile: str | None,
    active: tuple[str, ...],
    limit: int | None,
    output: Path | None,
    check: Path | None,
    **given: Any,
) -> None:
    """Draw a target."""
    if output is not None and check is not None:
        raise click.UsageError("--check FILE compares what -o FILE writes: leave out one of them.", ctx)
    file = output or check
    form = form or (drawing.form_of(file.suffix.lower()) if file else None)
    view = view or _default_view(form)
    form = _format_for(ctx, view, form, file)
    drawn_from = VIEWS[view][2]
    source: Any = None
    offer = CATALOG_ALONE
    stored = drawn_from == "trace" and len(targets) == 1 and _is_trace(targets[0])
    if stored or drawn_from == "nothing":
        what = "A stored trace" if stored else f"The view {view!r}"
        _refuse(ctx, what, {"TARGET": () if stored else targets, "--profile": profile, "--active": active})
    if stored:
        with failing():
            source = drawing.load(read_text(Path(targets[0])))
    elif drawn_from != "nothing":
        target, options = chosen_target(ctx, targets, **given)
        source = run(partial(source_of, target, options, profile, active, trace=drawn_from == "trace"))
        if form == "html":
            offer = _offer_of(source.catalog, read_tool=target.is_gateway)
    width = console().width if file is None and sys.stdout.isatty() else None
    with failing():
        if check is not None:
            _check(ctx, check, partial(drawing.difference, view, form, source, limit=limit, offer=offer))
        else:
            picture = drawing.draw(view, form, source, limit=limit, width=width, offer=offer)
            _write(picture, form, output)
            if warning := drawing.warning(view, form, picture):
                click.echo(warning, err=True)


def _default_view(form: str | None) -> str:
    """Return the first view that has the format, or else the first view."""
    return next((view for view, (_, forms, _) in VIEWS.items() if form in forms), next(iter(VIEWS)))


def _is_trace(target: str) -> bool:
    return Path(target).suffix == ".json" and not is_catalog(target)


def _refuse(ctx: click.Context, what: str, given: Mapping[str, object]) -> None:
    """Raise `click.UsageError` if an argument is given that the picture does not depend on."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"{what} does not depend on {name}: leave it out.", ctx)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {error.strerror or type(error).__name__}.") from error


def _format_for(ctx: click.Context, view: str, form: str | None, output: Path | None) -> str:
    """Return the requested format if the view has it; by default, the one for a terminal or a pipe."""
    forms = VIEWS[view][1]
    if form is None and output is not None:
        raise click.UsageError(
            f"The suffix of {output.name!r} is not that of a format: use --format, one of {', '.join(forms)}.", ctx
        )
    if form is None:
        form = "tree" if "tree" in forms and sys.stdout.isatty() else "dot"
    if form not in forms:
        others = ", ".join(repr(name) for name, (_, theirs, _) in VIEWS.items() if form in theirs)
        raise click.UsageError(
            f"The view {view!r} has no format {form}; it has {', '.join(forms)}. Views with {form}: {others}.", ctx
        )
    if form in BINARY and output is None and sys.stdout.isatty():
        raise click.UsageError(f"A terminal can't show {form}: write it to a file, with -o FILE.{form}.", ctx)
    return form


def _offer_of(catalog: Catalog, *, read_tool: bool) -> Offer:
    """Return what a client with a session gets of a catalog, as `inspect` counts it (SPEC GWY-5)."""
    known_as = wire_names(catalog)
    try:
        from toolfold_adapters.mcp.answer.proxy import proxies_of
    except ModuleNotFoundError:
        return Offer({name: cost([component], known_as) for name, component in catalog.tools.items()})
    tokens = {name: cost([component], known_as, render_for_hosts) for name, component in catalog.tools.items()}
    if not catalog.groups:
        return Offer(tokens)
    proxies = proxies_of(CALL_TOOL, with_handle=False, read_tool=read_tool, call_tools=False).values()
    return Offer(tokens, tuple(proxy.component for proxy in proxies))


def _write(picture: bytes, form: str, output: Path | None) -> None:
    if output is None:
        click.echo(picture, nl=False)
        return
    write_atomically(output, picture)
    click.echo(f"Wrote {output} ({form}).", err=True)


def _check(ctx: click.Context, file: Path, difference: Callable[[bytes], str | None]) -> None:
    """Report whether a file is as it would be written; raises `Failed` if it is stale or not there (SPEC DIA-2)."""
    problem = difference(_read(file)) if file.exists() else "it does not exist"
    if problem is None:
        click.echo(f"{file} is up to date.", err=True)
        return
    again = shlex.join(re.sub(r"^--check(?==|$)", "--output", word) for word in ctx.meta[ARGUMENTS])
    raise Failed(f"{file} is stale: {problem}. Draw it again with: {ctx.command_path} {again}")


# -- pictures in pages of documentation (SPEC DIA-1) -------------------------------------------------------------------

OPTIONS = ("view", "active", "profile", "limit")
"""What can be said about a picture in a page, besides its target."""


async def source_of(
    target: Target, options: GatewayOptions, profile: str | None, active: Sequence[str], *, trace: bool = False
) -> Any:
    """Return the state to draw, or a trace of opening the groups."""
    with stdout_reserved():
        async with open_target(target, options) as opened:
            groups = opened.groups_of(active)
            if trace:
                return await drawing.record(opened.tools, profile, groups)
            return initial_view(opened.tools, profile, groups).snapshot


@frozen
class PagePicture:
    """A picture in a page.

    Attributes:
        html: The picture as an element of HTML, on one line.
        text: The same as text, where it is not a page of HTML.
        file: The file that it depends on, if there is one.
    """

    html: str
    text: str
    file: Path | None


def page_picture(text: str | None, given: Mapping[str, str]) -> PagePicture:
    """Return the picture of a target for a page, which can be read on light and on dark backgrounds.

    Args:
        text: The target, as on the command line.
        given: Values of `OPTIONS`; the values of `active` are separated by commas.

    Raises:
        click.ClickException: It can't be drawn; the message is a sentence that says why, and what to do.
    """
    with failing():
        if unknown := [name for name in given if name not in OPTIONS]:
            raise ConfigError(f"There is no option {unknown[0]!r} of a picture: use {', '.join(OPTIONS)}.")
        views = {name: drawn_from for name, (_, forms, drawn_from) in drawing.views().items() if "svg" in forms}
        view, limit = given.get("view", "structure"), given.get("limit")
        if view not in views:
            raise ConfigError(f"There is no view {view!r}: use {', '.join(views)}.")
        if limit is not None and not limit.isdecimal():
            raise ConfigError(f"The limit {limit!r} must be a whole number.")
        source: Any = None
        file: Path | None = None
        if views[view] != "nothing":
            target, options = parse_target(text), GatewayOptions()
            active = names_in(given.get("active", ""))
            opening = partial(source_of, target, options, given.get("profile"), active, trace=views[view] == "trace")
            source, file = anyio.run(opening), _file_of(target)
        svg = drawing.draw(view, "svg", source, limit=None if limit is None else int(limit)).decode()
        alternative = tree(source) if views[view] == "state" else drawing.draw(view, "mermaid", source).decode()
    picture = embedded(svg).replace("\n", " ").strip()
    figure = f'<figure class="toolfold toolfold-{view}" style="overflow-x:auto">{picture}</figure>'
    return PagePicture(figure, alternative, file)


def _file_of(target: Target) -> Path | None:
    if target.reference is None:
        return Path(target.text) if target.kind == "file" else None
    if target.reference.is_file:
        return Path(target.reference.source)
    file = getattr(sys.modules.get(target.reference.source), "__file__", None)
    return None if file is None else Path(file)
