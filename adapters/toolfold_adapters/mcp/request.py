"""What a request says of itself: who asks, in which era, and which profile and groups it selects (SPEC SAF-4, DEL-4).

A caller is the principal of an authenticated request, else the address that it came from. Over stdio and in memory no
caller is known, and only the total is limited. Whoever reaches a limit is refused, with the time to try again; each
refusal is logged, and counted by OpenTelemetry's metric `toolfold.refusals` (SPEC SAF-7).

Groups are selected by `?groups=a,b` and a profile by `?profile=x`, or by the headers `Toolfold-Groups` and
`Toolfold-Profile`. Otherwise the server's default applies. A group includes its parents.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import mcp_types as types
from attrs import field
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from toolfold import (
    Catalog,
    Component,
    ExclusionConflict,
    HandleExpired,
    HandleInvalid,
    HookFailed,
    ParentInactive,
    Profile,
    QuotaExceeded,
    Session,
    Snapshot,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
    TransitionRequest,
    WireNames,
)
from toolfold.machine import paths_of
from toolfold.spi import KINDS, Caller, Full, Memo, RequestView, ancestors, enumerated, frozen, quoted

from ..hosts import Host, host_called, unshown_by
from ..names import GROUPS_EXTENSION, TOOLBOX_EXTENSION
from .principal import Principal, principal_of

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter

log = logging.getLogger("toolfold.mcp")

REMEMBERED = 64
"""How many snapshots of selections, and with them their lists, are cached for a catalog."""

_STARTS = Memo[tuple[str, ...], Snapshot](REMEMBERED)
_SELECTABLE = Memo[None, frozenset[str]](most=1)

MAX_CLIENT_NAME = 64
GROUPS = "groups"
PROFILE = "profile"
SELECTION_FAILURES = (ExclusionConflict, ParentInactive, QuotaExceeded, HookFailed)
"""The errors of a request whose selection can't be active."""
HANDLE_ERRORS = (HandleInvalid, HandleExpired)

UNKNOWN_HOST = Host(name="")
"""What is taken of a client whose host is not known."""

_PREFIX = 64
"""The prefix length of an IPv6 network that counts as one caller: its owner has all addresses in it."""


# -- who asks, and what -----------------------------------------------------------------------------------------------

own_client: ContextVar[str] = ContextVar("own_client", default="")
"""The name of the client that all requests of a process or a connection come from, as over stdio (SPEC DEL-12).

It is empty where many send them; nobody else knows it.
"""


def is_modern(spoken: Any) -> bool:
    """Return whether a request, or a session of the SDK, is of the era without sessions, 2026-07-28."""
    return spoken.protocol_version in MODERN_PROTOCOL_VERSIONS


def is_list(ctx: Any) -> bool:
    """Return whether a request asks for a list, which can be answered from what is known (SPEC STO-5)."""
    return str(ctx.method).endswith("/list")


def component_called(catalog: Catalog, wire: WireNames, name: str) -> Component | None:
    """Return the tool that has a name on the wire, or `None` if there is none."""
    try:
        return catalog.tools.get(wire.from_wire(name))
    except ToolNotFound:
        return None


def declares_groups(handshake: types.InitializeRequestParams | None) -> bool:
    """Return whether a legacy client declared the draft extension for groups in its handshake (SPEC DEL-5).

    One that declares it among its extensions there can't be notified that the server has it, and is served without.
    """
    return handshake is not None and GROUPS_EXTENSION in (handshake.capabilities.experimental or {})


def declared(ctx: Any, *, modern: bool) -> str | None:
    """Return the extension for groups that a client declares, in this request or its handshake, or `None`."""
    if not modern:
        return GROUPS_EXTENSION if declares_groups(ctx.session.client_params) else None
    capabilities = ctx.session.client_capabilities
    given: Mapping[str, Any] = (None if capabilities is None else capabilities.extensions) or {}
    return next((one for one in (GROUPS_EXTENSION, TOOLBOX_EXTENSION) if one in given), None)


def client_of(ctx: Any) -> str:
    """Return the beginning of what the client of a request calls itself, or `""`."""
    params = ctx.session.client_params
    return "" if params is None else str(params.client_info.name)[:MAX_CLIENT_NAME]


def caller_of(ctx: Any) -> Caller:
    """Return the caller of a request: a principal, else an address, or `None` over stdio and in memory."""
    client = ctx.request.client if ctx.request is not None else None
    return caller_at(client.host if client is not None else None)


def caller_at(host: str | None) -> Caller:
    """Return the caller of the current HTTP request, which comes from `host`."""
    principal = principal_of(None)
    if principal.authenticated:
        return f"principal {principal.key}"
    return None if host is None else address(host)


@frozen(eq=False)
class Request:
    """What is read of a request, once.

    Attributes:
        ctx: Its context.
        modern: Whether it is of the era without sessions.
        principal: Who asks.
        caller: By what its caller is counted.
        host: The host that its client is of, or one that is not known.
        unshown: The types of content that its client shows no model.
        extension: The extension for groups that its client declares, if it does.
    """

    ctx: Any
    modern: bool
    principal: Principal
    caller: Caller
    host: Host
    unshown: tuple[str, ...]
    extension: str | None

    @classmethod
    def of(cls, ctx: Any) -> Request:
        """Return what a request says of itself."""
        modern, client = is_modern(ctx), client_of(ctx)
        host = host_called(client) or UNKNOWN_HOST
        extension = declared(ctx, modern=modern)
        return cls(ctx, modern, principal_of(ctx), caller_of(ctx), host, unshown_by(client), extension)


@lru_cache(maxsize=1024)
def address(host: str) -> str:
    """Return the address by which a caller at `host` is counted: in IPv6 that of its network."""
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a proxy may send any text
        return f"address {host[:64]}"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return f"address {ipaddress.ip_network((parsed, _PREFIX), strict=False)}"
        return f"address {parsed.ipv4_mapped}"
    return f"address {parsed}"


def record_refusal(full: Full) -> None:
    """Log and count, once, that somebody was refused because a limit was reached (SPEC SAF-7)."""
    if full.recorded:
        return
    full.recorded = True
    _refusals().add(1, {"toolfold.limit": full.what})
    log.warning("refused %s: %s", quoted(full.caller or "a client"), full)


@cache
def _refusals() -> Counter:
    """Return what counts refusals; the SDK imports no metrics, so only a server that refuses waits for that."""
    from opentelemetry import metrics

    return metrics.get_meter("toolfold").create_counter(
        "toolfold.refusals", "{refusal}", "Requests and connections that were refused because a limit was reached."
    )


# -- what it selects --------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Selection:
    """The initial state of a request: its profile and its groups, in the catalog as the profile has it."""

    catalog: Catalog
    profile: Profile | None = None
    groups: tuple[str, ...] = field(default=(), converter=paths_of)

    @cached_property
    def start(self) -> Snapshot:
        """The snapshot.

        Raises:
            ExclusionConflict: Two of the groups exclude one another.
            ParentInactive, QuotaExceeded: They can't be active together for another reason.
        """

        def start() -> Snapshot:
            return Snapshot.of(self.catalog).after(TransitionRequest(activate=self.paths))

        return _STARTS.of(self.catalog.memo, self.groups, start)  # each profile has a catalog of its own

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The selected groups, each with its parents; those that the catalog does not have are left out."""
        asked = (*(self.profile.active if self.profile else ()), *self.groups)
        complete = [path for group in asked for path in (*ancestors(group), group)]
        return tuple(path for path in dict.fromkeys(complete) if path in self.catalog.index)


class Selections:
    """What requests select, or else what a server was built with, in the newest catalog.

    Args:
        tools: The tool set.
        profile: The profile. One that is given by name is the newest of that name, or the last that there was.
        groups: The groups, or one.
        by_request: Whether a request may override it.

    Attributes:
        rights: Returns what a caller may do, as a profile that its own is within whatever it asks for (SPEC GWY-19), or
            raises `MCPError`; `None` for all that there is.

    Raises:
        ConfigError: There is no such profile.
    """

    def __init__(
        self, tools: ToolSet, profile: str | Profile | None, groups: Iterable[str], *, by_request: bool
    ) -> None:
        self.rights: Callable[[Principal], Profile | None] = lambda _: None
        self._bound: WeakSet[Session] = WeakSet()
        self._tools = tools
        self._name = profile if isinstance(profile, str) else None
        self.by_request = by_request
        self._catalog = tools.runtime.catalogs.present
        self._default = self._selection(tools.profile(profile), groups)

    @property
    def default(self) -> Selection:
        """What a request selects that says nothing; the same one until something is registered."""
        catalog = self._tools.runtime.catalogs.present
        if catalog is not self._catalog:
            profile = catalog.profiles.get(self._name or "", self._default.profile)
            self._catalog, self._default = catalog, self._selection(profile, self._default.groups)
        return self._default

    def of(self, ctx: Any) -> Selection:
        """Return the selection of a request, or the server's default where it selects nothing, within its rights.

        Raises:
            MCPError: Its caller has none.
        """
        return self._within_rights(self._chosen(ctx.request), ctx)

    def of_caller(self, ctx: Any) -> Selection:
        """Return the server's default within the rights of whoever sends a request; raises `MCPError`."""
        return self._within_rights(self.default, ctx)

    def _chosen(self, request: Any) -> Selection:
        """Return what an HTTP request selects, or the server's default where it selects nothing.

        Unknown names are left out and logged, and so are groups that are not selectable, in the same words: only what
        its author chose opens a gate, and a request can't detect it (SPEC SES-6, VIS-5). A request can't override the
        profile that a server was built with.
        """
        default = self.default
        if request is None or not self.by_request:
            return default
        profile = default.profile
        for name in _named(request, PROFILE)[-1:]:
            profile = self._profile(name, profile)
        groups = _named(request, GROUPS)
        if not groups and profile is default.profile:
            return default
        known = {*_selectable(self._tools.runtime.catalogs.under(profile)), *default.groups}
        if unknown := [name for name in groups if name not in known]:
            log.warning("a request selected groups that do not exist: %s", enumerated(unknown))
        return self._selection(profile, [name for name in groups if name in known] if groups else default.groups)

    def is_private(self, ctx: Any) -> bool:
        """Return whether what a request selects depends on what caches do not take into account: headers, rights."""
        if self.rights(principal_of(ctx)) is not None:
            return True
        return (
            ctx.request is not None
            and self.by_request
            and any(f"toolfold-{what}" in ctx.request.headers for what in (GROUPS, PROFILE))
        )

    def bind(self, session: Session, principal: Principal) -> None:
        """Have a session be within the rights that its caller has by now, whatever they were when it began.

        Each request does so for a session that it finds. Raises `MCPError`.
        """
        right, before = self.rights(principal), session.profile
        profile = self._bounded(session, right)
        if before != profile:
            session.profile = profile
            if session in self._bound and _replaced(before) != _replaced(profile):  # its caller has logged in, or out
                session.notify(frozenset(KINDS))
        if right is None:
            self._bound.discard(session)
        else:
            self._bound.add(session)

    def view(self, session: Session, principal: Principal) -> RequestView:
        """Return the view of a session within the rights that a caller has by now, which leaves the session as it is.

        Raises:
            MCPError: It has none.
        """
        catalog = self._tools.runtime.catalogs.under(self.profile(session, principal))
        return session.view().of(session.state.now.moved_to(catalog))

    def profile(self, session: Session, principal: Principal) -> Profile | None:
        """Return the profile of a session within the rights that a caller has by now; raises `MCPError`."""
        return self._bounded(session, self.rights(principal))

    def _bounded(self, session: Session, right: Profile | None) -> Profile | None:
        """Return the profile of a session within a right; one that was never within any is as it was opened."""
        if right is None and session not in self._bound:
            return session.profile
        return _within(self._own(session.profile), right)

    def renewed(self, profile: Profile | None, ctx: Any) -> Profile | None:
        """Return a session's profile as it is by now, within the rights of whoever sends a request."""
        return _within(self._own(profile), self.rights(principal_of(ctx)))

    def _within_rights(self, chosen: Selection, ctx: Any) -> Selection:
        right = self.rights(principal_of(ctx))
        return chosen if right is None else self._selection(_within(chosen.profile, right), chosen.groups)

    def _own(self, profile: Profile | None) -> Profile | None:
        """Return what a session's profile is without the rights that it was within; one that is gone has nothing."""
        if profile is None or not profile.name:
            return None
        default = self.default.profile
        if default is not None and default.name == profile.name:
            return default
        return self._tools.runtime.catalogs.present.profiles.get(profile.name, Profile(profile.name))

    def _selection(self, profile: Profile | None, groups: Iterable[str]) -> Selection:
        return Selection(self._tools.runtime.catalogs.under(profile), profile, groups)

    def _profile(self, asked: str, bound: Profile | None) -> Profile | None:
        if bound is not None:
            problem = "a request asked for the profile %r, but this server is bound to %r"
            log.warning(problem, quoted(asked), bound.name)
            return bound
        if (profile := self._tools.runtime.catalogs.present.profiles.get(asked)) is None:
            log.warning("a request asked for the profile %r, which does not exist", quoted(asked))
        return profile


def _replaced(profile: Profile | None) -> object:
    return None if profile is None else profile.replaced


@lru_cache(maxsize=1024)
def _within(profile: Profile | None, right: Profile | None) -> Profile | None:
    """Return a profile within a right; either may be none."""
    return profile if right is None else right if profile is None else profile.bounded(right)


def refusal_text(error: ToolfoldError) -> str:
    """Return the message to a caller whose selection can't be active."""
    about = "The groups that this request selects can't be open together. "
    return f"{about if isinstance(error, ExclusionConflict) else ''}{error}"


def _selectable(catalog: Catalog) -> frozenset[str]:
    """Return the groups that a request may select, computed once for a catalog."""

    def paths() -> frozenset[str]:
        return frozenset(group.path for group in Snapshot.of(catalog).selectable_groups)

    return _SELECTABLE.of(catalog.memo, None, paths)


def _named(request: Any, what: str) -> list[str]:
    given: Iterable[str] = request.query_params.getlist(what) or request.headers.getlist(f"toolfold-{what}")
    return [name.strip() for text in given for name in text.split(",") if name.strip()]
