"""The views and their formats by name, as `toolfold diagram` offers them (SPEC DIA-1)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Literal

from toolfold import ConfigError, Profile, ToolfoldError, ToolSet

from .diagram import RENDERED, Diagram, snapshot_of
from .page import CATALOG_ALONE, Offer, page
from .reachable import reachable
from .rendering import PNG_ZOOM, pixels
from .sequence import sequence
from .statechart_view import EXPORTS, exported, statechart
from .structure import structure
from .text import plural
from .trace import Trace
from .tracing import tracing
from .transaction import region_chart, transaction_chart
from .tree import tree

DrawnFrom = Literal["state", "trace", "nothing"]

_TEXTS = {"dot": ".dot", "mermaid": ".mmd", "scxml": ".scxml", "xstate": ".json"}
"""Formats of `Diagram.texts`, and their suffixes."""
_SUFFIXES = {
    **{suffix: form for form, suffix in _TEXTS.items()},
    **{f".{form}": form for form in RENDERED},
    ".gv": "dot",
    ".htm": "html",
    ".html": "html",
    ".mermaid": "mermaid",
    ".txt": "tree",
}
_PICTURES = ("dot", "mermaid", *RENDERED)
_VIEWS: dict[str, tuple[str, tuple[str, ...], DrawnFrom]] = {
    "structure": ("the forest of groups, their tools and exclusions", (*_PICTURES, "tree", "html"), "state"),
    "statechart": ("regions and transitions, for up to some 15 groups", (*_PICTURES, "scxml", "xstate"), "state"),
    "reachable": ("all states that can be reached, for small targets", _PICTURES, "state"),
    "sequence": ("what happens as groups are opened", _PICTURES, "trace"),
    "transaction": ("the life of a transaction, without a target", _PICTURES, "nothing"),
    "region": ("the states of any group, without a target", _PICTURES, "nothing"),
}
_LIMITED: dict[str, Callable[..., Diagram]] = {"statechart": statechart, "reachable": reachable}
_OTHERS: dict[str, Callable[..., Diagram]] = {"structure": structure, "sequence": sequence}
MOST_PIXELS = 4_000
"""The width or height that a picture may have without a word, of which a PNG has more pixels."""
_SMALLER = {
    "structure": "draw it as HTML, which is a page to explore, or fewer groups, such as those of a profile",
    "sequence": "open fewer groups",
}
_CONSTANT = {"transaction": transaction_chart, "region": region_chart}


def views() -> Mapping[str, tuple[str, tuple[str, ...], DrawnFrom]]:
    """Return the views: what each shows, its formats, and what it is drawn from."""
    return MappingProxyType(_VIEWS)


def form_of(suffix: str) -> str | None:
    """Return the format that a suffix of a file such as `.svg` stands for, or `None`."""
    return _SUFFIXES.get(suffix)


def draw(
    view: str,
    form: str,
    source: Any = None,
    *,
    limit: int | None = None,
    width: int | None = None,
    offer: Offer = CATALOG_ALONE,
) -> bytes:
    """Return a picture; texts are UTF-8.

    Args:
        view: What to draw, of `views()`.
        form: A format of the view.
        source: A `Source` or a `Trace`, or nothing, as the view is drawn from.
        limit: The greatest number of groups or states to draw, where the view has such a limit.
        width: The greatest number of characters in a line of a tree.
        offer: What clients get of it, for a page of HTML.

    Raises:
        ConfigError: The view has no such format or no limit, there is too much to draw, or Graphviz is missing.
    """
    if view not in _VIEWS or form not in _VIEWS[view][1]:
        raise ConfigError(f"There is no view {view!r} in the format {form!r}.")
    if limit is not None and (view not in _LIMITED or form in EXPORTS):
        raise ConfigError(f"The view {view!r} as {form} has no limit; leave it out.")
    if form == "tree":
        return tree(source, width=width).encode()
    if form == "html":
        return page(source, offer=offer).encode()
    if form in EXPORTS:
        return exported(snapshot_of(source).catalog, form).encode()
    diagram = _diagram(view, source, limit)
    if form in RENDERED:
        return diagram.rendered(form)
    text = diagram.texts.get(_TEXTS[form])
    if text is None:
        raise ConfigError(f"{diagram.title!r} can't be expressed as {form}.")
    return text.encode()


def warning(view: str, form: str, picture: bytes) -> str | None:
    """Return what to say of a picture that is too large to be read, and what to draw instead; `None` if it is not."""
    size = pixels(form, picture)
    most = MOST_PIXELS * (PNG_ZOOM if form == "png" else 1)
    if size is None or max(size) <= most:
        return None
    instead = _SMALLER.get(view, "draw fewer groups, such as those of a profile, or the structure")
    return f"It is {size[0]:,} × {size[1]:,} pixels, too large to read at a glance: {instead}."


def difference(
    view: str,
    form: str,
    source: Any,
    stored: bytes,
    *,
    limit: int | None = None,
    offer: Offer = CATALOG_ALONE,
) -> str | None:
    """Return how a stored picture differs from what would be drawn now, or `None` if it does not (SPEC DIA-2).

    What Graphviz draws is not drawn for that: the stored one has to name the same DOT.

    Args:
        view: What to draw, of `views()`.
        form: A format of the view.
        source: As in `draw`.
        stored: The content of the file.
        limit: As in `draw`.
        offer: As in `draw`.

    Raises:
        ConfigError: As in `draw`.
    """
    if form in RENDERED and (diagram := _diagram(view, source, limit)).texts.get(f".{form}") is None:
        return None if diagram.stamp.encode() in stored else "it was drawn from something else"
    wanted = draw(view, form, source, limit=limit, offer=offer).decode().splitlines()
    lines = stored.decode(errors="replace").splitlines()
    if lines == wanted:
        return None
    place = next(n for n, (one, other) in enumerate(zip_longest(lines, wanted), 1) if one != other)
    new, gone = Counter(wanted) - Counter(lines), Counter(lines) - Counter(wanted)
    return f"from line {place} on, {plural(new.total(), 'line')} would be added and {gone.total()} removed"


def load(text: str) -> Trace:
    """Return a trace from the JSON of its `dump`; raises `ConfigError` if it is none."""
    try:
        data = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"This is no trace: it is no JSON ({error}).") from error
    return Trace.load(data)


async def record(tools: ToolSet, profile: str | Profile | None, groups: tuple[str, ...]) -> Trace:
    """Return the trace of a session in which groups are opened one after the other, hooks and all.

    What is refused or fails is part of the trace.

    Raises:
        ConfigError: There is no such profile.
        GroupNotFound: There is no such group.
    """
    with tracing(tools) as recorder:
        session = tools.open_session(profile)
        for path in groups:
            session.catalog.forest.number(path)
        with suppress(ExceptionGroup):  # hooks that fail at the end
            async with session:
                for path in groups:
                    with suppress(ToolfoldError):
                        await session.activate(path)
    return recorder.trace


def _diagram(view: str, source: Any, limit: int | None) -> Diagram:
    if view in _CONSTANT:
        return _CONSTANT[view]()
    if view in _LIMITED:
        return _LIMITED[view](source, **({} if limit is None else {"limit": limit}))
    return _OTHERS[view](source)
