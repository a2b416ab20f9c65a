"""What an existing server offers: its own definitions, listed as it made them, and its own names (SPEC INT-1)."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from attrs import field, frozen
from mcp.server.caching import CacheHint
from pydantic import BaseModel

from toolfold import Component, Page, ToolNotFound, WireNames
from toolfold.spi import Kind, table

from ...names import WIRE_SEPARATOR
from ..delivery.passing import dumped
from ..delivery.render import Renderer
from ..meta import MOUNTED_META

_LONGEST = 1_024
_FIELDS = {"ttlMs": "ttl_ms", "cacheScope": "cache_scope"}

Definition = Mapping[str, Any]


@frozen
class Offer:
    """What a server offers the caller of a request, in one page of its list or in all of them.

    Attributes:
        definitions: The definitions of its tools, by name.
        rest: What else the page says.
        next_cursor: The cursor of the next page, if there is one.
        first: Whether the list begins with it.
    """

    definitions: Mapping[str, Definition]
    rest: Mapping[str, Any] = field(factory=dict[str, Any])
    next_cursor: str | None = None
    first: bool = True


_offer: ContextVar[Offer | None] = ContextVar("toolfold_offer", default=None)
_asking: ContextVar[object] = ContextVar("toolfold_asking", default=None)


class OwnNames(WireNames):
    """Names on the wire where a server's own tools keep theirs, whatever characters they have.

    `own` maps the names that its tools are registered by to their own.
    """

    def __init__(self) -> None:
        super().__init__(WIRE_SEPARATOR, _LONGEST)
        self.own: dict[str, str] = {}

    def to_wire(self, name: str) -> str:
        """Return the name that clients see."""
        return self.own[name] if name in self.own else super().to_wire(name)

    def knows(self, wire: str) -> bool:
        """Return whether a tool has that name on the wire."""
        try:
            self.from_wire(wire)
        except ToolNotFound:
            return False
        return True


class PassingRenderer(Renderer):
    """Puts a server's own definitions on the wire as the server made them; see `Renderer`.

    Of its own tools it shows those that the server offers to the caller of the request.
    """

    def __init__(self, own: Mapping[str, str], wire: WireNames, **options: Any) -> None:
        super().__init__(wire, **options)
        self._own = own

    def page(self, page: Page, kind: Kind, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return a page of a list; how long it may be cached is for the server to say."""
        shown = super().page(page, kind, meta)
        rest = {} if (offer := _offer.get()) is None else offer.rest
        both = {"_meta": {**rest["_meta"], **meta}} if meta and "_meta" in rest else {}
        return {**shown, **rest, **both}

    def definition(self, component: Component) -> dict[str, Any] | None:
        """Return a definition as the caller is offered it, or `None` if it is not."""
        offer = _offer.get()
        if component.name not in self._own:
            return super().definition(component) if offer is None or offer.first else None
        offered = None if offer is None else offer.definitions.get(self._own[component.name])
        return None if offered is None else cast("dict[str, Any]", without_mounted_groups(offered))


def offer_of(result: Any, hint: CacheHint | None, *, first: bool) -> Offer:
    """Return a page of a server's list; how long it may be cached is the server's `hint`, unless the page says."""
    page = dumped(result)
    rest = {key: page[key] for key in ("_meta", "nextCursor", *_FIELDS) if key in page}
    said = result.model_fields_set if isinstance(result, BaseModel) else page.keys()
    if hint is not None:
        hints = {"ttlMs": hint.ttl_ms, "cacheScope": hint.scope}
        rest |= {key: value for key, value in hints.items() if key not in said and _FIELDS[key] not in said}
    definitions: dict[str, Definition] = {}
    for definition in page.get("tools", ()):
        definitions.setdefault(str(definition["name"]), definition)
    return Offer(definitions, rest, page.get("nextCursor"), first)


@contextmanager
def asking(groups: object) -> Generator[None]:
    """Have the servers that are mounted in a server say the groups of their tools, while that is asked for its list."""
    token = _asking.set(groups)
    try:
        yield
    finally:
        _asking.reset(token)


def is_asked_by_another(groups: object) -> bool:
    """Return whether a server is asked for its list as one that is mounted, and not by its own `groups`."""
    return _asking.get() not in (None, groups)


def without_mounted_groups(definition: Definition) -> Definition:
    """Return a definition as the server made it."""
    meta = table(definition.get("_meta"))
    if meta is None or MOUNTED_META not in meta:
        return definition
    rest = {key: value for key, value in meta.items() if key != MOUNTED_META}
    without = {key: value for key, value in definition.items() if key != "_meta"}
    return {**without, "_meta": rest} if rest else without


@contextmanager
def offering(offer: Offer) -> Generator[None]:
    """Have `offer` hold for what is rendered within."""
    token = _offer.set(offer)
    try:
        yield
    finally:
        _offer.reset(token)
