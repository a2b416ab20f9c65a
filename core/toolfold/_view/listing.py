"""Lists: pages of what is available, cursors, and the groups with their states (SPEC 7).

What depends only on the active groups is computed once for each snapshot and shared by all sessions in it; only
what has a predicate is evaluated for each request.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections.abc import Callable
from typing import TypeVar

from .._catalog.catalog import Bucket, Components
from .._catalog.components import Component, Kind
from .._limits import MAX_CURSOR
from .._memo import Memo
from .._names import ToWire, is_text
from .._snapshot import Outlook, Snapshot
from .._snapshot import Page as Page
from ..errors import InvalidCursor
from ..machine import Configuration, bits
from .visibility import RequestView, is_listed, only_listed, render, restrict

T = TypeVar("T")

_ORDERED = Memo[tuple[Kind, tuple[Component, ...], ToWire], tuple[Component, ...]](most=16)
"""Lists in the order of wire names, with what an adapter adds to them."""


def outlook(view: RequestView, snapshot: Snapshot, kind: Kind) -> Outlook:
    """Return what the view's `snapshot` offers, computed once for each snapshot."""
    found = snapshot.outlooks.get(kind)
    if found is None:
        found = snapshot.outlooks[kind] = _outlook(view, snapshot, kind)
    return found


def listed(view: RequestView, kind: Kind, group: str | None = None) -> tuple[Component, ...]:
    """Return all that is listed: available and not hidden, in ascending order of name.

    With a group, it is what is listed of that, with what is shared with it (SPEC SKL-2). Composite tools are as the
    view shows them; each one's `origin` is what was registered (SPEC MOD-1).

    SPEC LST-1, VIS-6.
    """
    found = _listed(view, view.snapshot, kind, render)
    return found if group is None else tuple(component for component in found if component.belongs_to(group))


def changes(before: RequestView, after: RequestView) -> frozenset[Kind]:
    """Return the kinds whose lists are not the same in two views (SPEC NTF-1).

    Counts are ignored: a list in which only counts differ is the same list (SPEC MOD-2).
    """
    old, new = before.snapshot, after.snapshot
    return frozenset(
        kind
        for kind in new.catalog.kinds
        if not _same(_listed(before, old, kind, restrict), _listed(after, new, kind, restrict))
    )


def page_of(
    view: RequestView,
    kind: Kind,
    cursor: str | None = None,
    size: int | None = None,
    extra: tuple[Component, ...] = (),
) -> Page:
    """Return one page of the list, which is ordered by the names that the view's caller knows (SPEC LST-1, LST-2).

    Args:
        view: The snapshot to list.
        kind: What to list.
        cursor: Where the page before ended, or `None` for the first page.
        size: The greatest number of items in a page, or `None` for all.
        extra: What an adapter lists beside the catalog's own.

    Raises:
        InvalidCursor: The cursor is malformed or belongs to another list (SPEC LST-3).
    """
    to_wire = view.to_wire if kind == "tool" else str
    if cursor is None and size is None and not extra and to_wire is str:
        whole = outlook(view, view.snapshot, kind)
        if not whole.undecided:
            return whole.page
    items = _in_order(view, kind, extra, to_wire)
    issuer = f"{view.snapshot.catalog.name}/{kind}"
    return Page(*paged(items, lambda component: to_wire(component.name), issuer, cursor, size))


def paged(
    items: tuple[T, ...], key: Callable[[T], str], issuer: str, cursor: str | None, size: int | None
) -> tuple[tuple[T, ...], str | None]:
    """Return one page of items in ascending order of their key, and the cursor of the next, if there is one.

    Raises:
        InvalidCursor: The cursor is malformed or of another issuer (SPEC LST-3).
    """
    start = 0 if cursor is None else bisect_right(items, _decode(cursor, issuer), key=key)
    if size is None or start + size >= len(items):
        return items[start:], None
    return items[start : start + size], _encode(key(items[start + size - 1]), issuer)


def _outlook(view: RequestView, snapshot: Snapshot, kind: Kind) -> Outlook:
    buckets = _buckets(snapshot.catalog.components[kind], snapshot.configuration)
    certain = [component for bucket in buckets for component in bucket.plain]
    certain += only_listed([component for bucket in buckets for component in bucket.ruled], view)
    return Outlook(Page(_sorted(certain)), tuple(component for bucket in buckets for component in bucket.changing))


def _buckets(components: Components, configuration: Configuration) -> list[Bucket]:
    """Return the buckets of everything that might be listed in a configuration."""
    grouped = (components.grouped.get(number) for number in bits(configuration.active))
    return [components.ungrouped, *(bucket for bucket in grouped if bucket is not None)]


def _listed(
    view: RequestView, snapshot: Snapshot, kind: Kind, offered: Callable[[Component, RequestView], Component]
) -> tuple[Component, ...]:
    """Return all that is listed, each composite tool as `offered` gives it for the view."""
    offer = outlook(view, snapshot, kind)
    if not offer.undecided:
        return offer.page.items
    decided = [offered(component, view) for component in offer.undecided if is_listed(component, view)]
    return _sorted([*offer.page.items, *decided]) if decided else offer.page.items


def _same(before: tuple[Component, ...], after: tuple[Component, ...]) -> bool:
    return before is after or (
        len(before) == len(after) and all(_alike(one, other) for one, other in zip(before, after, strict=True))
    )


def _alike(one: Component, other: Component) -> bool:
    """Return whether two items are one registered thing, with the same modes."""
    return one is other or (
        one.origin is not None and one.origin is other.origin and one.input_schema == other.input_schema
    )


def _in_order(view: RequestView, kind: Kind, extra: tuple[Component, ...], to_wire: ToWire) -> tuple[Component, ...]:
    """Return all that is listed, and `extra`, in order of wire name; computed once per snapshot if possible."""
    items = listed(view, kind)
    if not extra and to_wire is str:
        return items
    if outlook(view, view.snapshot, kind).undecided:
        return _sorted([*items, *extra], to_wire)
    return _ORDERED.of(view.snapshot.memo, (kind, extra, to_wire), lambda: _sorted([*items, *extra], to_wire))


def _sorted(components: list[Component], to_wire: ToWire = str) -> tuple[Component, ...]:
    return tuple(sorted(components, key=lambda component: to_wire(component.name)))


def _encode(name: str, issuer: str) -> str:
    return base64.urlsafe_b64encode(f"{issuer}\n{name}".encode()).decode().rstrip("=")


def _decode(cursor: str, issuer: str) -> str:
    if not is_text(cursor) or len(cursor) > MAX_CURSOR:
        raise InvalidCursor(str(cursor))
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except (UnicodeError, binascii.Error):
        raise InvalidCursor(cursor) from None
    origin, _, name = text.rpartition("\n")
    if origin != issuer:
        raise InvalidCursor(cursor)
    return name
