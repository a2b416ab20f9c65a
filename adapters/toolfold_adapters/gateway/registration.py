"""Makes a tool set offer what a layout says: all of it at the start, later what differs (SPEC GWY-1, GWY-9)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, TypedDict, cast

import anyio
import anyio.lowlevel
from attrs import evolve, field

from toolfold import Catalog, Component, Profile, ResourceOptions, ToolfoldError, ToolOptions, ToolSet, Visibility
from toolfold.spi import KINDS, Kind, ancestors, frozen, table

from ..files import quoted_key
from ..skills import register_files
from ..transport.garbage import set_apart
from .beside import beside
from .callers.own import NOBODYS, OwnLists, bare, withheld_text
from .callers.own import Made as Own
from .callers.rights import Rights
from .config.settings import GatewayConfig
from .finding import Finder, Finders
from .grouping import BY_CALLER, Placed, PlacedGroup
from .layout import Layout, called, is_served, layout_of, may_admit
from .stored import Approvals, Item, reviewed
from .upstream.definitions import Definitions, Usable, usable
from .upstream.upstream import Condition


class GroupTexts(TypedDict):
    """What a layout says of a group beside its description."""

    instructions: str
    title: str | None
    pinned: bool


Forwarder = Callable[[str, Kind, str], Callable[..., Any]]
"""Returns the handler of something, given the name of its upstream, its kind, and what the upstream calls it."""


@frozen
class Registered:
    """How the tools of the upstreams were registered.

    `server` is the name and version of the only upstream, and `version` only the latter; `instructions` is what
    clients are sent, `tools` maps a name here to the upstream's own, and `warnings` are sentences for the operator.
    `servers` maps a name here to the upstream, by its name in the configuration.
    """

    server: str
    instructions: str | None
    tools: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    version: str = ""
    servers: Mapping[str, str] = field(factory=dict[str, str])


@frozen(kw_only=True)
class Made:
    """How one layout becomes another, with all of it that takes long done.

    Attributes:
        gone: What is to be unregistered.
        components: What is new.
        left_out: A warning for each definition that can't be a component.
        kinds: The kinds of what differs.
        servers: The upstreams of which that is.
        own: What each caller has of upstreams that list each his own.
    """

    gone: tuple[tuple[Kind, str], ...]
    components: tuple[Component, ...]
    left_out: tuple[str, ...]
    kinds: frozenset[Kind]
    servers: frozenset[str]
    own: Own


class UpstreamRegistration:
    """What upstreams offer, registered in one tool set.

    Args:
        tools: A tool set that `config.new_tool_set` made.
        config: The configuration.
        forwarder: Returns the handlers.
        reserved: Names that no tool may have, because an adapter needs them.
        approvals: Which definitions were approved; all are, unless it is given.
    """

    def __init__(
        self,
        tools: ToolSet,
        config: GatewayConfig,
        forwarder: Forwarder,
        reserved: Iterable[str] = (),
        approvals: Approvals | None = None,
    ) -> None:
        self._tools = tools
        self._config = config
        self._forwarder = forwarder
        self._reserved = frozenset(reserved)
        self._approvals = approvals
        self._servers: dict[str, Usable] = {}
        self._unknown: dict[str, Condition] = {}
        self._changed: dict[str, frozenset[Item]] = {}
        self._named: dict[str, Mapping[str, tuple[str, ...]]] = {}
        self._layout = Layout()
        self._own = OwnLists(approvals)
        self._lock = anyio.Lock()  # closing a group waits for sessions

    def register_tools(
        self, servers: Mapping[str, Definitions], unknown: Mapping[str, Condition] | None = None
    ) -> Registered:
        """Register what the upstreams offer, in groups, and return the report; for the start.

        A definition that can't be registered is left out and reported; it does not harm the others.

        Args:
            servers: What each upstream offers that is known, by its name in the configuration.
            unknown: Why nothing is known of each of the others, which is a group without tools (SPEC GWY-4).

        Raises:
            ConfigError: The configuration does not fit the groups that there are.
        """
        for server, definitions in servers.items():
            self._learn(server, usable(definitions))
        self._unknown.update(unknown or {})
        wanted = self._wanted(self._config)
        made = self._made(self._layout, wanted)
        report = self._report((*wanted.warnings, *self._change(wanted, made)), self._tools.catalog)
        set_apart(self, self._size)
        return report

    async def replace(
        self, server: str, definitions: Definitions | None, own: Mapping[str, Definitions] = MappingProxyType({})
    ) -> Registered:
        """Register what an upstream offers now in place of what it offered, and return the new report.

        Only what differs changes, and sessions are notified of it. `None` unregisters everything that it offers; `own`
        is what it lists to each of its callers, where that is not the same for all.
        """
        async with self._lock:
            before = self._servers.get(server)
            await beside(sum(one.size for one in own.values()), self._own.learn, server, own)
            if definitions is None:
                self._servers.pop(server, None)
            else:
                offered = await beside(definitions.size, usable, definitions)
                await beside(definitions.size, self._learn, server, offered)
            try:
                return await self._apply(await self._wanted_beside(self._config))
            except ToolfoldError:  # what can't be registered stands in no other server's way
                self._servers.pop(server, None)
                if before is not None:
                    self._servers[server] = before
                raise

    async def describe_unknown(self, server: str, condition: Condition) -> Registered:
        """Give another reason why nothing is known of an upstream, and return the new report (SPEC GWY-4, EXP-5)."""
        async with self._lock:
            self._unknown[server] = condition
            return await self._apply(await self._wanted_beside(self._config))

    async def check(self, config: GatewayConfig) -> None:
        """Raise `ConfigError` if the upstreams can't be served under another configuration."""
        async with self._lock:
            await self._check(config)

    async def _check(self, config: GatewayConfig) -> None:
        _declare(config.new_tool_set("scratch"), config, await self._wanted_beside(config))

    async def configure(
        self, config: GatewayConfig, renewed: Iterable[str] = (), unknown: Mapping[str, Condition] | None = None
    ) -> Registered:
        """Register what the upstreams offer under another configuration, and return the new report (SPEC GWY-9).

        Upstreams that it does not have are unregistered; new ones come by `replace`. The tool set has its options.

        Args:
            config: The configuration.
            renewed: Upstreams that need new handlers, although they offer the same.
            unknown: Why nothing is known of each new upstream of which that is so.

        Raises:
            ConfigError: The configuration is wrong; nothing has changed.
        """
        async with self._lock:
            await self._check(config)
            settings = config.new_tool_set("scratch") if config.settings != self._config.settings else None
            self._config = config
            self._servers = {name: one for name, one in self._servers.items() if name in config.upstreams}
            said = {**self._unknown, **(unknown or {})}
            self._unknown = {name: one for name, one in said.items() if name in config.upstreams}
            for server in self._servers:
                self._compare(server)
            return await self._apply(await self._wanted_beside(config), frozenset(renewed), settings)

    @property
    def definitions(self) -> Mapping[str, Definitions]:
        """What each upstream offers that is known, by its name in the configuration."""
        return {server: usable.said for server, usable in self._servers.items()}

    @property
    def unapproved(self) -> tuple[str, ...]:
        """The upstreams of which something that is known is not approved, by their names in the configuration."""
        return tuple(one for one in self._servers if self._changed.get(one) or self._own.has_unapproved(one))

    @property
    def withheld_of(self) -> tuple[str, ...]:
        """The upstreams of which something is withheld until it is approved (SPEC GWY-11)."""
        return self.unapproved if self._config.on_change == "quarantine" else ()

    @property
    def approval_problems(self) -> Mapping[str, str]:
        """Why what is approved of an upstream can't be stored or read, by its name: of those of which it can't be."""
        if self._approvals is None:
            return {}
        problems = {
            name: self._approvals.problem(self._config.entry(name)) or next(self._own.problems(name, self._config), "")
            for name in self._config.upstreams
        }
        return {name: problem for name, problem in problems.items() if problem}

    def find(self, kind: Kind, name: str) -> Placed | None:
        """Return what is offered by that name, or at that URI, or `None`."""
        return self._layout.components.get((kind, name))

    def _withheld(self) -> dict[str, tuple[str, Condition]]:
        """Return why tools are missing, each with its upstream.

        They are not approved (SPEC GWY-11), or nothing is known of their server.
        """
        withheld: dict[str, tuple[str, Condition]] = {}
        for server, (why, text) in self._unknown.items():
            if server not in self._servers:
                condition: tuple[str, Condition] = server, (why, f"The server {server} {text}")
                withheld |= {server: condition, f"{self._config.prefix(server)}*": condition}
        for server, items in ((server, self._changed.get(server, frozenset())) for server in self.withheld_of):
            usable = self._servers[server]
            names = called(self._config, server, usable, "tool", [*usable.by_kind["tool"]], self._reserved)
            for original, name in names.items():
                if ("tool", original) in items:
                    withheld[name] = server, ("quarantined", withheld_text(name))
        return withheld

    def serves(self, server: str, catalog: Catalog) -> bool:
        """Return whether a session has anything of an upstream by its catalog, which a profile bounds (SPEC ISO-2)."""
        bounds = self._layout.bounds.get(server, ())
        return not bounds or any(path in catalog.index for path in bounds)

    def admits(self, server: str, profile: Profile | None) -> bool:
        """Return whether a session has anything of an upstream, or may have once more is known of it (SPEC ISO-2)."""
        return _admits(self._config, self._layout, server, profile)

    def admits_all(self, server: str, profile: Profile | None) -> bool:
        """Return whether a session may have whatever an upstream has: nothing says of other methods what they do."""
        if profile is None:
            return True
        bounds = self._layout.bounds.get(server, ())
        return profile.keeps(reads=False) and profile.keeps(reads=True) and all(map(profile.admits, bounds))

    def gives(self, server: str, item: Item, profile: Profile) -> bool:
        """Return whether a profile has something of an upstream; of what is in no list, whether it has the upstream."""
        kind = cast("Kind", item[0])
        name = self._layout.names.get((server, kind, item[1]))
        if name is None or (kind.startswith("resource") and _is_anothers((kind, name), profile)):
            return self.admits(server, profile)
        return name in self._tools.runtime.catalogs.under(profile).components[kind].by_name

    def tools_of(self, server: str, catalog: Catalog) -> frozenset[str]:
        """Return the tools of an upstream that a session has by its catalog, by what the upstream calls them."""
        components = self._layout.components.items()
        own = (one for (kind, name), one in components if kind == "tool" and name in catalog.tools)
        return frozenset(one.original for one in own if one.server == server)

    @property
    def rights(self) -> Rights:
        """What callers may do (SPEC GWY-19)."""
        return self._layout.rights

    def own(self, whose: Mapping[str, str]) -> Profile | None:
        """Return a profile that has what a caller is listed himself; `None` if all are listed the same (SPEC GWY-19).

        Args:
            whose: By what he is known at each upstream.
        """
        return self._own.of(whose)

    def is_withheld(self, server: str, whose: str) -> bool:
        """Return whether something of what a caller is listed himself is withheld until it is approved."""
        return self._config.on_change == "quarantine" and self._own.has_unapproved(server, whose)

    @property
    def finder(self) -> Finder:
        """Finds what is offered to all by a URI that is no name of it."""
        return self._layout.finder

    def finder_of(self, whose: Mapping[str, str]) -> Finders:
        """Return what finds, by such a URI, what a caller may be listed; of `whose` see `own`."""
        return Finders((self._layout.finder, *self._own.finders(whose)))

    def servers_of(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the upstreams that have something in one of the groups, or in a group in it."""
        paths = set(groups)
        return tuple(
            server
            for server, homes in self._layout.homes.items()
            if any(not paths.isdisjoint((group, *ancestors(group))) for group in homes)
        )

    def without_output(self, server: str) -> tuple[str, ...]:
        """Return the tools of an upstream that are served without an output schema that clients can't compile."""
        known = self._servers.get(server)
        return () if known is None else known.without_output

    def views(self, server: str) -> Mapping[str, str]:
        """Return the views of an upstream that have another URI here, by its own."""
        return self._layout.views.get(server, {})

    def groups_of(self, server: str) -> frozenset[str]:
        """Return the groups that something of an upstream is in."""
        return self._layout.homes.get(server, frozenset())

    def _learn(self, server: str, offered: Usable) -> None:
        self._servers[server] = offered
        self._compare(server)

    def _compare(self, server: str) -> None:
        """Find out what of an upstream changed since it was approved, and which names were given out by then."""
        known = self._servers[server]
        now: dict[str, tuple[str, ...]] = {kind: tuple(known.by_kind[kind]) for kind in KINDS}
        if known.said.by_caller:
            named: Mapping[str, tuple[str, ...]] = {}  # what is called so says no list (see `called`)
            self._changed[server] = frozenset()
            self._own.compare(server, self._config)
        elif self._approvals is None or server not in self._config.upstreams:
            named = self._named.setdefault(server, now)
        else:
            entry, quarantine = self._config.entry(server), self._config.on_change == "quarantine"
            review = self._approvals.review(entry, known.said, quarantine=quarantine)
            self._changed[server] = frozenset(
                (kind, name) for kind, name in review.changed if kind != "tool" or is_served(entry.upstream, name)
            )
            named = review.named
        self._servers[server] = evolve(known, named=named)

    def _wanted(self, config: GatewayConfig) -> Layout:
        layout = layout_of(*self._offered(config))
        _ = layout.finder  # made here, which may be beside the loop
        return layout

    async def _wanted_beside(self, config: GatewayConfig) -> Layout:
        """Return what `_wanted` does, without holding up the calls of any server."""
        return await beside(self._size, self._wanted, config)

    @property
    def _size(self) -> int:
        """How much work it is to look at all that is known."""
        return sum(offered.size for offered in self._servers.values())

    def _offered(
        self, config: GatewayConfig
    ) -> tuple[GatewayConfig, Mapping[str, Usable], frozenset[str], Mapping[str, str], frozenset[str]]:
        """Return the arguments of `layout_of`."""
        taken: list[str] = []
        config.new_tool_set("scratch").guard_names(taken.append)  # called at once with the names of control tools
        known, late = self._reviewed(config), self._unknown.keys() & config.upstreams.keys()
        unknown = {server: BY_CALLER for server in config.upstreams if server in late - known.keys()}
        for server in known.keys() & config.upstreams.keys():  # no list is empty (SPEC GWY-4)
            if self._servers[server].by_kind["tool"] and not known[server].by_kind["tool"]:
                unknown[server] = "its tools have changed, and are withheld until its operator approves them."
        return config, known, self._reserved.union(taken), unknown, frozenset(late)

    def _reviewed(self, config: GatewayConfig) -> dict[str, Usable]:
        """Return what of each upstream is served under a configuration (SPEC GWY-11)."""
        quarantine = config.on_change == "quarantine"
        return {
            server: reviewed(offered, self._changed.get(server, frozenset()), quarantine=quarantine)
            for server, offered in self._servers.items()
        }

    async def _apply(
        self, after: Layout, renewed: frozenset[str] = frozenset(), settings: ToolSet | None = None
    ) -> Registered:
        """Make the tool set offer `after` in place of what it offers, and notify sessions of what differs."""
        before = self._layout
        for path in [path for path in before.groups if path not in after.groups]:
            if path in self._tools.catalog.index:  # it goes with a group that it is in
                await self._tools.unregister_group(path)
        made = await beside(self._size, self._made, before, after, renewed)
        report: Registered | None = None
        had_own = self._own.concerned(made.own)
        with anyio.CancelScope(shield=True):  # sessions are notified of what has changed
            left_out = self._change(after, made, settings)
            await anyio.lowlevel.checkpoint()  # a catalog is made next, which takes as long again
            warnings = *after.warnings, *left_out
            report = await beside(self._size, self._report, warnings, self._tools.catalog)
        assert report is not None, "a shield swallows nothing"
        kinds = set(made.kinds)
        if before.groups != after.groups or settings is not None:
            kinds.add("tool")
        if _with_new_files(before, after):
            kinds.add("resource")
        if kinds:
            whole = settings is not None
            self._tools.notify_list_changed(
                kinds, concerns=lambda profile: whole or self._concerns(before, made, profile)
            )
            set_apart(self, self._size)
        if made.own:
            self._tools.notify_list_changed(KINDS, concerns=had_own)
        return report

    def _concerns(self, before: Layout, made: Made, profile: Profile | None) -> bool:
        """Return whether what differs is, or was, anything that sessions of a profile may have (SPEC ISO-2)."""
        if profile is None:
            return True
        after = self._layout
        differ = {path for path in {*before.groups, *after.groups} if before.groups.get(path) != after.groups.get(path)}
        return any(map(profile.admits, differ)) or any(
            _admits(self._config, layout, server, profile) for layout in (before, after) for server in made.servers
        )

    def _made(self, before: Layout, after: Layout, renewed: frozenset[str] = frozenset()) -> Made:
        """Return how a layout becomes another, which is most of the work, without changing the tool set."""
        new: list[tuple[Kind, str]] = []
        left_out: list[str] = []
        differing = _differing(after, before, renewed)
        with _scratch(self._config) as scratch:
            _declare(scratch, self._config, after)
            for key in differing:
                one = after.components[key]
                try:
                    if one.by_caller:
                        _add(scratch, bare(one), _never, NOBODYS)
                    else:
                        _add(scratch, one, self._forwarder(one.server, one.kind, one.original))
                    new.append(key)
                except ToolfoldError as error:
                    left_out.append(_left_out(one, error))
            held = scratch.catalog.components
        gone = _differing(before, after, renewed)
        concerned = [*(before.components[key] for key in gone), *(after.components[key] for key in differing)]
        for_all = [one for one in concerned if not one.by_caller]
        return Made(
            gone=tuple(gone),
            components=tuple(
                _with_execution(held[kind].by_name[name], after.components[kind, name]) for kind, name in new
            ),
            own=self._own.made(
                [server for server, one in self._servers.items() if one.said.by_caller],
                renewed,
                self._config,
                after,
                partial(self._components, after),
            ),
            left_out=tuple(left_out),
            kinds=frozenset(one.kind for one in for_all),
            servers=frozenset(one.server for one in for_all),
        )

    def _components(self, layout: Layout, placed: Iterable[Placed]) -> Mapping[tuple[Kind, str], Component]:
        """Return what can be registered of what is placed, as components that no catalog has."""
        with _scratch(self._config) as scratch:
            _declare(scratch, self._config, layout)
            for one in placed:
                with suppress(ToolfoldError):  # as if it had not been listed
                    _add(scratch, one, self._forwarder(one.server, one.kind, one.original))
            held = scratch.catalog.components
        return {
            (one.kind, one.name): _with_execution(held[one.kind].by_name[one.name], one)
            for one in placed
            if one.name in held[one.kind].by_name
        }

    def _change(self, after: Layout, made: Made, settings: ToolSet | None = None) -> list[str]:
        """Make the tool set offer `after`, where no group has to be closed for it; all of it or nothing.

        Returns a warning for each definition that is left out.
        """
        before, tools = self._layout, self._tools
        catalog = tools.catalog
        held = catalog.components
        with tools.all_or_nothing():
            for members in before.exclusions:
                tools.unregister_exclusion(*members)
            for profile in before.profiles:
                tools.unregister_profile(profile.name)
            for kind, name in made.gone:
                if name in held[kind].by_name:  # it may have gone with its group
                    tools.unregister(name, kind)
            if settings is not None:
                tools.adopt_settings(settings)
            withheld = self._withheld()
            admits = partial(_admits, self._config, after)
            tools.withhold(
                {name: said for name, (_, said) in withheld.items()},
                lambda name, profile: admits(withheld[name][0], profile),
            )
            _declare(tools, self._config, after, catalog)
            for path in _with_new_files(before, after):
                _replace_files(tools, after.groups[path])
            left_out = [*made.left_out, *self._adopt(made, after)]
        self._layout = after
        self._own.take(made.own)
        return left_out

    def _adopt(self, made: Made, after: Layout) -> Iterator[str]:
        """Register components, and yield a warning for each that can't be."""
        for component in made.components:
            try:
                self._tools.adopt(component)
            except ToolfoldError as error:
                yield _left_out(after.components[component.kind, component.name], error)

    def _report(self, warnings: tuple[str, ...], catalog: Catalog) -> Registered:
        only = None if self._config.prefixed else next(iter(self._reviewed(self._config).values()), None)
        said = Definitions() if only is None else only.said
        components = self._layout.components.items()
        tools = {name: one for (kind, name), one in components if kind == "tool" and name in catalog.tools}
        return Registered(
            server=f"{said.name} {said.version}".strip(),
            instructions=said.instructions,
            tools={name: one.original for name, one in tools.items()},
            warnings=warnings,
            version=said.version,
            servers={name: one.server for name, one in tools.items()},
        )


class _Emptied(Exception):
    """Takes back what was registered."""


@contextmanager
def _scratch(config: GatewayConfig) -> Generator[ToolSet]:
    """Yield a tool set that has nothing at the end: it refers to itself, so it stays until garbage is looked for."""
    scratch = config.new_tool_set("scratch")
    with suppress(_Emptied), scratch.all_or_nothing():
        yield scratch
        raise _Emptied


def _admits(config: GatewayConfig, layout: Layout, server: str, profile: Profile | None) -> bool:
    if profile is None:
        return True
    if (bounds := layout.bounds.get(server)) is None:
        return may_admit(config, profile, server)
    return not bounds or any(map(profile.admits, bounds))


def _is_anothers(key: tuple[Kind, str], profile: Profile) -> bool:
    """Return whether something is there only because a server lists it to another caller (SPEC ISO-1)."""
    own = profile.replaced
    return own is not None and key in own.components and own.components[key] is None


def _left_out(one: Placed, error: ToolfoldError) -> str:
    """Return the warning for something that can't be registered."""
    return f"The {one.kind.replace('_', ' ')} {one.name!r} is left out: {getattr(error, 'problem', error)}."


def _with_execution(component: Component, one: Placed) -> Component:
    """Return a tool with what its definition says of how it is called: as a task or not (SPEC GWY-18).

    One that can only be called as a task can here be called otherwise too, and hosts may refuse to call it if it said
    that it can't.
    """
    given = table(one.definition.get("execution")) if one.kind == "tool" else None
    if given is None:
        return component
    execution = {**given, "taskSupport": "optional"} if given.get("taskSupport") == "required" else dict(given)
    return evolve(component, definition={**component.definition, "execution": execution})


def _never(_: Any, __: Any) -> Any:
    raise AssertionError("what each caller is listed himself is called as his")


def _add(tools: ToolSet, one: Placed, handler: Any, visibility: Visibility | None = None) -> None:
    """Register a definition of an upstream, with the handler that calls it there."""
    definition = one.definition
    shared: dict[str, Any] = {
        "group": one.group,
        "bounded_by": one.bounded_by,
        "hidden": one.hidden,
        "visibility": visibility,
        "title": definition.get("title"),
        "description": definition.get("description"),
        "icons": definition.get("icons"),
        "meta": {**(table(definition.get("_meta")) or {}), **one.meta} or None,
        "check_arguments": False,  # they are the upstream's to judge (SPEC GWY-7)
    }
    if one.kind == "tool":
        own: ToolOptions = {
            "flat": True,
            "input_schema": definition["inputSchema"],
            "output_schema": definition.get("outputSchema"),
            "check_output": False,  # results pass unchanged (SPEC GWY-1)
            "annotations": definition.get("annotations"),
        }
        tools.register(one.name, handler, **shared, **own)
    elif one.kind == "prompt":
        tools.register_prompt(one.name, handler, **shared, flat=True, arguments=definition.get("arguments"))
    else:
        add = tools.register_resource if one.kind == "resource" else tools.register_resource_template
        of_resource: ResourceOptions = {
            "name": definition.get("name"),
            "mime_type": definition.get("mimeType"),
            "annotations": definition.get("annotations"),
            "size": definition.get("size"),
        }
        add(one.name, handler, **shared, **of_resource)
    for path in one.shared:
        tools.share_tool(one.name, path)


def check_config(config: GatewayConfig) -> None:
    """Raise `ConfigError` for what is wrong with a configuration, as far as that shows without the upstreams.

    Exclusions and profiles can name groups that are derived; these are checked once the upstreams are known.
    """
    layout = layout_of(config, {})
    known = layout if config.groups is not None else evolve(layout, exclusions=(), profiles=())
    _declare(config.new_tool_set("scratch"), config, known)


def _differing(one: Layout, other: Layout, renewed: frozenset[str] = frozenset()) -> list[tuple[Kind, str]]:
    """Return what is in one layout and not, or not the same, in the other; all of the servers that are renewed."""
    return [
        key
        for key, placed in one.components.items()
        if placed.server in renewed or _registered(other.components.get(key)) != _registered(placed)
    ]


def _registered(one: Placed | None) -> Placed | None:
    return bare(one) if one is not None and one.by_caller else one


def _with_new_files(before: Layout, after: Layout) -> list[str]:
    """Return the groups that are in both layouts whose skill is another one now (SPEC SKL-2)."""
    return [
        path for path, one in after.groups.items() if path in before.groups and before.groups[path].skill != one.skill
    ]


def _replace_files(tools: ToolSet, group: PlacedGroup) -> None:
    for uri, resource in tools.catalog.components["resource"].by_name.items():
        if resource.group == group.path:
            tools.unregister(uri, "resource")
    if group.skill is not None:
        register_files(tools, group.skill)


def _declare(tools: ToolSet, config: GatewayConfig, layout: Layout, before: Catalog | None = None) -> None:
    """Register the groups, exclusions and profiles of a layout; groups that exist take on its texts.

    `before` is a catalog with the groups that the tool set has, where one that is not the newest has them.

    Raises:
        ConfigError: Something does not fit, with the name of the file and the place in it.
    """
    before = before or tools.catalog
    for group in reversed(tuple(layout.groups.values())):  # what is in a group is pinned no longer than the group
        if not group.pinned and group.path in before.index and before.group(group.path).pinned:
            tools.update_group(group.path, group.description)
    for group in layout.groups.values():
        with config.at(group.place):
            _declare_group(tools, before, group)
    for members in layout.exclusions:
        with config.at("exclusions"):
            tools.register_exclusion(*members)
    for profile in layout.profiles:
        with config.at(f"[profiles.{quoted_key(profile.name)}]"):
            tools.register_profile(profile)


def _declare_group(tools: ToolSet, before: Catalog, group: PlacedGroup) -> None:
    texts: GroupTexts = {"instructions": group.instructions, "title": group.title, "pinned": group.pinned}
    if group.path not in before.index:
        tools.register_group(group.path, group.description, **texts)
        if group.skill is not None:
            register_files(tools, group.skill)
        return
    now = before.group(group.path)
    if any(getattr(now, what) != getattr(group, what) for what in ("description", *texts)):
        tools.update_group(group.path, group.description, **texts)
