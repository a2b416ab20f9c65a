"""One connection to an upstream, for one client or for all, and the task that holds it (SPEC GWY-3, GWY-4).

What may happen when is in `life`; here is what is done: a connection that starts gets a task, which opens it, has
it used until it ends or is to stop, and closes it. Whatever goes wrong in there ends with it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from attrs import field
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND

from toolfold import ToolError, ToolfoldError
from toolfold.spi import Caller, frozen

from ..beside import beside
from ..callers.acting import Acting, acting
from ..serving.downstream import DownstreamClient, RequestInProgress
from ..serving.pages import COMPLETE, Pages
from ..serving.tasks import OF_TASK, PROGRESS, RELATED, STATUS, OpenTasks, for_client, related_to
from ..spelling import Spellings
from ..stored import Item, words_for
from .definitions import CHANGES, Definitions
from .handshake import ConnectMode, Outcome, Probe
from .life import (
    ConnectionLost,
    Effect,
    Event,
    Life,
    LoginNeeded,
    LoginRequired,
    NotNow,
    Refused,
    SessionForgotten,
    State,
    UpstreamError,
    after,
    ended,
    first_cause,
    reason_of,
    too_slow,
)
from .notifications import Delivery, OnUpdate, Outbox, Watched, check_uri
from .relisting import AT_ONCE, Relisting
from .transports import ServerStderr, server_stderr
from .wire import Wire, connect, start_limit

if TYPE_CHECKING:
    from .upstream import Upstream

log = logging.getLogger("toolfold.gateway")

T = TypeVar("T")

SETTLE_SECONDS = 5.0
"""How long the first call of a new connection waits for what the server asks at the beginning."""
ENDED_SECONDS = 1.0
"""How long a call that was cut off waits for the reason."""
TAKE_UP_SECONDS = 0.1
"""How long it then waits for the server to take up the answer: the protocol has nothing that says when it has."""


@frozen
class _Reviewed:
    """What of a server's lists is withheld (SPEC GWY-11), by any spelling; and if anything is, all resources listed."""

    withheld: frozenset[Item] = frozenset()
    spellings: Spellings = field(factory=lambda: Spellings((), ()))
    resources: frozenset[str] = frozenset()


class Link:
    """A connection to an upstream.

    Args:
        upstream: The upstream.
        capabilities: The client's capabilities, as declared to it.
        client: Whose connection it is; `None` for one that all clients share.
        acting: For whom it is, of several callers; clients that share it are all his (SPEC GWY-19).

    `offered` is what it listed last, `pages` has the pages to which it sent clients, `tasks` the tasks that were
    started over it, and `needed` what its caller has to do before it can be opened.
    """

    def __init__(
        self,
        upstream: Upstream,
        capabilities: Mapping[str, Any],
        client: DownstreamClient | None,
        acting: Acting | None = None,
    ) -> None:
        self.upstream = upstream
        self.acting = acting
        self.needed: LoginNeeded | None = None
        self.capabilities = capabilities
        self.client = client
        self.life = Life(since=upstream.clock())
        self.wire: Wire | None = None
        self.level: str | None = None
        self.offered: Definitions | None = None
        self._whose = ""
        self._reviewed = _Reviewed()
        self._reviewing = anyio.Lock()
        self._calls: dict[RequestInProgress, DownstreamClient] = {}
        self._only = client
        self._several = False
        self._used = upstream.clock()
        self._changed = anyio.Event()
        self._stop = anyio.Event()
        self._opening: anyio.CancelScope | None = None
        self._outboxes: dict[DownstreamClient, Outbox] = {}
        self._holding: TaskGroup | None = None
        self._relist = anyio.Event()
        self._relisting = Relisting()
        self._due = anyio.Event()
        self._current = anyio.Event()
        self._closed = False
        self._answered: anyio.Event | None = None
        self._stderr: ServerStderr | None = None
        self.watched = Watched()
        self.pages = Pages()
        self.tasks = OpenTasks()

    @property
    def in_use(self) -> bool:
        """Whether a request is under way, a resource is watched, or a task may still be asked for."""
        return bool(self._calls or self.watched or self.tasks.open(self.upstream.clock()))

    @property
    def caller(self) -> Caller:
        """By whom it is counted, if it is not for all."""
        if self.client is not None:
            return self.client.caller
        return None if self.acting is None else f"principal {self.acting.principal.key}"

    @property
    def process(self) -> int | None:
        """The number of the process of a command, while there is one."""
        return None if self._stderr is None else self._stderr.process

    # -- used by clients ----------------------------------------------------------------------------------------------

    def taken_by(self, client: DownstreamClient) -> None:
        """Take note that a client is going to use it."""
        if self.client is None:
            self._several = self._several or self._only not in (None, client)
            self._only = None if self._several else client

    async def opened(self) -> Wire:
        """Return the connection once it is open, started if need be; raises `UpstreamError`."""
        started = False
        while self.wire is None or self.wire.ended.is_set() or self.life.state is not State.READY:
            if self._closed:
                raise UpstreamError(f"The connection to the MCP server {self.upstream.name!r} has been closed.")
            if started and (self.needed is not None or self.life.state is State.BACKING_OFF):
                raise self._unusable()
            if self.life.state is not State.STOPPING:
                try:
                    self.step(Event.USE)
                except NotNow as error:
                    raise self._unusable(f" {error}") from error
            started = started or self.life.state is State.STARTING
            await self._changed.wait()
        return self.wire

    async def started(self) -> None:
        """Return once it is not starting any more."""
        while self.life.state is State.STARTING:
            await self._changed.wait()

    async def performed(
        self,
        perform: Callable[[Wire], Awaitable[T]],
        client: DownstreamClient | None = None,
        call: RequestInProgress | None = None,
    ) -> T:
        """Return what `perform` returns of the open connection; it is asked once more in place of a forgotten session.

        Args:
            perform: Makes requests; those that are for a call of a client have the call as their cause.
            client: The client, if there is one.
            call: Its call.

        Raises:
            UpstreamError: The connection can't be opened now, it was lost, or the server refused by a status of HTTP.
        """
        name = self.upstream.name
        for again in (True, False):
            try:
                return await self._used_by(perform, client, call)
            except SessionForgotten as error:
                if not again:
                    raise UpstreamError(
                        f"The MCP server {name!r} does not know the session that it has just begun ({error}); its "
                        "operator can have its instances share their sessions."
                    ) from error
            except Refused as error:
                why = self.upstream.for_others(error.message)
                raise UpstreamError(f"The MCP server {name!r} refused this: {why}.") from error
            except ConnectionLost as error:
                lost = await self._why_lost()
                if self.needed is not None:  # it has answered that alone
                    raise LoginRequired(name, self.needed) from error
                why = self.upstream.for_others(lost) or str(error)
                raise UpstreamError(
                    f"The MCP server {name!r} stopped before it answered: {why.rstrip('.')}. What it was asked to do "
                    "may be done or not."
                ) from error
        raise AssertionError("unreachable")

    async def _why_lost(self) -> str:
        """Return why the connection was lost, once that is known; an empty text if it is not known soon."""
        with anyio.move_on_after(ENDED_SECONDS):
            while self.life.state is State.READY:
                await self._changed.wait()
        return self.life.reason if self.life.lost else ""

    async def _used_by(
        self,
        perform: Callable[[Wire], Awaitable[T]],
        client: DownstreamClient | None,
        call: RequestInProgress | None,
    ) -> T:
        self.tick(self.upstream.clock())  # the machine may have slept: what has not been used since may be dead
        if client is not None and call is not None:
            self._calls[call] = client
        try:
            wire = await self.opened()
            try:
                return await perform(wire)
            except SessionForgotten as error:
                self._forget(wire, error)
                raise
        finally:
            if client is not None and call is not None:
                del self._calls[call]
                if client not in self._calls.values() and client is not self.client:
                    self._outboxes.pop(client, None)
            self._used = self.upstream.clock()

    async def watch(
        self, params: Mapping[str, Any], watcher: object, on_update: OnUpdate, item: Item | None = None
    ) -> dict[str, Any]:
        """Have `on_update` called when a resource is updated, over later connections too; return the server's answer.

        Args:
            params: Those of a request to subscribe.
            watcher: Who watches, for `unwatch`.
            on_update: Is called with the parameters of each notification.
            item: What has to be usable, if that is not the resource.

        Raises:
            ToolError: The URI is too long, or the resource is withheld until it is approved.
            UpstreamError: The server can't be asked now.
            ProtocolError: It refused.
        """
        uri = str(params.get("uri"))
        check_uri(uri)
        before = self.watched.watches(uri, watcher)

        async def perform(wire: Wire) -> dict[str, Any]:
            await self.check_usable(item or ("resource", uri))
            self.watched.add(uri, watcher, on_update)
            return await self.watched.subscribe(wire, params)

        try:
            return await self.performed(perform)
        except BaseException:
            if not before:
                self.watched.remove(uri, watcher)
            raise

    async def unwatch(self, params: Mapping[str, Any], watcher: object) -> dict[str, Any]:
        """End what `watch` began; the server is asked only if there are no other watchers. Raises as `watch` does."""
        uri = str(params.get("uri"))
        self.watched.remove(uri, watcher)
        if self.wire is None or uri in self.watched:
            return {}
        return await self.performed(partial(self.watched.unsubscribe, params=params))

    async def flushed(self, client: DownstreamClient) -> None:
        """Wait until all that the upstream has sent so far to a client has been passed on."""
        if (outbox := self._outboxes.get(client)) is not None:
            await outbox.flushed()

    def pass_on(self, client: DownstreamClient, delivery: Delivery) -> None:
        """Queue something for a client after what came before it.

        Each client has an outbox, so that one that is slow holds up no other on a shared connection.
        """
        if self._holding is None:
            return
        if client not in self._outboxes:
            self._outboxes[client] = Outbox(self._holding, self.upstream.name)
        self._outboxes[client].put(delivery)

    # -- what it lists ------------------------------------------------------------------------------------------------

    async def listed(self, definitions: Definitions, whose: str = "") -> None:
        """Take note of what the server lists now over this connection; `whose` says to whom alone, if it does."""
        self.offered, self._whose = definitions, whose
        await self.review()
        if not self._relist.is_set():
            self._current.set()

    async def review(self) -> None:
        """Find out what of its lists may not be used."""
        async with self._reviewing:  # by what is approved then
            offered = self.offered
            reviewed = _Reviewed() if offered is None else await beside(offered.size, self._review, offered)
            if self.offered is offered:  # else what is listed meanwhile is reviewed by itself
                self._reviewed = reviewed

    def _review(self, offered: Definitions) -> _Reviewed:
        withheld = self.upstream.withheld(offered, self._whose)
        if not withheld:
            return _Reviewed()
        names = {kind: [name for of, name in withheld if of == kind] for kind in ("resource", "resource_template")}
        spellings = Spellings(names["resource"], names["resource_template"])
        return _Reviewed(withheld, spellings, frozenset(offered.by_name("resource")))

    async def usable(self, item: Item | None) -> bool:
        """Return whether something may be used as the server lists it now: a change of its lists is learned first.

        Of what is in no list, `None`, nobody knows what it leads to, so it may not while anything is withheld.
        """
        if self.upstream.quarantine:
            while not self._current.is_set():
                await self._current.wait()
        if item is None:
            return not self._reviewed.withheld
        return item not in self._reviewed.withheld and not self._may_be_withheld(item)

    async def check_usable(self, item: Item | None) -> None:
        """Raise `ToolError` for what may not be used, and log it for the operator (SPEC GWY-11)."""
        if await self.usable(item):
            return
        has = (
            "has changed since it was approved"
            if item is None or item in self._reviewed.withheld
            else "may be one that is not approved"
        )
        what = "Something" if item is None else f"The {words_for(item)}"
        text = (
            f"{what} of the MCP server {self.upstream.name!r} {has}, so it was not used. "
            "`toolfold approve` shows the difference and approves it."
        )
        log.warning("%s", text)
        raise ToolError(text)

    def _may_be_withheld(self, item: Item) -> bool:
        """Return whether something is a resource that is in no list, and may be what is withheld."""
        (kind, uri), reviewed = item, self._reviewed
        return kind == "resource" and uri not in reviewed.resources and reviewed.spellings.may_include(uri)

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to open it, unless that has begun or is not due."""
        try:
            self.step(Event.USE)
        except NotNow:
            return

    def stop(self) -> None:
        """Have it end; nothing happens if it is not open."""
        self.step(Event.STOP)

    def _forget(self, wire: Wire, error: SessionForgotten) -> None:
        """End a connection whose session the server does not know any more: not one begun in its place."""
        if not wire.ended.is_set():
            wire.failure = error
            wire.ended.set()
        if self.wire is wire:
            self.wire = None

    def close(self) -> None:
        """Have it end for good: its client, or the gateway, has ended."""
        self._closed = True
        self.stop()
        self._changed.set()

    def tick(self, now: float) -> None:
        """Do what is due: start after a failure, stop what was not used for long, read lists that changed often."""
        if self._relisting.may_begin(now):
            self._due.set()
        idle = not self.in_use and now - self._used >= self.upstream.config.idle_timeout
        if idle and self.life.state in (State.READY, State.BACKING_OFF):
            self.stop()
        elif self.life.state is State.BACKING_OFF and now >= self.life.due:
            self.step(Event.DUE)

    def step(self, event: Event, reason: str = "") -> None:
        """Take an event, and do what follows from it; raises `NotNow`."""
        before = self.life
        self.life, effect = after(before, event, self.upstream.clock(), self.upstream.backoff, reason)
        if self.life is before:
            return
        failed = effect is Effect.REPORT
        log.log(
            logging.WARNING if failed and not self.upstream.awaited else logging.INFO,
            "the MCP server %s%s %s%s",
            self.upstream.name,
            f" of {self.client.id}" if self.client is not None else "",
            ("has stopped" if self.life.lost else "did not start") if failed else f"is {self.life.state.value}",
            f": {reason}" if reason else "",
        )
        match effect:
            case Effect.REPORT:
                if self.acting is None:  # what one caller lacks is nobody else's business
                    self.upstream.failed(reason)
            case Effect.OPEN:
                self._stop = anyio.Event()
                self.upstream.tasks.start_soon(self._run)
            case Effect.CLOSE:
                self._stop.set()
                if self._opening is not None:
                    self._opening.cancel()
            case Effect.NOTHING:
                pass
        self._changed.set()
        self._changed = anyio.Event()

    def _unusable(self, more: str = "") -> UpstreamError:
        """Return the error for a client, which learns nothing of how the server is reached."""
        if self.needed is not None and self.acting is not None:
            return LoginRequired(self.upstream.name, self.needed)
        how = "has stopped" if self.life.lost else "can't be reached" if self.upstream.config.url else "did not start"
        why = self.upstream.for_others(self.life.reason)
        return UpstreamError(f"The MCP server {self.upstream.name!r} {how}: {why}{more}")

    # -- its task -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        stop, probe = self._stop, Probe()
        event, reason, too_late = await self._held(self.upstream.mode, probe, stop)
        if event is Event.FAILED and too_late:
            self.upstream.probed(probe, None)
        elif event is Event.FAILED and probe.failed and self.upstream.config.command and not stop.is_set():
            log.debug("the MCP server %s ended when it was asked for the newest era", self.upstream.name)
            event, reason, _ = await self._held("older_first", Probe(), stop, "ended")
        self.step(event, reason)
        if self.needed is not None and self.life.state is State.BACKING_OFF:
            self.stop()  # it starts on use: until its caller has logged in, it would only fail again

    async def _held(
        self, mode: ConnectMode, probe: Probe, stop: anyio.Event, outcome: Outcome | None = None
    ) -> tuple[Event, str, bool]:
        """Hold a connection while it lasts, and return how it ended, why, and whether it took too long to start.

        Args:
            mode: How to agree on a version.
            probe: Takes note of how the server takes the question for the newest era.
            stop: Is set to have it end.
            outcome: How it took that over the connection before.
        """
        upstream = self.upstream
        self.needed = None
        self._answered, self._relist, self._current = None, anyio.Event(), anyio.Event()
        event, reason, unparsed, too_late = Event.FAILED, "", 0, False
        stderr = self._stderr = ServerStderr(upstream.name)
        failure: Exception | None = None
        try:
            with anyio.move_on_after(upstream.config.start_timeout) as self._opening:
                start_limit.set(self._opening)
                acting.set(self.acting)
                server_stderr.set(stderr)
                async with connect(
                    upstream.transport(upstream.config, upstream.key),
                    mode,
                    self.capabilities,
                    self._answer,
                    self._take,
                    probe,
                ) as wire:
                    try:
                        upstream.probed(probe, wire, outcome)
                        listed = await upstream.begin(self, wire)
                        listed = await self._settled(wire) or listed
                        self._opening.deadline, self._opening = math.inf, None
                        stderr.started()
                        event = Event.LOST
                        await self._hold(wire, stop, listed)
                    finally:
                        unparsed, failure = wire.unparsed, wire.failure
            if event is Event.FAILED:
                too_late = not stop.is_set()
                reason = too_slow(upstream.config, unparsed)
            elif stop.is_set():
                event = Event.STOPPED
            elif isinstance(failure, SessionForgotten):
                event, reason = Event.FORGOTTEN, f"it no longer knew the session ({failure})."
            else:
                reason = ended(stderr.error) if failure is None else reason_of(failure, upstream.config, unparsed)
        except Exception as error:
            log.debug("the connection to the MCP server %s failed", upstream.name, exc_info=True)
            if not probe.failed:
                stderr.failed()
            reason = reason_of(error, upstream.config, unparsed, stderr.reason)
            cause = first_cause(error)
            self.needed = cause if isinstance(cause, LoginNeeded) else None
        finally:
            self.wire = self._opening = self.offered = self._holding = self._stderr = None
            self._current.set()  # who waits finds that it has ended
        return event, upstream.for_operator(reason), too_late

    async def _settled(self, wire: Wire) -> bool:
        """Let a server ask at the beginning what it needs to know, such as roots, before its first call.

        Without a gateway it is started long before it is called; here the call is why it starts. Returns whether it
        asked, and so was listed anew: what it offers may depend on the answers.
        """
        if wire.facts.modern or self.client is None or "roots" not in self.capabilities:
            return False
        with anyio.move_on_after(SETTLE_SECONDS):
            for _ in range(2):  # the first may be answered together with the end of the handshake
                await wire.request("ping", {})
            if self._answered is not None:
                await self._answered.wait()
                await anyio.sleep(TAKE_UP_SECONDS)
                await self.upstream.refresh(self, wire)
                return True
        return False

    async def _hold(self, wire: Wire, stop: anyio.Event, listed: bool) -> None:
        """Have the connection used until it ends or is to stop."""
        self.wire, self._outboxes, self.level = wire, {}, None
        self.watched.begin()
        if unnotified := self.upstream.quarantine and wire.facts.modern:
            self._current = anyio.Event()  # what changed since it was listed is not known before it notifies of changes

        async def until(event: anyio.Event) -> None:
            await event.wait()
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            self._holding = tasks
            tasks.start_soon(until, wire.ended)
            tasks.start_soon(until, stop)
            tasks.start_soon(self._follow, wire, listed, unnotified)
            self.step(Event.STARTED)

    async def _follow(self, wire: Wire, listed: bool, unnotified: bool) -> None:
        """Have the upstream learn what the server offers, and again whenever it says that this changed."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.watched.follow, wire)
            if unnotified:
                await self.watched.begun()
                if listed and not self._relist.is_set():  # it notifies of nothing
                    self._current.set()
            while True:
                listed = listed and not self._relist.is_set()
                self._relist = anyio.Event()
                try:
                    if not listed:
                        await self._refreshed(wire)
                except (ToolfoldError, MCPError) as error:
                    if self.upstream.quarantine:
                        raise  # what would be used is unknown
                    log.warning("the lists of the MCP server %s could not be read: %s", self.upstream.name, error)
                listed = False
                self.upstream.asked(self)
                await self._relist.wait()
                while not self._relisting.may_begin(self.upstream.clock()):
                    self._due = anyio.Event()
                    await self._due.wait()

    async def _refreshed(self, wire: Wire) -> None:
        """Have the upstream learn what the server offers now, and take note of how long that takes."""
        began = self.upstream.clock()
        self._relisting.begin(began)
        if self._relisting.row == AT_ONCE + 1:
            name = self.upstream.name
            log.warning("the MCP server %s says over and over that its lists changed; they are read more rarely", name)
        try:
            await self.upstream.refresh(self, wire)
        finally:
            self._relisting.end(began, self.upstream.clock())

    # -- what the server sends unasked ---------------------------------------------------------------------------------

    def _take(self, method: str, params: Mapping[str, Any], cause: object) -> None:
        """Take a notification: it changes what is known here, or goes to a client."""
        if method == "notifications/subscriptions/acknowledged":
            self.watched.acknowledge(params)
        if method in CHANGES:
            self._current = anyio.Event() if self._current.is_set() else self._current
            self._relist.set()  # also once a subscription begins: what changed before it was not notified
        elif method == "notifications/resources/updated" and self.watched.update(params):
            return
        elif method == OF_TASK and self.wire is not None and self.wire.facts.modern:
            if (task := self.tasks.about(method, params)) is not None:
                task.changed.set()
            self.watched.update_task(params)
        elif method == PROGRESS:
            self.tasks.progressed(params)  # that of other requests has been passed on
        elif method != "notifications/cancelled":
            client, params = self._addressed(method, params, cause)
            if client is None:
                log.debug("%s of the MCP server %s is for nobody: %.200r", method, self.upstream.name, params)
                return
            self.pass_on(client, partial(client.notify, method, params, self._calls_of(client, cause)))

    def _addressed(
        self, method: str, params: Mapping[str, Any], cause: object
    ) -> tuple[DownstreamClient | None, Mapping[str, Any]]:
        """Return the client that a notification is for, if that can be told, and what it reads of it."""
        task = self.tasks.about(method, params)
        if task is None:
            page = self.pages.complete(params) if method == COMPLETE else None
            return page or (None if method in STATUS else self._addressee(cause)), params
        if method in STATUS:
            task.changed.set()
        return (None if method in STATUS and task.id is None else task.client), for_client(method, params, task)

    async def _answer(self, method: str, params: Mapping[str, Any], cause: object) -> Mapping[str, Any]:
        """Answer what the server asks of its client: the one whose request caused it.

        A server that asks so that it can't be told what for is called over connections of each client from then on.
        """
        task = self.tasks.about(method, params)
        client = self._addressee(cause) if task is None else task.client
        if self.client is None and self.wire is not None and cause is None and task is None:
            self.upstream.asks = True
        if client is None:
            raise MCPError(code=METHOD_NOT_FOUND, message=f"There is no one client here to answer {method}")
        self.pages.note(params, client)
        answered = self._answered = anyio.Event()
        try:
            if task is None:
                return await client.ask(method, params, self._calls_of(client, cause))
            answer = await client.ask(method, for_client(method, params, task), self._calls_of(client, cause))
            return related_to(answer, str(params["_meta"][RELATED]["taskId"]))
        finally:
            answered.set()

    def _addressee(self, cause: object) -> DownstreamClient | None:
        """Return the client that something is for; `None` for nobody, where that can't be told (SPEC GWY-19).

        What came over the stream of an answer is for the client whose call that answers, while it is in progress. All
        else is for the client whose connection it is, or who alone has ever used it: what came late of another's call
        looks no different.
        """
        call = cause if isinstance(cause, RequestInProgress) else None
        return self._calls.get(call, self._only) if call is not None else self._only

    def _calls_of(self, client: DownstreamClient, cause: object) -> list[RequestInProgress]:
        """Return the call that caused something, or else all calls of a client that are in progress here."""
        own = [call for call, by in self._calls.items() if by is client]
        return [call for call in own if call is cause] or own
