"""Selection: the groups and the profile that a request selects in its URL or headers (SPEC DEL-4).

`?groups=a,b` and `?profile=x`, or the headers `Toolfold-Groups` and `Toolfold-Profile`. Otherwise the server's default
applies. A group includes its parents.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from attrs import field, frozen

from toolfold import (
    Catalog,
    ExclusionConflict,
    HookFailed,
    ParentInactive,
    Profile,
    QuotaExceeded,
    Snapshot,
    ToolfoldError,
    ToolSet,
    TransitionRequest,
)
from toolfold.machine import paths_of
from toolfold.spi import Memo, ancestors, enumerated, quoted

log = logging.getLogger("toolfold.mcp")

REMEMBERED = 64
"""How many snapshots of selections, and with them their lists, are cached for a catalog."""

_STARTS = Memo[tuple[str, ...], Snapshot](REMEMBERED)
_SELECTABLE = Memo[None, frozenset[str]](most=1)

GROUPS = "groups"
PROFILE = "profile"
SELECTION_FAILURES = (ExclusionConflict, ParentInactive, QuotaExceeded, HookFailed)
"""The errors of a request whose selection can't be active."""


@frozen
class Selection:
    """The initial state of a request: its profile and its groups.

    `by_request` says whether a request may override the server's default.
    """

    profile: Profile | None = None
    groups: tuple[str, ...] = field(default=(), converter=paths_of)
    by_request: bool = True

    def start(self, tools: ToolSet) -> Snapshot:
        """Return the snapshot, in the newest catalog.

        Raises:
            ExclusionConflict: Two of the groups exclude one another.
            ParentInactive, QuotaExceeded: They can't be active together for another reason.
        """
        catalog = tools.runtime.catalogs.under(self.profile)

        def start() -> Snapshot:
            return Snapshot.of(catalog).after(TransitionRequest(activate=self.paths(catalog)))

        return _STARTS.of(catalog.memo, self.groups, start)  # each profile has a catalog of its own

    def paths(self, catalog: Catalog) -> tuple[str, ...]:
        """Return the selected groups, each with its parents; those that `catalog` does not have are left out."""
        asked = (*(self.profile.active if self.profile else ()), *self.groups)
        complete = [path for group in asked for path in (*ancestors(group), group)]
        return tuple(path for path in dict.fromkeys(complete) if path in catalog.index)


class DefaultSelection:
    """The selection of requests that select nothing themselves: what a server was built with, in the newest catalog.

    Args:
        tools: The tool set.
        profile: The profile. One that is given by name is the newest of that name, or the last that there was.
        groups: The groups, or one.
        by_request: Whether a request may override it.

    Raises:
        ConfigError: There is no such profile.
    """

    def __init__(
        self, tools: ToolSet, profile: str | Profile | None, groups: Iterable[str], *, by_request: bool
    ) -> None:
        self._catalogs = tools.runtime.catalogs
        self._name = profile if isinstance(profile, str) else None
        self.by_request = by_request
        self._catalog: Catalog | None = None
        self._now = Selection(tools.profile(profile), groups, by_request)

    def now(self) -> Selection:
        """Return the selection; the same one until something is registered."""
        catalog = self._catalogs.present
        if catalog is not self._catalog:
            profile = catalog.profiles.get(self._name or "", self._now.profile)
            self._catalog, self._now = catalog, Selection(profile, self._now.groups, self.by_request)
        return self._now


def selection_of(tools: ToolSet, defaults: DefaultSelection, request: Any) -> Selection:
    """Return the selection of an HTTP request, or the server's default where it selects nothing.

    Unknown names are left out and logged, and so are groups that are not selectable, in the same words: only what its
    author chose opens a gate, and a request can't detect it (SPEC SES-6, VIS-5). A request can't override the profile
    that a server was built with.
    """
    default = defaults.now()
    if request is None or not default.by_request:
        return default
    groups = _named(request, GROUPS)
    profile_names = _named(request, PROFILE)
    profile = default.profile
    for name in profile_names[-1:]:
        if default.profile is not None:
            log.warning(
                "a request asked for the profile %r, but this server is bound to %r", quoted(name), default.profile.name
            )
        elif name in tools.catalog.profiles:
            profile = tools.catalog.profiles[name]
        else:
            log.warning("a request asked for the profile %r, which does not exist", quoted(name))
    if not groups and profile is default.profile:
        return default
    known = {*selectable(tools.runtime.catalogs.under(profile)), *default.groups}
    if unknown := [name for name in groups if name not in known]:
        log.warning("a request selected groups that do not exist: %s", enumerated(unknown))
    return Selection(profile, tuple(name for name in groups if name in known) if groups else default.groups)


def selectable(catalog: Catalog) -> frozenset[str]:
    """Return the groups that a request may select, computed once for a catalog."""

    def paths() -> frozenset[str]:
        return frozenset(group.path for group in Snapshot.of(catalog).selectable_groups)

    return _SELECTABLE.of(catalog.memo, None, paths)


def depends_on_headers(default: DefaultSelection, request: Any) -> bool:
    """Return whether headers determine a request's selection, which caches do not take into account."""
    return (
        request is not None
        and default.by_request
        and any(f"toolfold-{what}" in request.headers for what in (GROUPS, PROFILE))
    )


def refusal_text(error: ToolfoldError) -> str:
    """Return the message to a caller whose selection can't be active."""
    about = "The groups that this request selects can't be active together. "
    return f"{about if isinstance(error, ExclusionConflict) else ''}{error}"


def _named(request: Any, what: str) -> list[str]:
    given: Iterable[str] = request.query_params.getlist(what) or request.headers.getlist(f"toolfold-{what}")
    return [name.strip() for text in given for name in text.split(",") if name.strip()]


def is_list(ctx: Any) -> bool:
    """Return whether a request asks for a list, which can be answered from what is known (SPEC STO-5)."""
    return str(ctx.method).endswith("/list")
