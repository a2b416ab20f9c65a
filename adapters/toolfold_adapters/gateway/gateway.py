"""A gateway: opened, it is a tool set in front of MCP servers (SPEC GWY-1)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from attrs import evolve
from mcp.server.lowlevel import Server

from toolfold import Catalog, Component, ConfigError, Profile, Session, ToolError, ToolfoldError, ToolSet, events
from toolfold.spi import Kind, RequestView, available, quoted, table

from ..clock import elapsed
from ..mcp.handlers import RequestHandlers
from ..mcp.principal import Principal, local_user, principal_of
from ..observe.audit import Audit
from .beside import beside
from .callers.allowances import Allowances
from .callers.rights import Rights
from .config.read import bounds_in, bounds_of, has_rights
from .config.settings import Entry, GatewayConfig, RightsConfig
from .finding import Finders
from .registration import Registered, UpstreamRegistration
from .serving.downstream import Clients, DownstreamClient, current_request
from .serving.forward import Forwarding
from .serving.requests import extend, unwatch
from .stored import Item
from .upstream.life import UpstreamError
from .upstream.link import Link
from .upstream.pool import PlaceOf, Pool, nowhere
from .upstream.upstream import Runtime, Upstream, UpstreamStatus

if TYPE_CHECKING:
    from .callers.logins import CallerLogins

log = logging.getLogger("toolfold.gateway")

TICK_SECONDS = 1.0
MOST_WARNINGS = 100
"""How many warnings of one change are logged."""
ANY_URI = "{+uri}"
"""The template of resources that no upstream lists; it comes after all others."""


class Gateway:
    """The tools of servers, in groups; made by `open_gateway` and opened by `async with`, once.

    `report` says, once it is open, how the tools were registered; what is in `on_learned` is called when a server has
    said what it offers.
    """

    report: Registered
    registration: UpstreamRegistration
    tools: ToolSet

    def __init__(
        self,
        config: GatewayConfig,
        reserved: Iterable[str],
        runtime: Runtime,
        *,
        wait: bool,
        pool: Pool | None = None,
        place_of: PlaceOf = nowhere,
    ) -> None:
        config.check_upstreams()
        self._config = config
        self.reserved = tuple(reserved)
        self._runtime = runtime
        self._wait = wait
        self._pool, self._place_of = pool, place_of
        self.upstreams: dict[str, Upstream] = {}
        self.clients = Clients(self._end)
        self.on_learned: list[Callable[[], None]] = []
        self.forwarding: Forwarding
        self._tasks: TaskGroup | None = None
        self._open = False
        self._stops: list[Callable[[], None]] = []
        self._rights_problem = ""
        self.audit = Audit(current_request, lambda tool: self.report.servers.get(tool, ""), local_user())
        self._set_audit(config)

    def _set_audit(self, config: GatewayConfig) -> None:
        file, folder = config.audit.file, Path(config.place).parent if config.place else Path()
        self.audit.file, self.audit.arguments = None if file is None else folder / file, config.audit.arguments

    @property
    def config(self) -> GatewayConfig:
        """The configuration that is served now."""
        return self._config

    @property
    def callers(self) -> CallerLogins | None:
        """What each of several callers logs in with, if there are several."""
        return self._runtime.callers

    @property
    def status(self) -> tuple[UpstreamStatus, ...]:
        """How each upstream is doing.

        SPEC GWY-3.
        """
        return tuple(self._with_problems(one, one.status) for one in self.upstreams.values())

    def _with_problems(self, one: Upstream, status: UpstreamStatus) -> UpstreamStatus:
        return evolve(
            status,
            withheld=one.key in self.registration.withheld_of,
            approvals=self.registration.approval_problems.get(one.key, ""),
            without_output=self.registration.without_output(one.key),
            rights=self._rights_problem,
        )

    @property
    def rights(self) -> Rights:
        """What callers may do: nothing while that can't be read.

        SPEC GWY-19, ISO-3.
        """
        return evolve(self.registration.rights, problem=self._rights_problem)

    def rights_of(self, principal: Principal) -> Profile | None:
        """Return what the sessions of a caller are within, with what he is listed himself; `None` for everything.

        Raises:
            Forbidden: It may do nothing.
        """
        bound = self._bound_of(principal)
        own = self.registration.own(self._whose(principal))
        return bound if own is None else own if bound is None else own.bounded(bound)

    def _bound_of(self, principal: Principal) -> Profile | None:
        rights = self.rights
        return rights.bound(principal) if rights.rows or rights.problem else None

    def _whose(self, principal: Principal) -> dict[str, str]:
        """Return by what a caller is known at each upstream that he uses as himself."""
        return {name: one.whose(principal) for name, one in self.upstreams.items() if one.by_each}

    def _may(self, principal: Principal, server: str, item: Item) -> bool:
        """Return whether a caller may use something of a server, whatever its session may; raises `Forbidden`.

        Requests of one session that are answered side by side may have tokens with other claims.
        """
        rights = self.rights_of(principal)
        return rights is None or self.registration.gives(server, item, rights)

    def _row_of(self, principal: Principal) -> RightsConfig | None:
        rights = self.rights
        return rights.row(principal) if rights.rows else None

    def sessions_of(self, principal: Principal) -> int | None:
        """Return how many sessions a caller may have at a time, if that is limited; raises `Forbidden`."""
        row = self._row_of(principal)
        return None if row is None else row.sessions

    def status_for(self, session: Session) -> tuple[UpstreamStatus, ...]:
        """Return how each upstream is doing, as far as a session may know of it.

        Those that its profile leaves out are not among them, and what is counted is what the session has (SPEC ISO-2);
        of those that each caller uses as himself, it is for the one who asks (SPEC GWY-19).
        """
        principal = principal_of(current_request())
        found: list[UpstreamStatus] = []
        for one in self.upstreams.values():
            if self.registration.admits(one.key, session.profile):
                status = self._with_problems(one, one.status_to(principal) if principal.authenticated else one.status)
                if one.by_each and principal.authenticated:
                    status = evolve(status, withheld=self.registration.is_withheld(one.key, one.whose(principal)))
                found.append(status if session.profile is None else self._as_had(status, session.catalog))
        return tuple(found)

    def _as_had(self, one: UpstreamStatus, catalog: Catalog) -> UpstreamStatus:
        tools = self.registration.tools_of(one.name, catalog)
        without = tuple(name for name in one.without_output if name in tools)
        return evolve(one, tools=None if one.tools is None else len(tools), cut=0, without_output=without)

    def offers(self, capability: str, profile: Profile | None = None) -> bool:
        """Return whether any server has a capability, or may have: one of which nothing is known yet.

        Of a profile those count of which it has anything (SPEC ISO-2).
        """
        admitted = (one for one in self.upstreams.values() if self.registration.admits(one.key, profile))
        return any(one.known is None or capability in one.known.capabilities for one in admitted)

    def declares(self, extension: str, profile: Profile | None = None) -> bool:
        """Return whether any server is known to declare an extension; of a profile, any of which it has anything."""
        admitted = (one for one in self.upstreams.values() if self.registration.admits(one.key, profile))
        return any(
            one.known is not None and extension in (table(one.known.capabilities.get("extensions")) or {})
            for one in admitted
        )

    def extend(self, server: Server[Any], handlers: RequestHandlers) -> None:
        """Have a server that delivers the tools answer all else that the upstreams answer; for `build_server`."""
        extend(self, server, handlers)

    async def __aenter__(self) -> ToolSet:
        """Return the tools of the servers as a tool set, as they were when the servers were last asked (SPEC GWY-4).

        A server of which nothing is known is a group without tools, until it has said what it offers.

        Raises:
            ConfigError: The configuration is wrong, in general or for these servers.
            UpstreamError: Opening waits for the servers, nothing is known of any, and none could be started.
        """
        self._config.new_tool_set("scratch")  # a wrong option is found before anything is started
        tasks = await anyio.create_task_group().__aenter__()
        self._tasks = tasks
        self.forwarding = Forwarding(
            self.clients,
            tasks,
            self.upstream_of,
            self._row_of,
            self._may,
            Allowances(self._runtime.clock),
            self._views_of,
            self.audit,
            self._runtime.keys,
        )
        try:
            for name in self._config.upstreams:
                self._add(self._config.entry(name))
            if self._wait:
                await self._ask()
            await self._register(tasks)
            tasks.start_soon(self._keep_time)
            if (callers := self._runtime.callers) is not None:
                callers.config_of = lambda name: self._config.upstreams.get(name)
                callers.on_made = self._say_done
                tasks.start_soon(callers.watch, self._end_logins)
        except BaseException:
            await self._close()
            raise
        log_new((), self.report.warnings)
        return self.tools

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End the connections and the servers."""
        await self._close()

    # -- upstreams ----------------------------------------------------------------------------------------------------

    def add(self, entry: Entry) -> None:
        """Add a server while the gateway is open; what it offers is registered once that is known."""
        upstream = self._add(entry)
        assert self._tasks is not None, "the gateway is open"
        if upstream.known is None:
            upstream.ask()
        else:
            self._tasks.start_soon(self._changed, upstream)

    def remove(self, name: str) -> None:
        """Remove a server while the gateway is open, and end its connections; what it offered stays registered."""
        self._release(self.upstreams.pop(name))

    def _add(self, entry: Entry) -> Upstream:
        assert self._tasks is not None
        if self._pool is not None and not self._quarantine():
            upstream = self._pool.take(entry, self._place_of(entry.upstream), self._runtime, self._changed)
        else:
            upstream = Upstream(entry, self._runtime, self._tasks, self._changed, self._quarantine)
        self.upstreams[entry.name] = upstream
        return upstream

    def _release(self, upstream: Upstream) -> None:
        """Close an upstream, unless another gateway shares it."""
        if self._pool is None or not self._pool.give_back(upstream, self._changed):
            upstream.close()

    def _quarantine(self) -> bool:
        return self._config.on_change == "quarantine"

    @property
    def unknown(self) -> tuple[Upstream, ...]:
        """The servers of which nothing is known yet."""
        return tuple(upstream for upstream in self.upstreams.values() if upstream.known is None)

    def unknown_to(self, principal: Principal) -> tuple[Upstream, ...]:
        """Return the servers of which it is not known what they offer to a principal."""
        return tuple(upstream for upstream in self.upstreams.values() if not upstream.knows(principal))

    def ask_unknown(self, profile: Profile | None = None) -> None:
        """Begin to ask the servers of which nothing is known what they offer, side by side; of a profile, if one is."""
        assert self._tasks is not None, "the gateway is open"
        self._tasks.start_soon(self._ask_in_turn, profile)

    async def _ask_in_turn(self, profile: Profile | None) -> None:
        for upstream in [one for one in self.unknown if self.registration.admits(one.key, profile)]:
            upstream.ask()
            await anyio.lowlevel.checkpoint()  # each process that is started takes time, in which nothing else runs

    async def _ask(self) -> None:
        """Ask them, and wait for that if nothing is known of any; else what is known is served at once."""
        unknown = self.unknown
        if len(unknown) < len(self.upstreams):
            self.ask_unknown()
            return
        for upstream in unknown:
            upstream.awaited = True
        async with anyio.create_task_group() as tasks:
            for upstream in unknown:
                tasks.start_soon(upstream.found_out)
        for upstream in unknown:
            upstream.awaited = False
        failures = [failure for upstream in unknown if (failure := upstream.failure) is not None]
        if failures and len(failures) == len(self.upstreams):
            raise UpstreamError("\n".join(map(str, failures)))
        for failure in failures:
            log.error("%s", failure)

    async def _register(self, tasks: TaskGroup) -> None:
        known = {name: one.known.definitions for name, one in self.upstreams.items() if one.known is not None}
        unknown = {upstream.key: upstream.condition for upstream in self.unknown}
        only = next(iter(self.upstreams.values()))
        self.tools = self._config.new_tool_set(only.name if len(self.upstreams) == 1 else "toolfold")
        self.registration = UpstreamRegistration(
            self.tools, self._config, self._handler, self.reserved, self._runtime.approvals
        )
        size = sum(definitions.size for definitions in known.values())
        self.report = await beside(size, self.registration.register_tools, known, unknown)  # nobody has the tools yet
        self.tools.register_resource_template(ANY_URI, self.forwarding.unlisted, hidden=True, check_arguments=False)
        self._open = True
        self._stops += [self.tools.observe(observer) for observer in (self.clients.observe, self._observe)]
        self._stops.append(self.audit.listen(self.tools))
        for upstream in self.upstreams.values():
            said = known.get(upstream.key) if upstream.known is None else upstream.known.definitions
            if said is not known.get(upstream.key) or (said is None and unknown[upstream.key] != upstream.condition):
                tasks.start_soon(self._changed, upstream)  # more has become known meanwhile

    def _handler(self, server: str, kind: Kind, original: str) -> Callable[..., Any]:
        return self.forwarding.handler(self.upstreams[server], kind, original)

    def _views_of(self, server: str) -> Mapping[str, str]:
        return self.registration.views(server)

    def upstream_of(self, uri: str, client: DownstreamClient, view: RequestView) -> Upstream | None:
        """Return the upstream that a resource is of, for a client; one need not list all that it has.

        It is the one that lists it, by itself or by a template; else the one that linked to it in an answer to this
        client; else the one with a tool that names it as its view; else the one that lists what begins most like it;
        else the only one that has resources. It is none of which the view has nothing, and of what is listed one that
        has it available there (SPEC ISO-2, VIS-7). What others alone are listed has no part in it (SPEC ISO-1).
        """
        catalog, find = view.snapshot.catalog, self.registration.find
        finder = self.registration.finder_of(self._whose(client.asks_as[0]))
        serves = partial(self.registration.serves, catalog=catalog)
        if listed := self._listed(uri, finder):
            own = (catalog.components[one.kind].by_name.get(one.name) for one in listed)
            has = next((one for one in own if one is not None and available(one, view)), None)
            placed = None if has is None else find(has.kind, has.name)
            return None if placed is None else self.upstreams.get(placed.server)
        server = client.links.get(uri)
        if server is None or not serves(server):
            server = next((one.server for one in finder.naming(uri) if one.name in catalog.tools), None)
        if server is None:
            server = finder.nearest(uri, serves)
        if server is None:
            able = [key for key, one in self.upstreams.items() if one.known and "resources" in one.known.capabilities]
            server = able[0] if len(able) == 1 and serves(able[0]) else None
        return None if server is None else self.upstreams.get(server)

    def task_of(self, given: str, client: DownstreamClient, profile: Profile | None) -> tuple[Link, str] | None:
        """Return the connection and the upstream's own id of a task by the id that a client has.

        `None` is returned if its principal was given no such id, or may not have the task now (see `may_have_task`).
        """
        server, task = self.forwarding.task_ids.read(given, client.principal.key) or ("", "")
        upstream = self.upstreams.get(server)
        if upstream is None or not self.registration.admits(server, profile):
            return None
        known = client.tasks.get((server, task))
        link = upstream.link(client, call=True) if known is None else known.link
        return (link, task) if self.may_have_task(link, task, client, profile, client.asks_as[0]) else None

    def may_have_task(
        self, link: Link, task: str, client: DownstreamClient, profile: Profile | None, principal: Principal
    ) -> bool:
        """Return whether a client may have a task, by the upstream's own id: as it may call its tool now.

        Where the tool is not remembered, as after a restart, a caller needs the right to all that the upstream has.

        SPEC GWY-19, ISO-2.

        Raises:
            Forbidden: The principal may do nothing.
        """
        server = link.upstream.key
        known = client.tasks.get((server, task))
        item = link.tasks.item(task) if known is None else known.item
        if item is None:
            admits_all = self.registration.admits_all(server, self._bound_of(principal))
            return admits_all and self.registration.admits(server, profile)
        gives = profile is None or self.registration.gives(server, item, profile)
        return gives and self._may(principal, server, item)

    def tool_of_view(self, name: str, client: DownstreamClient, catalog: Catalog) -> str | None:
        """Return the tool that a view means by a name, which is what its server calls it; `None` if none can be meant.

        It is one of a server whose view the client has read, or of any with views if that is not known: a request does
        not say which view it is of.

        Raises:
            ToolError: Several servers have a tool of that name.
        """
        found = [one for one in self.registration.finder.called_by_views(name) if one.name in catalog.tools]
        shown = [one for one in found if one.server in client.shown] or found
        if len(shown) > 1:
            names = ", ".join(sorted(one.name for one in shown))
            raise ToolError(f"{quoted(name)} can be any of {names}, so nothing was called: give one of these names.")
        return shown[0].name if shown else None

    def _listed(self, uri: str, finder: Finders) -> list[Component]:
        """Return what upstreams list that a URI is of, to all or to this caller: the resource itself, and templates.

        What none lists under that very URI is of what it may be another spelling of.
        """
        catalog = self.tools.catalog
        resources, templates = (catalog.components[kind].by_name for kind in ("resource", "resource_template"))
        found = [*([resources[uri]] if uri in resources else []), *(template for template, _ in catalog.matching(uri))]
        if listed := [one for one in found if finder.has(one.kind, one.name)]:
            return listed
        named = [resources.get(name) for name in finder.resources(uri)]
        named += [templates.get(name) for name in finder.templates(uri)]
        return [one for one in named if one is not None]

    async def _changed(self, upstream: Upstream) -> None:
        """Have what an upstream offers now registered in place of what it offered, or say that it failed."""
        if not self._open or self.upstreams.get(upstream.key) is not upstream:
            return
        if upstream.known is None:
            self._take(await self.registration.describe_unknown(upstream.key, upstream.condition))
            return
        try:
            self._take(await self.registration.replace(upstream.key, upstream.known.definitions, upstream.own))
        except ToolfoldError as error:
            log.error("what the MCP server %s offers can't be served: %s", upstream.name, error)
            text = "failed: what it offers does not fit the gateway's configuration."
            self._take(await self.registration.describe_unknown(upstream.key, ("failed", text)))
        for take_note in self.on_learned:
            take_note()

    def _say_done(self, page: str) -> None:
        """Have the client told that was sent to a page of the gateway's own (SPEC GWY-19)."""
        if self._tasks is not None:
            self._tasks.start_soon(self.forwarding.say_done, page)

    async def _end_logins(self, record: str | None) -> None:
        """End the connections of callers who have logged out, by the record that has changed (SPEC GWY-19)."""
        for upstream in list(self.upstreams.values()):
            await upstream.end_logins(record)

    # -- its configuration --------------------------------------------------------------------------------------------

    def follow(self, read: Callable[[], GatewayConfig], changes: AsyncIterator[object]) -> None:
        """Have the configuration read and served again after each change, while the gateway is open.

        One that is wrong is logged and changes nothing; what was served goes on.

        Args:
            read: Returns the configuration, or raises `ConfigError`.
            changes: Yields something after each change of it, or of what was approved.
        """
        assert self._tasks is not None, "the gateway is open"
        self._tasks.start_soon(self._follow, read, changes)

    async def _follow(self, read: Callable[[], GatewayConfig], changes: AsyncIterator[object]) -> None:
        async for _ in changes:
            try:
                config = read()
                if self._config.rights and not config.rights:
                    raise ConfigError(f"{config.source}: the rows of rights are gone; only a new start serves without.")
                await self.reconfigure(config)
            except ToolfoldError as error:
                log.error("the configuration was changed and is wrong, so the one before it stays: %s", error)
                self._review_rights(error)
            else:
                self._rights_problem = ""
                log.info("the configuration and the approvals were read again")

    def _review_rights(self, error: ToolfoldError) -> None:
        """Have nobody any rights while a wrong configuration has other rows than are served, or can't be read."""
        place, known = self._config.place or self._config.source, None
        with suppress(ToolfoldError):
            known = bounds_in(place)
        served = self._config.rights
        if (served or has_rights(place)) and not (known and known[0] and known == bounds_of(self._config)):
            self._rights_problem = str(error)
            log.error("what callers may do can't be read, so nobody may do anything until it is put right")

    async def reconfigure(self, config: GatewayConfig) -> None:
        """Serve another configuration from now on; what is the same in it goes on as it was.

        SPEC GWY-9.

        Raises:
            ConfigError: It is wrong; nothing has changed.
        """
        config.check_upstreams()
        await self.registration.check(config)
        before, self._config = self._config, config
        shared = self._pool is not None and before.on_change != config.on_change  # what is withheld, none shares
        same = frozenset[str]() if shared else config.same_upstreams(before)
        added = [name for name in config.upstreams if name not in same]
        for name in [name for name in before.upstreams if name not in same]:
            self.remove(name)
        for name in added:
            self.add(config.entry(name))
        unknown = {one.key: one.condition for one in self.unknown if one.key in added}
        for link in [link for upstream in self.upstreams.values() for link in upstream.links]:
            await link.review()
        self._take(await self.registration.configure(config, renewed=added, unknown=unknown))
        self._set_audit(config)
        for name in self.registration.unapproved:  # what was approved may be newer than what is known
            self.upstreams[name].ask()

    def _take(self, report: Registered) -> None:
        """Take a new report, and log what is new in it."""
        before, self.report = self.report, report
        log_new(before.warnings, report.warnings)

    # -- clients ------------------------------------------------------------------------------------------------------

    def _end(self, client: DownstreamClient) -> None:
        """End what a client has that has ended: its connections, and what it watches over those of all clients."""
        for upstream in self.upstreams.values():
            upstream.end(client)
        shared = [(uri, link) for uri, link in client.watched.items() if link.client is None]
        self.clients.room.give_back(client.caller, len(client.watched), sum(map(len, client.watched)))
        client.watched.clear()
        if shared and self._tasks is not None:
            self._tasks.start_soon(unwatch, shared, client)

    def _observe(self, event: events.Event) -> None:
        """Start the upstreams of a group that a client has opened, unless its first call has to answer them."""
        if not isinstance(event, events.Committed | events.SessionOpened) or not (opened := self.clients.opened(event)):
            return
        client = self.clients.entered(event.session, current_request())
        if client is None or client.answers_calls_only:
            return
        for server in self.registration.servers_of(opened):
            if (upstream := self.upstreams.get(server)) is not None:
                with suppress(UpstreamError):  # a call will say so
                    upstream.link(client, call=True).start()

    # -- its end ------------------------------------------------------------------------------------------------------

    async def _keep_time(self) -> None:
        while True:
            await anyio.sleep(TICK_SECONDS)
            now = self._runtime.clock()
            for upstream in list(self.upstreams.values()):
                upstream.tick(now)

    async def _close(self) -> None:
        """End the task group without an error of its own, so that what is raised within comes out unchanged."""
        self._open = False
        while self._stops:
            self._stops.pop()()
        for upstream in self.upstreams.values():
            self._release(upstream)
        tasks, self._tasks = self._tasks, None
        if tasks is not None:
            tasks.cancel_scope.cancel()
            await tasks.__aexit__(None, None, None)


def log_new(before: Iterable[str], now: Iterable[str]) -> None:
    """Log the warnings that were not there before, up to a number."""
    known = {*before}
    new = [warning for warning in now if warning not in known]
    for warning in new[:MOST_WARNINGS]:
        log.warning("%s", warning)
    if len(new) > MOST_WARNINGS:
        log.warning("and %s more such warnings", f"{len(new) - MOST_WARNINGS:,}")


def open_gateway(
    config: GatewayConfig,
    *,
    reserved: Iterable[str] = ("call_tool", "read_tool", "call_tools", "read_result"),
    runtime: Runtime | None = None,
    wait: bool = True,
    pool: Pool | None = None,
    place_of: PlaceOf = nowhere,
) -> Gateway:
    """Return a gateway: `async with` opens it as a tool set that has the tools of the configured servers.

    Every tool keeps its definition; with one server, it keeps its name where that is allowed, and with several it is
    called `server__tool` (SPEC GWY-6). A call of it is one of the server's. Groups come from the configuration, or are
    derived (SPEC GWY-2). When the block ends, so do the servers.

    SPEC GWY-1.

    Args:
        config: From `load_config`, or made in Python.
        reserved: Names that no tool may have here, because an adapter needs them; a tool that has one is renamed.
        runtime: What upstreams run on, such as a cache of what they offer; by default there is none.
        wait: Whether opening waits, if nothing is known of any server, until each has said what it offers or failed.
            Otherwise they are asked once a client has made its first request (SPEC GWY-4).
        pool: The upstreams that gateways of this process share; by default it shares none.
        place_of: Returns what has to be equal for a command to be shared: the folder and environment that it gets.

    Raises:
        ConfigError: The configuration names no server.
    """
    return Gateway(config, reserved, runtime or Runtime(clock=elapsed), wait=wait, pool=pool, place_of=place_of)
