"""The initial state of a session, and the cost of its list of tools (SPEC GWY-5)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio

from toolfold import Profile, Snapshot, ToolfoldError, ToolSet, TransitionRequest
from toolfold.spi import Kind, RequestView, listed
from toolfold_adapters.names import render_for_hosts, wire_names
from toolfold_adapters.tokens import Costs, GroupCost, approximate, approximate_tokens, measure, plural
from toolfold_adapters.transport.signals import stdout_reserved

from .failures import run
from .targets import GatewayOptions, Target, open_target

if TYPE_CHECKING:
    from toolfold_adapters.gateway import GatewayConfig
    from toolfold_adapters.gateway.callers.logins import CallerLogins
    from toolfold_adapters.gateway.callers.rights import Rights
    from toolfold_adapters.gateway.config.settings import UpstreamConfig
    from toolfold_adapters.gateway.upstream.definitions import Definitions
    from toolfold_adapters.gateway.upstream.upstream import UpstreamStatus
    from toolfold_adapters.gateway.upstream.wire import Transport
    from toolfold_adapters.mcp.principal import Principal

CALL_TOOL = "call_tool"
NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class Inspected(NamedTuple):
    """A view of the initial state of a target; of a gateway the servers of tools, how they are doing, and rights."""

    view: RequestView
    servers: Mapping[str, str]
    status: tuple[UpstreamStatus, ...]
    rights: Rights | None


def inspected(
    target: Target,
    options: GatewayOptions,
    profile: str | None = None,
    active: Iterable[str] = (),
    facts: Mapping[str, Any] = NO_FACTS,
    principal: Principal | None = None,
) -> Inspected:
    """Return what a target has at first; it is opened and closed again, and an error ends the command.

    With a `principal`, it is what that caller of a gateway may do.
    """

    async def inspect() -> Inspected:
        with stdout_reserved():
            alone: dict[str, Any] = {} if principal is None else {"callers": _nobodys(), "open_url": _not_shown}
            async with open_target(target, options, **alone) as opened:
                chosen, rights = opened.tools.profile(profile), opened.rights
                if principal is not None and rights is not None and rights.rows:
                    bound = rights.bound(principal)
                    chosen = bound if chosen is None else chosen.bounded(bound)
                view = initial_view(opened.tools, chosen, opened.groups_of(active), facts)
                return Inspected(view, opened.servers, opened.status, rights)

    found: Inspected = run(inspect)
    return found


def _nobodys() -> CallerLogins:
    """Return the logins of callers of whom nobody is here: servers are asked what they list to anybody."""
    from toolfold_adapters.gateway.callers.credentials import Credentials
    from toolfold_adapters.gateway.callers.keys import VARIABLE, keys_of, new_key
    from toolfold_adapters.gateway.callers.logins import CallerLogins
    from toolfold_adapters.stores import MemoryStore

    return CallerLogins(Credentials(MemoryStore(), partial(keys_of, {VARIABLE: new_key()}, None)))


async def _not_shown(_: str) -> None:
    from toolfold_adapters.gateway.upstream.life import LoginFailed

    raise LoginFailed("nobody has logged in there: `toolfold login` does so")


def initial_view(
    tools: ToolSet,
    profile: str | Profile | None = None,
    active: Iterable[str] = (),
    facts: Mapping[str, Any] = NO_FACTS,
) -> RequestView:
    """Return a view of the initial state of a session with some facts, without opening one or running hooks.

    Raises:
        ConfigError: There is no such profile.
        ToolfoldError: The initial groups can't be active together.
    """
    selected = tools.profile(profile)
    snapshot = Snapshot.of(tools.runtime.catalogs.under(selected))
    groups = (*(selected.active if selected else ()), *active)
    begun = snapshot.with_facts(facts).after(TransitionRequest(activate=groups))
    return tools.runtime.view_of(begun, wire_names(begun.catalog))


def wire_costs(view: RequestView, *, read_tool: bool, call_tools: bool = False) -> tuple[Costs, int | None]:
    """Return the costs for a client with a session, and the approximate tokens for one without.

    With `read_tool` and `call_tools` these are offered beside `call_tool`.

    The list without a session, of MCP 2026-07-28, has the same tools, but its control tools take a handle. If the
    package `mcp` is not installed, return the costs for a conversation in process, and `None`.
    """
    try:
        from toolfold_adapters.mcp.answer.proxy import proxies_of, with_handle
    except ModuleNotFoundError:
        return measure(view), None
    if not view.snapshot.catalog.groups:
        costs = measure(view, render=render_for_hosts)
        return costs, costs.after
    plain, modern = (
        proxies_of(CALL_TOOL, with_handle=one, read_tool=read_tool, call_tools=call_tools).values()
        for one in (False, True)
    )
    costs = measure(view, [proxy.component for proxy in plain], render_for_hosts)
    rendered = [(component, render_for_hosts(component, view.to_wire)) for component in listed(view, "tool")]
    definitions = [with_handle(definition) if component.control else definition for component, definition in rendered]
    definitions += [dict(proxy.component.definition) for proxy in modern]
    return costs, sum(map(approximate_tokens, definitions))


def in_brief(costs: Costs, when: str = "at first") -> str:
    """Return how many tools and groups there are, how many tools are listed then, and the tokens of both lists."""
    return (
        f"{plural(costs.tools, 'tool')} in {plural(len(costs.groups) - 1, 'group')}; {costs.listed:,} listed {when} "
        f"({approximate(costs.before)} → {approximate(costs.after)} tokens)"
    )


# -- servers behind a gateway -----------------------------------------------------------------------------------------


def costs_by_server(view: RequestView, servers: Mapping[str, str]) -> Mapping[str, GroupCost]:
    """Return what each server costs; `servers` maps the name of a tool to its server. Control tools belong to none."""
    shown = {component.name for component in listed(view, "tool")}
    tools = view.snapshot.catalog.tools
    costs: dict[str, GroupCost] = {}
    for server in dict.fromkeys(servers.values()):
        own = [tools[name] for name, of in servers.items() if of == server and name in tools]
        own = [component for component in own if not component.never_listed]
        now = [component for component in own if component.name in shown]
        costs[server] = GroupCost.of(server, own, now)
    return costs


def known_definitions(config: GatewayConfig) -> Mapping[str, Definitions]:
    """Return what the servers of a gateway offered when they were last asked, of those that were."""
    from toolfold_adapters.gateway.stored import DefinitionCache, stored_folder

    cache = DefinitionCache(stored_folder("definitions"))
    read = {name: cache.read(upstream) for name, upstream in config.upstreams.items()}
    return {name: known.definitions for name, known in read.items() if known is not None}


class Offered(NamedTuple):
    """What servers offer now, and which answer nobody who has not logged in there; why others failed is logged."""

    definitions: Mapping[str, Definitions]
    logins: Sequence[str]


async def offered_now(config: GatewayConfig) -> Offered:
    """Start the servers of a gateway, and return what they offer, which is cached.

    Where one logs in they are asked as the user of this machine, if he is logged in and each caller has not a login of
    his own, and else as nobody.
    """
    from toolfold_adapters.clock import elapsed
    from toolfold_adapters.gateway import Runtime, open_gateway
    from toolfold_adapters.gateway.stored import DefinitionCache, stored_folder
    from toolfold_adapters.gateway.upstream.logins import own_logins
    from toolfold_adapters.gateway.upstream.transports import Transports

    cache, callers = DefinitionCache(stored_folder("definitions")), _nobodys()
    known = {one["server"] for one in own_logins(stored_folder("tokens"))}
    as_user, as_nobody = Transports(stored_folder("tokens"), _not_shown), Transports(callers=callers)

    def transport(upstream: UpstreamConfig, name: str) -> Transport:
        own = name in known and upstream.auth != "caller" and upstream.exchange is None
        return (as_user if own else as_nobody)(upstream, name)

    gateway = open_gateway(config, runtime=Runtime(clock=elapsed, transport=transport, callers=callers), wait=False)
    with stdout_reserved():
        async with gateway:
            upstreams = gateway.upstreams
            async with anyio.create_task_group() as tasks:
                for upstream in upstreams.values():
                    tasks.start_soon(upstream.found_out)
            for upstream in upstreams.values():
                if upstream.known is not None:
                    cache.write(upstream.config, upstream.known)
            return Offered(
                {name: one.known.definitions for name, one in upstreams.items() if one.known is not None},
                [name for name, one in upstreams.items() if any(link.needed is not None for link in one.links)],
            )


async def measured_definitions(
    config: GatewayConfig, noted: Callable[[str, Definitions | ToolfoldError], None]
) -> Mapping[str, Definitions]:
    """Return what the servers of a gateway offer: of those that were never asked, once each was started for it.

    Args:
        config: The configuration.
        noted: Called with the name of each server that was started, and what it offers, or why it can't be asked.
    """
    found = dict(known_definitions(config))

    async def ask(name: str) -> None:
        try:
            found[name] = (await _asked(config.alone([name])))[name]
        except ToolfoldError as error:  # one that fails is no reason to know less of the others
            noted(name, error)
        else:
            noted(name, found[name])

    with stdout_reserved():
        async with anyio.create_task_group() as tasks:
            for name in config.upstreams.keys() - found.keys():
                tasks.start_soon(ask, name)
    return found


async def _asked(config: GatewayConfig) -> Mapping[str, Definitions]:
    """Start the servers of a gateway, and return what they offer, which is cached.

    Those that fail are logged and left out; if all do, it raises `UpstreamError`.
    """
    from toolfold_adapters.gateway import open_gateway
    from toolfold_adapters.gateway.stored import DefinitionCache, stored_folder

    cache = DefinitionCache(stored_folder("definitions"))
    gateway = open_gateway(config)
    async with gateway:
        for upstream in gateway.upstreams.values():
            if upstream.known is not None:
                cache.write(upstream.config, upstream.known)
        return gateway.registration.definitions


def costs_of_servers(
    config: GatewayConfig, definitions: Mapping[str, Definitions]
) -> tuple[Mapping[str, GroupCost], int]:
    """Return what each server would cost without Toolfold, and about how many tokens its list has at first with it."""
    from toolfold_adapters.gateway.registration import UpstreamRegistration

    tools = config.new_tool_set("gateway")
    registration = UpstreamRegistration(tools, config, _never_called, [CALL_TOOL])
    report = registration.register_tools(definitions)
    view = initial_view(tools)
    return costs_by_server(view, report.servers), wire_costs(view, read_tool=True)[0].after


def _never_called(server: str, kind: Kind, original: str) -> Callable[..., None]:
    return lambda: None
