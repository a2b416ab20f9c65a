"""What an upstream sends beside its answers, and who it is for (SPEC GWY-1).

It is passed on to clients one after the other: an answer waits until all that came before it has been passed on, also
what is just being passed on.

A resource is watched over one connection. In the legacy era each is a request to subscribe; in the modern era all of
them belong to one subscription, which also notifies of changes of lists, and of the states of tasks. Whatever
connection is open has those that are watched.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, cast
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from toolfold import ProtocolError, ToolError
from toolfold.spi import MAX_URI, quoted, table

from ...mcp.answer.render import own_fields
from ...names import GROUPS_EXTENSION, GROUPS_FILTER
from .life import ConnectionLost
from .wire import Wire, declaring

log = logging.getLogger("toolfold.gateway")

MOST_WAITING = 1000
"""How much may wait for a slow client; what comes then is discarded."""
ACKNOWLEDGED_SECONDS = 5.0
"""How long a client waits at most for a server of the modern era to take note of what it watches."""

TASK = "task "
"""What stands before the id of a task among what is watched: no URI has a space."""
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"

Delivery = Callable[[], Awaitable[None]]
OnUpdate = Callable[[dict[str, Any]], None]


class Outbox:
    """The deliveries of one connection to one client, in order.

    Args:
        tasks: Where they are passed on, while there are any.
        upstream: The name of the upstream.
    """

    def __init__(self, tasks: TaskGroup, upstream: str) -> None:
        self._tasks = tasks
        self._upstream = upstream
        self._discards = False
        self._waiting: deque[Delivery] = deque()
        self._running = False
        self._closed = False
        self._put = 0
        self._passed = 0
        self._progress = anyio.Event()

    def put(self, delivery: Delivery) -> None:
        """Have something passed on after what came before it; it is discarded if far too much waits already."""
        if self._closed or len(self._waiting) >= MOST_WAITING:
            if not self._discards:  # one line for a flood
                log.warning("the MCP server %s sends more than a client receives; the rest is lost", self._upstream)
            self._discards = True
            return
        self._waiting.append(delivery)
        self._put += 1
        if not self._running:
            self._running = True
            self._tasks.start_soon(self._run)

    async def flushed(self) -> None:
        """Wait until all that was put so far has been passed on, or can't be any more."""
        until = self._put
        while self._passed < until and not self._closed:
            await self._progress.wait()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._waiting.popleft()()
                self._passed += 1
                self._moved()
            self._running = self._discards = False
        finally:
            self._closed = self._running
            self._moved()

    def _moved(self) -> None:
        self._progress.set()
        self._progress = anyio.Event()


class Watched:
    """What is watched: by the URI of a resource, or the id of a task after `TASK`, who watches and what is called then.

    Tasks are watched in the modern era alone.
    """

    def __init__(self) -> None:
        self._watchers: dict[str, dict[object, OnUpdate]] = {}
        self._subscribed: set[str] = set()
        self._changed = anyio.Event()
        self._acknowledged = anyio.Event()
        self._turns: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self._begun = anyio.Event()

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def __contains__(self, uri: str) -> bool:
        return uri in self._watchers

    def __iter__(self) -> Iterator[str]:
        return iter(self._watchers)

    def watches(self, uri: str, watcher: object) -> bool:
        """Return whether somebody watches a resource."""
        return watcher in self._watchers.get(uri, {})

    def add(self, uri: str, watcher: object, on_update: OnUpdate) -> None:
        """Note that somebody watches a resource."""
        self._watchers.setdefault(uri, {})[watcher] = on_update

    def remove(self, uri: str, watcher: object) -> None:
        """Note that somebody no longer watches a resource."""
        watchers = self._watchers.get(uri, {})
        watchers.pop(watcher, None)
        if not watchers:
            self._watchers.pop(uri, None)

    def update(self, params: Mapping[str, Any]) -> bool:
        """Notify those who watch a resource, or one that it is in, of an update; return whether there are any."""
        uri = str(params.get("uri"))
        passed = own_fields(params)
        due = [watchers for watched, watchers in self._watchers.items() if _is_within(uri, watched)]
        for on_update in {watcher: each for watchers in due for watcher, each in watchers.items()}.values():
            on_update(passed)
        return bool(due)

    def update_task(self, params: Mapping[str, Any]) -> None:
        """Notify those who watch a task of its state."""
        for on_update in [*self._watchers.get(f"{TASK}{params.get('taskId')}", {}).values()]:
            on_update(own_fields(params))

    # -- at the server ------------------------------------------------------------------------------------------------

    async def subscribe(self, wire: Wire, params: Mapping[str, Any]) -> dict[str, Any]:
        """Have the server notify of updates of a resource, and return its answer.

        In the legacy era the requests for one resource are sent one after the other: whoever comes while one is on its
        way learns from its answer whether there are updates, or asks anew.
        """
        uri = str(params.get("uri"))
        if not wire.facts.modern:
            async with self._turn(uri):
                return await self._asked(wire, uri, params)
        if uri in self._subscribed:
            return {}
        self._changed.set()
        with anyio.move_on_after(ACKNOWLEDGED_SECONDS):
            while uri not in self._subscribed:
                await self._acknowledged.wait()
        return {}

    async def _asked(self, wire: Wire, uri: str, params: Mapping[str, Any]) -> dict[str, Any]:
        subscribed = self._subscribed  # a later connection has others
        if uri in subscribed:
            return {}
        answer = await wire.request("resources/subscribe", params)
        subscribed.add(uri)
        return answer

    async def unsubscribe(self, wire: Wire, params: Mapping[str, Any]) -> dict[str, Any]:
        """Have it no longer do so, unless somebody watches the resource meanwhile, and return its answer."""
        if wire.facts.modern:
            self._changed.set()
            return {}
        async with self._turn(uri := str(params.get("uri"))):
            if uri in self._watchers or uri not in self._subscribed:
                return {}
            self._subscribed.discard(uri)
            return await wire.request("resources/unsubscribe", params)

    def _turn(self, uri: str) -> anyio.Lock:
        """Return what is held while a request for a resource is on its way."""
        return self._turns.setdefault(uri, anyio.Lock())

    def begin(self) -> None:
        """Take note of a new connection, over which nothing is subscribed to."""
        self._subscribed, self._begun = set(), anyio.Event()

    async def begun(self) -> None:
        """Wait until a connection of the modern era notifies of changes of lists, or it is known that it does not."""
        with anyio.move_on_after(ACKNOWLEDGED_SECONDS):
            await self._begun.wait()

    def acknowledge(self, params: Mapping[str, Any]) -> None:
        """Take note of what a subscription of the modern era is for."""
        given = table(params.get("notifications")) or {}
        self._subscribed = {*_texts(given.get("resourceSubscriptions"))}
        self._subscribed |= {f"{TASK}{task}" for task in _texts(given.get("taskIds"))}
        self._acknowledged.set()
        self._acknowledged = anyio.Event()
        self._begun.set()

    async def follow(self, wire: Wire) -> None:
        """Have a new connection notify of updates of all that is watched, and in the modern era of changes of lists."""
        if wire.facts.modern:
            await self._listen(wire)
        for uri in list(self._watchers):
            try:
                await self.subscribe(wire, {"uri": uri})
            except (ProtocolError, ConnectionLost) as error:
                log.warning("updates of a resource are no longer notified: %s", error)

    async def _listen(self, wire: Wire) -> None:
        while True:
            self._changed = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._listen_to, wire, list(self._watchers))
                await self._changed.wait()
                tasks.cancel_scope.cancel()

    async def _listen_to(self, wire: Wire, watched: list[str]) -> None:
        uris = [one for one in watched if not one.startswith(TASK)]
        tasks = [one.removeprefix(TASK) for one in watched if one.startswith(TASK)]
        wanted: dict[str, Any] = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
        if wire.groups == GROUPS_EXTENSION:
            wanted[GROUPS_FILTER] = True
        if uris:
            wanted["resourceSubscriptions"] = uris
        if tasks:
            wanted["taskIds"] = tasks
        able = declaring(wire.capabilities, TASKS_EXTENSION) if tasks else None
        try:
            await wire.request("subscriptions/listen", {"notifications": wanted}, capabilities=able)
        except (ProtocolError, ConnectionLost) as error:
            log.debug("a server takes no subscriptions: %s", error)
        self._begun.set()


def check_uri(uri: str) -> None:
    """Raise `ToolError` for a URI that is longer than one may be."""
    if len(uri) > MAX_URI:
        raise ToolError(f"The URI {quoted(uri)!r} has {len(uri):,} characters; one may have {MAX_URI:,}.")


def _texts(given: Any) -> Iterator[str]:
    return map(str, cast("list[Any]", given)) if isinstance(given, list | tuple) else iter(())


def _is_within(uri: str, watched: str) -> bool:
    return uri == watched or uri.startswith(f"{watched.rstrip('/')}/")
