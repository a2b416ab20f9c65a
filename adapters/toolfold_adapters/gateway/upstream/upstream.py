"""A server behind a gateway: what it offers, and the connections to it (SPEC GWY-1, GWY-3, GWY-4)."""

from __future__ import annotations

import logging
import operator
import shlex
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from anyio.abc import TaskGroup
from attrs import evolve, field

from toolfold import WithheldBy
from toolfold.spi import Full, frozen

from ...mcp.principal import Principal
from ...mcp.request import record_refusal
from ...names import ONE_SERVER
from ...tally import Tally
from ...transport.garbage import postponed
from ...transport.redaction import secrets_in
from ..beside import beside
from ..callers.acting import Acting, by_each, whose
from ..callers.listed import ListedByCaller
from ..config.settings import Entry, UpstreamConfig
from ..serving.downstream import DownstreamClient
from ..sharing import Facts, Sharing, sharing
from ..stored import TEXT, Approvals, DefinitionCache, Item, ProbeMemory
from .definitions import Definitions, Known, known_of, learn, merged, name_of_task
from .handshake import ConnectMode, Outcome, Probe
from .life import Backoff, Life, State, UpstreamError, without_credentials, without_secrets
from .link import Link
from .transports import Transports
from .wire import Transport, Wire

if TYPE_CHECKING:
    from ..callers.logins import CallerLogins

log = logging.getLogger("toolfold.gateway")

ABLE: Mapping[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}
"""What a client could do at most: with that an upstream is asked what it offers, which may depend on it."""
ASKING = "asking"
"""The name of the connection that asks what a server offers, beside those of clients."""

MOST_ABLE = 16
"""For how many sets of what clients can do it is remembered what was offered last."""

MOST_ACTING = 10_000
"""For how many callers it is known for whom a server is used, before those are forgotten to whom it lists nothing."""

Condition = tuple[WithheldBy, str]
"""Why it is not known what a server offers, and what to say of it after its name."""

OnChange = Callable[["Upstream"], Coroutine[Any, Any, None]]


@frozen(kw_only=True)
class Runtime:
    """What upstreams run on.

    Attributes:
        clock: Returns the time in seconds.
        backoff: How long to wait after failures.
        cache: Where definitions are stored.
        probes: Which upstreams did not answer when they were asked for the newest era (SPEC GWY-18).
        transport: Returns what carries the messages of an upstream, by how it is reached and what it is called in the
            configuration.
        approvals: Which definitions were approved (SPEC GWY-11); all are, unless it is given.
        one_user: Whether all clients are sessions of one user, who share more; see `sharing`.
        environ: The environment of whoever has upstreams started, if that is not this process; nobody reads what is
            secret there (SPEC GWY-4).
        callers: What each of several callers logs in with (SPEC GWY-19); unless given, all are one user.
        keys: What the ids of tasks are signed with, the newest last (SPEC GWY-18); unless given, what handles are.
    """

    clock: Callable[[], float]
    backoff: Backoff = field(factory=Backoff)
    cache: DefinitionCache = field(factory=DefinitionCache)
    probes: ProbeMemory = field(factory=ProbeMemory)
    transport: Callable[[UpstreamConfig, str], Transport] = field(factory=Transports)
    approvals: Approvals | None = None
    one_user: bool = False
    environ: Mapping[str, str] = field(factory=dict[str, str], repr=False)
    callers: CallerLogins | None = None
    keys: Sequence[bytes] = field(default=(), repr=False)


@frozen(kw_only=True)
class UpstreamStatus:
    """How an upstream is doing.

    `state` is that of its connection that is furthest, `since` the seconds for which it is so, `connections` says how
    many are open, and `tools` how many it offers; `None` if that is not known. `reason` says why the last failure was,
    to its operator, and `public_reason` to all others. `withheld` says whether some of it is withheld until it
    is approved (SPEC GWY-11), `approvals` why what is approved can't be stored or read, if it can't, and `rights` why
    what callers may do can't be (SPEC ISO-3).
    `without_output` names the tools that are served without an output schema that clients can't compile (SPEC GWY-20).
    `cut` is how many definitions are left out, at least, since it lists more than is kept. `credentials` says why those
    of its callers can't be used, if they can't, so that it is withheld from them (SPEC ISO-3). `callers` are those who
    use it as themselves, and how that is going for each (SPEC GWY-19).
    """

    name: str
    state: str
    since: float
    connections: int
    failures: int
    reason: str
    tools: int | None
    withheld: bool = False
    cut: int = 0
    approvals: str = ""
    public_reason: str = ""
    without_output: tuple[str, ...] = ()
    rights: str = ""
    credentials: str = ""
    callers: tuple[tuple[str, str], ...] = ()


class Upstream:
    """A server behind a gateway.

    Args:
        entry: What it is called in the configuration, and how it is reached.
        runtime: What it runs on.
        tasks: Where its connections are held.
        on_change: Is awaited when what it offers has changed.
        quarantine: Returns whether what has changed may not be used (SPEC GWY-11).

    `awaited` says whether somebody waits for its start, who will report a failure, and `reason` why it failed last;
    `asks` whether it has asked clients for something over a connection that they share.
    """

    def __init__(
        self,
        entry: Entry,
        runtime: Runtime,
        tasks: TaskGroup,
        on_change: OnChange,
        quarantine: Callable[[], bool],
    ) -> None:
        self._entry = entry
        self.key = entry.name
        self.config = config = entry.upstream
        self.tasks = tasks
        self.clock, self.backoff, self.transport = runtime.clock, runtime.backoff, runtime.transport
        self._cache, self._probes = runtime.cache, runtime.probes
        self._one_user = runtime.one_user
        self.callers = runtime.callers
        self.by_each = by_each(config, several=runtime.callers is not None)
        self._secrets = tuple(secrets_in(runtime.environ))
        self._on_change = on_change
        self._approvals = runtime.approvals
        self._quarantine = quarantine
        self.known = runtime.cache.read(self._cached_as)
        self._said = self._approved_name()
        self.awaited = self.asks = False
        self.reason = ""
        self._only_tasks: tuple[Definitions | None, frozenset[str]] = None, frozenset()
        self._links: dict[Hashable, Link] = {}  # by whose they are; `None` for all clients
        self._acting: dict[str, Acting] = {}
        self._listed = ListedByCaller()
        self._offered: dict[tuple[str, ...], Definitions] = {}  # by what a client can do, to whom it was offered last

    @property
    def name(self) -> str:
        """What it is called in the configuration; or what it calls itself, or its host or program."""
        if self.key != ONE_SERVER:
            return self.key
        host = urlsplit(self.config.url or "").hostname
        return self._said or host or Path((self.config.command or (self.key,))[0]).name

    @property
    def target(self) -> str:
        """What its operator calls it; a command or URL may hold secrets, so it is not for clients."""
        return self.name if self.key != ONE_SERVER else self.config.url or shlex.join(self.config.command or ())

    @property
    def mode(self) -> ConnectMode:
        """How to agree on a version with it: one that did not answer for the newest era is not asked again."""
        if self.config.mode == "legacy":
            return "legacy"
        return "auto" if self._probes.read(self.config) is None else "older_first"

    def probed(self, probe: Probe, wire: Wire | None, ended: Outcome | None = None) -> None:
        """Take note of how it took the question for the newest era.

        Args:
            probe: What is known of the question over a connection.
            wire: The connection; `None` if it did not start in time.
            ended: What became of an earlier one, in whose place this is.
        """
        before = self._probes.read(self.config)
        silent: Outcome | None = "silent" if probe.failed else None
        if wire is not None and not wire.facts.modern:
            server = str(wire.facts.info.get("name", "")), str(wire.facts.info.get("version", ""))
            self._probes.note(self.config, ended or silent, server)
        elif wire is None and silent is not None:
            self._probes.note(self.config, silent, None)
        elif before is not None and (wire is not None or before.server is None):
            self._probes.forget(self.config)  # it is of the newest era, or slow whatever it is asked

    @property
    def shared(self) -> bool:
        """Whether one connection serves all clients, for all but the calls of a server that asks them."""
        return self._sharing().shared

    @property
    def sharing(self) -> Sharing:
        """Whether one connection serves all clients, and why."""
        return self._sharing(asks=self.asks)

    def _sharing(self, *, asks: bool = False) -> Sharing:
        one_user = self._one_user or self.by_each  # those who share are clients of one
        return sharing(self.config, Facts(one_user=one_user, modern=self.modern, asks=asks))

    @property
    def modern(self) -> bool:
        """Whether it is known that its era is that without sessions."""
        return self.known is not None and self.known.modern

    @property
    def status(self) -> UpstreamStatus:
        """How it is doing."""
        return self._status(list(self._links.values()))

    def status_to(self, principal: Principal) -> UpstreamStatus:
        """Return how it is doing as far as a caller may know: where each uses it as himself, for him (SPEC GWY-19)."""
        if not self.by_each:
            return self.status
        own = [
            link for link in self.links if link.acting and self.whose(link.acting.principal) == self.whose(principal)
        ]
        said = self._status(own)
        return evolve(said, credentials=said.credentials and "ask the operator")

    def _status(self, links: Sequence[Link]) -> UpstreamStatus:
        order = [State.READY, State.STARTING, State.BACKING_OFF, State.STOPPING, State.IDLE]
        furthest = min((link.life for link in links), key=lambda life: order.index(life.state), default=Life())
        worst = max((link.life for link in links), key=lambda life: life.failures, default=None)
        return UpstreamStatus(
            name=self.key,
            state=furthest.state.value,
            since=self.clock() - furthest.since if links else 0.0,
            connections=sum(link.life.state is State.READY for link in links),
            failures=worst.failures if worst else 0,
            reason=worst.reason if worst else "",
            public_reason=self.for_others(worst.reason) if worst and worst.reason else "",
            tools=len(self.known.definitions.tools) if self.known is not None else None,
            cut=self.known.definitions.cut if self.known is not None else 0,
            credentials=self.callers.credentials.problem if self.by_each and self.callers is not None else "",
            callers=tuple(sorted(_of_callers(links))),
        )

    def needs_task(self, tool: str, acting: Acting | None = None) -> bool:
        """Return whether a tool, by the server's own name for it, can be called as a task alone by who uses it."""
        definitions = self._definitions_for(acting)
        if self._only_tasks[0] is not definitions:
            tools = () if definitions is None else definitions.tools
            self._only_tasks = definitions, frozenset(filter(None, map(name_of_task, tools)))
        return tool in self._only_tasks[1]

    # -- connections --------------------------------------------------------------------------------------------------

    def link(self, client: DownstreamClient, *, call: bool = False) -> Link:
        """Return the connection that a client uses, or with `call` the one for a call.

        What a server asks over a pipe that is shared can be for any client. So one that asks is called over connections
        of each client, and those are asked (SPEC GWY-19).

        Raises:
            UpstreamError: There are as many as there may be, in all or of the client's caller.
        """
        shared = self._sharing(asks=call and self.asks).shared
        acting = self._acting_for(client) if self.by_each else None
        of = None if acting is None else whose(self.config, acting.principal)
        key = of if shared else (client.among, client.id, of)
        link = self._links.get(key)
        if link is not None and link.needed is not None and not link.in_use:
            link.close()  # it has no credential, which its caller may have got meanwhile
            link = None
        if link is None:
            self._check_room(client)
            able, owner = (ABLE, None) if shared else (client.capabilities, client)
            link = self._links[key] = Link(self, able, owner, acting)
        link.taken_by(client)
        return link

    def _acting_for(self, client: DownstreamClient) -> Acting:
        """Return for whom a client's connections are, with the token that the request has which is being answered."""
        principal, token = client.asks_as
        of = whose(self.config, principal)
        acting = self._acting.get(of)
        if acting is None:
            if len(self._acting) > MOST_ACTING:
                self._acting = {key: one for key, one in self._acting.items() if key in self._listed}
            acting = self._acting[of] = Acting(principal)
        if token:
            acting.subject = token
        return acting

    async def end_logins(self, record: str | None) -> None:
        """End the connections of callers who have logged out, by the record that has changed; `None` for any."""
        if self.callers is None:
            return
        for key, link in list(self._links.items()):
            acting = link.acting
            if acting and await self.callers.has_ended(self.key, self.config, acting.principal, record):
                self._links.pop(key, None)
                link.close()
                if whose(self.config, acting.principal) in self._listed:
                    await self._learn_of(acting, None)

    def _check_room(self, client: DownstreamClient) -> None:
        """Raise `UpstreamError` if there is no room for a connection that a client needs (SPEC SAF-4)."""
        tally = Tally(f"connections to the MCP server {self.name!r}", self.config.connections)
        for link in self.links:
            tally.add(link.caller)
        try:
            tally.take(client.caller)
        except Full as full:
            record_refusal(full)
            setting = "max_connections_per_caller" if full.own else "max_connections"
            raise UpstreamError(f"{full} Its operator can raise {setting}, or set shared = true.") from full

    @property
    def links(self) -> tuple[Link, ...]:
        """All connections."""
        return tuple(self._links.values())

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of its processes, each of which leads those that it has started."""
        return tuple(link.process for link in self.links if link.process is not None)

    def end(self, client: DownstreamClient) -> None:
        """Stop the connections of a client that has ended."""
        for key, link in list(self._links.items()):
            if link.client is client:
                del self._links[key]
                link.close()

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()

    def tick(self, now: float) -> None:
        """Do what is due."""
        for key, link in list(self._links.items()):
            link.tick(now)
            if link.life.state is State.IDLE and not link.in_use and key is not None:
                del self._links[key]

    # -- what it offers -----------------------------------------------------------------------------------------------

    @property
    def quarantine(self) -> bool:
        """Whether what has changed since it was approved may not be used (SPEC GWY-11)."""
        return self._approvals is not None and self._quarantine()

    def withheld(self, definitions: Definitions, whose: str = "") -> frozenset[Item]:
        """Return what of its definitions, as a connection lists them, may not be used until it is approved.

        `whose` says to which caller alone it lists them, if it does.
        """
        if self._approvals is None or not self.quarantine:
            return frozenset()
        return self._approvals.changed(self._entry.of(whose), definitions, quarantine=True)

    def _approved_name(self) -> str:
        """Return what it calls itself, unless that is not as it was approved: errors that a model reads have it."""
        if self.known is None or self.key != ONE_SERVER:
            return ""
        said = self.known.definitions
        changed = self._approvals is not None and (TEXT, "name") in self._approvals.changed(
            self._entry, said, quarantine=self.quarantine
        )
        return "" if changed else said.name

    def ask(self) -> Link:
        """Begin to ask the server what it offers, and return the connection that does: one of its own."""
        key = None if self.shared and not self.by_each else ASKING
        if key not in self._links:
            self._links[key] = Link(self, ABLE, None)
        self._links[key].start()
        return self._links[key]

    async def found_out(self) -> None:
        """Return once it is known what the server offers, asked if need be, or it failed to start."""
        if self.known is None:
            await self.ask().started()

    @property
    def failure(self) -> UpstreamError | None:
        """Why it is not known what the server offers, if it failed to start; for its operator."""
        if self.known is not None or not self.reason:
            return None
        return UpstreamError(f"The MCP server {self.target!r} did not start: {self.reason}")

    @property
    def condition(self) -> Condition:
        """Why it is not known what it offers, and what a model reads of it; nothing of how it is reached."""
        if self.reason:
            return "failed", f"failed: {self.for_others(self.reason)}"
        return "starting", "is starting."

    def for_operator(self, text: str) -> str:
        """Return a text about the server without credentials."""
        return without_credentials(text, self.config, *self._secrets)

    def for_others(self, text: str) -> str:
        """Return a text about the server without what only its operator may know, such as for models."""
        return without_secrets(text, self.config, *self._secrets)

    def failed(self, reason: str) -> None:
        """Take note that a connection failed."""
        before, self.reason = self.reason, reason
        if self.known is None and reason != before:
            self.tasks.start_soon(self._on_change, self)

    async def begin(self, link: Link, wire: Wire) -> bool:
        """Do what comes first on a new connection; return whether what the server offers was learned from it."""
        known = self.known
        asks = known is None or not known.complete or known.modern != wire.facts.modern
        first = link.acting is not None and not self.knows(link.acting.principal)
        if known is None or asks or first or self._links.get(ASKING) is link or self.quarantine:
            await self.refresh(link, wire)
            return True
        definitions = self._definitions_for(link.acting) or known.definitions
        await beside(definitions.size, learn, wire, definitions.tools)
        return False

    async def refresh(self, link: Link, wire: Wire) -> None:
        """Learn what the server offers now over a connection.

        It may offer less to a client that can do less, and more to one that asked for it. So what is missing is gone
        only if this connection had it, and what is new at the beginning of a connection has the server asked anew: also
        a list that such clients did not have before, since what it lacks may have gone while there was no connection.
        A list without tools is read once more before it takes the place of one that has some.
        """
        with postponed():
            await self._refresh(link, wire)

    # -- to each caller -----------------------------------------------------------------------------------------------

    @property
    def _cached_as(self) -> UpstreamConfig:
        """How it is reached, for what is stored: what is listed to each caller is stored for none."""
        return self.config.model_copy(update={"auth": "caller"}) if self.by_each else self.config

    def knows(self, principal: Principal) -> bool:
        """Return whether it is known what it offers to a principal."""
        if self.known is None:
            return False
        return not self.known.definitions.by_caller or whose(self.config, principal) in self._listed

    def whose(self, principal: Principal) -> str:
        """Return by what a principal's connections and lists are known."""
        return whose(self.config, principal)

    @property
    def own(self) -> Mapping[str, Definitions]:
        """What it lists to each of its callers, by whose it is, where that is not the same for all (SPEC ISO-1)."""
        return self._listed.lists

    def _definitions_for(self, acting: Acting | None) -> Definitions | None:
        """Return what is known that it offers to whom it is used for."""
        own = None if acting is None else self._listed.of(whose(self.config, acting.principal))
        return own or (None if self.known is None else self.known.definitions)

    async def found_out_for(self, client: DownstreamClient) -> None:
        """Return once it is known what it offers to a client, or it failed to start.

        Raises:
            LoginRequired: Its caller has to log in there first.
        """
        if not self.by_each:
            await self.found_out()
        elif not self.knows(client.asks_as[0]):
            link = self.link(client)
            wire = await link.opened()
            if not self.knows(client.asks_as[0]):  # it is open since before that was forgotten
                await self.refresh(link, wire)

    async def _learn_of(self, acting: Acting, now: Known | None) -> None:
        """Learn what it lists to a caller, or that he has logged out."""
        definitions, of = None if now is None else now.definitions, whose(self.config, acting.principal)
        size, before = 0 if definitions is None else definitions.size, self._listed.of(of)
        everything = await beside(size, self._listed.take, of, definitions)
        known = now or self.known
        if known is not None:
            changed = self._listed.of(of) is not before
            await self._learn(evolve(known, definitions=everything), store=False, changed=changed)

    async def _refresh(self, link: Link, wire: Wire) -> None:
        now = await known_of(wire)
        own = link.acting is not None and not now.public and self.config.definitions != "public"
        if own and (self.known is None or self.known.definitions.by_caller):
            assert link.acting is not None
            await link.listed(now.definitions, whose(self.config, link.acting.principal))
            await self._learn_of(link.acting, now)
            return
        if not now.definitions.tools and self.known is not None and self.known.definitions.tools:
            now = await known_of(wire)
        before, known = link.offered, self.known
        if known is not None and await _same(now.definitions, known.definitions):
            now = evolve(now, definitions=known.definitions)  # each connection keeps them, but none its own
        await link.listed(now.definitions)
        as_able = self._links.get(ASKING) is link or known is None or set(now.able) >= set(known.able)
        another = known is None or (now.modern, now.definitions.version) != (known.modern, known.definitions.version)
        if known is None or as_able or another:
            await self._learn(now)
            return
        known, definitions = await self._merged(known, before, now.definitions)
        last = self._offered.pop(now.able, None)
        self._offered[now.able] = now.definitions
        if len(self._offered) > MOST_ABLE:
            del self._offered[next(iter(self._offered))]
        if before is None and (definitions != known.definitions or now.definitions not in (last, known.definitions)):
            self.ask()
        await self._learn(evolve(known, definitions=definitions), store=False)

    async def _merged(self, known: Known, before: Definitions | None, now: Definitions) -> tuple[Known, Definitions]:
        """Return what is known, and what is once one connection had first `before` and then `now`."""
        while True:
            definitions = await beside(known.definitions.size, merged, known.definitions, before, now)
            if self.known is None or self.known is known:
                return known, definitions
            known = self.known  # another connection has learned something meanwhile

    def asked(self, link: Link) -> None:
        """End a connection that was only to ask what the server offers."""
        if self._links.get(ASKING) is link:
            del self._links[ASKING]
            link.close()

    async def _learn(self, now: Known, *, store: bool = True, changed: bool = False) -> None:
        before, self.known = self.known, now
        self._said = await beside(now.definitions.size, self._approved_name)
        if changed or before is None or not await _same(_without_warnings(before), _without_warnings(now)):
            if store:
                await beside(now.definitions.size, self._cache.write, self._cached_as, now)
            await self._on_change(self)


def _of_callers(links: Iterable[Link]) -> Iterator[tuple[str, str]]:
    """Yield each caller who uses a server as himself, and how that is going."""
    for link in links:
        if link.acting is not None:
            yield str(link.acting.principal), "has to log in" if link.needed is not None else link.life.state.value


async def _same(one: Known | Definitions, other: Known | Definitions) -> bool:
    """Return whether they are equal, which takes long where they are large and not the same."""
    size = one.size if isinstance(one, Definitions) else one.definitions.size
    return await beside(size, operator.eq, one, other)


def _without_warnings(known: Known) -> Known:
    return evolve(known, definitions=evolve(known.definitions, warnings=()))
