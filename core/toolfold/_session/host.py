"""What sessions need of their tool set, which is of a later layer."""

from __future__ import annotations

from typing import Any, Protocol

from .._catalog.catalog import Catalog
from .._catalog.components import Component, Kind, Profile
from .._names import ToWire
from .._snapshot import Snapshot
from .._view.listing import Page
from .._view.visibility import RequestView
from .observers import Observers
from .pool import SessionPool


class Catalogs(Protocol):
    """Where the newest catalog is."""

    newest: Catalog | None
    """The catalog of all that is registered; `None` once something was registered since."""

    def under(self, profile: Profile | None) -> Catalog:
        """Return the newest catalog as a session under `profile` knows it."""
        ...


class Host(Protocol):
    """What the sessions of one tool set share.

    Attributes:
        name: The name of the tool set.
        page_size: The greatest number of items in a page of a list.
        hook_timeout: Seconds that a hook may take; `None` for no limit (SPEC HOOK-6).
        observers: The observers to notify.
        pool: The open sessions.
    """

    name: str
    page_size: int | None
    hook_timeout: float | None
    observers: Observers
    pool: SessionPool[Any]

    @property
    def catalogs(self) -> Catalogs:
        """Where the newest catalog is."""
        ...

    def profile(self, profile: str | Profile | None) -> Profile | None:
        """Return a registered profile by its name."""
        ...

    def view_of(self, snapshot: Snapshot, to_wire: ToWire = str) -> RequestView:
        """Return a view of a snapshot for one request."""
        ...

    def page(
        self,
        view: RequestView,
        kind: Kind,
        cursor: str | None = None,
        extra: tuple[Component, ...] = (),
        session: str = "",
    ) -> Page:
        """Return a page of what a view lists."""
        ...

    def new_identity(self) -> str:
        """Return a name for a session that is given none."""
        ...

    def hint(self, component: Component | None, view: RequestView) -> str | None:
        """Return which group to open first for an unavailable component, and how, where hints are on."""
        ...
