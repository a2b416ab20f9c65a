"""Pictures of targets: what `toolfold diagram` draws, and what pages of documentation contain (SPEC DIA-1)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
from attrs import frozen

from toolfold import ConfigError
from toolfold_adapters.signals import stdout_reserved
from toolfold_diagrams import drawing, tree
from toolfold_diagrams.svg import embedded

from .costs import initial_view
from .failures import failing
from .targets import GatewayOptions, Target, open_target, parse_target

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
            active = [path.strip() for path in given.get("active", "").split(",") if path.strip()]
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
