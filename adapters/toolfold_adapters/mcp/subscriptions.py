"""Subscriptions to changes of lists, in the modern era: `subscriptions/listen` (SPEC NTF-3, DEL-5, DEL-6).

With `delivery="principal"`, the changes of a caller's session are sent to that caller's subscriptions only.

A client asks for each kind of notification. The keys of extensions are among those of the protocol, as those of tasks
are: `groupsListChanged` is for the groups at root, of which a client is notified where they are not what they were, and
`taskIds` for the states of tasks.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn
from weakref import WeakValueDictionary

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from attrs import field
from mcp.server.subscriptions import (
    SUBSCRIPTION_ID_META_KEY,
    InMemorySubscriptionBus,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.subscriptions import event_matches, event_to_notification

from toolfold import Limit, Profile, Session
from toolfold.spi import MAX_URI, Caller, Full, array, background, frozen, table

from ..names import GROUPS_CHANGED, GROUPS_FILTER
from ..tally import Tally
from .address.legacy import MAX_WAITING, notification, queue
from .principal import principal_of

EVENTS: dict[str, Any] = {
    "tool": ToolsListChanged,
    "prompt": PromptsListChanged,
    "resource": ResourcesListChanged,
    "resource_template": ResourcesListChanged,
}
"""The event that is published to the subscriptions of modern clients when a kind of list changes."""

RESOURCES = Limit(16_000, 1_000)
"""How many resources and tasks may be subscribed to, in all and by one caller (SPEC SAF-4)."""
CHARACTERS = Limit(4 * 1024 * 1024, 256 * 1024)
"""How many characters their URIs, and in the modern era whole requests to subscribe, may have (SPEC STO-7)."""

TASKS_FILTER = "taskIds"
TASK_CHANGED = "notifications/tasks"


@frozen
class TaskState:
    """How a task is; a later one says as much as both."""

    task: str
    state: Mapping[str, Any] = field(eq=False)


Event = ServerEvent | str | TaskState
Concerns = Callable[[Profile | None], bool] | None

Watch = Callable[..., Coroutine[Any, Any, None]]
"""Called with the request of a subscription, its URIs, what to call with each update, and a `task_status` that
is started with those of them that are watched."""


class Room:
    """The room for what callers subscribe to, over whatever sessions and streams: it is kept until these end."""

    def __init__(self) -> None:
        self.resources = Tally("resources subscribed to", RESOURCES)
        self.characters = Tally("characters of subscriptions", CHARACTERS)

    def take(self, caller: Caller, resources: int, characters: int) -> None:
        """Count more for a caller, or raise `Full`."""
        self.resources.take(caller, number=resources)
        try:
            self.characters.take(caller, number=characters)
        except Full:
            self.resources.give_back(caller, resources)
            raise

    def give_back(self, caller: Caller, resources: int, characters: int) -> None:
        """Count less for a caller."""
        self.resources.give_back(caller, resources)
        self.characters.give_back(caller, characters)

    @contextmanager
    def held(self, caller: Caller, ctx: Any, asked: types.SubscriptionFilter) -> Generator[None]:
        """Have room for a subscription while it lasts: all of its request is kept so long; or raise `Full`."""
        resources = len(wanted_uris(asked)) + len(wanted_tasks(asked))
        characters = len(json.dumps(ctx.params, ensure_ascii=False))
        self.take(caller, resources, characters)
        try:
            yield
        finally:
            self.give_back(caller, resources, characters)


class Subscriptions:
    """The subscriptions to a server's lists (`subscriptions/listen`): one bus for each caller, or one for all.

    Args:
        by_caller: Whether callers are notified only of their own changes and of announcements.

    `running` has the task group of each running instance of the server, which sends announcements. `watch`, if there is
    one, is run while a subscription to resources lasts; without one there are no updates, and no URI is acknowledged.
    `watch_tasks` is the same for tasks.
    `before_listening` is awaited with the context of each subscription, and refuses those of nobody.
    """

    def __init__(self, *, by_caller: bool) -> None:
        self.running: list[TaskGroup] = []
        self.watch: Watch | None = None
        self.watch_tasks: Watch | None = None
        self.before_listening: Callable[[Any], Awaitable[Any]] | None = None
        self._by_caller = by_caller
        self._pending: deque[tuple[str | None, Any, Concerns]] = deque()
        self._concerns: Concerns = None
        self._publishing = False
        self._buses: dict[str, InMemorySubscriptionBus] = {}
        self._subscribers: dict[str, int] = {}
        self._followed: WeakValueDictionary[str, Session] = WeakValueDictionary()

    async def listen(
        self, ctx: Any, params: Any, groups: Callable[[], Any] | None = None, profile: Profile | None = None
    ) -> Any:
        """Serve one subscription until its client disconnects; `groups` returns those at root, if it is offered any.

        What is announced is for it if it concerns its profile (SPEC ISO-2).
        """
        caller = principal_of(ctx).key if self._by_caller else ""
        if self.before_listening is not None:
            await self.before_listening(ctx)  # in a store, the session may be known to other processes only
        bus = self._buses.setdefault(caller, InMemorySubscriptionBus())
        subscription = Subscription(ctx, params.notifications, groups)
        self._subscribers[caller] = self._subscribers.get(caller, 0) + 1
        try:
            async with background() as tasks:

                def deliver(event: ServerEvent) -> None:  # what is published until it is acknowledged comes after that
                    if self._concerns is None or self._concerns(profile):
                        subscription.deliver(event)

                end = bus.subscribe(deliver)
                try:
                    if self.watch is not None and (uris := wanted_uris(params.notifications)):
                        subscription.honor(uris)
                        subscription.honor(await tasks.start(self.watch, ctx, uris, subscription.updated))
                    if self.watch_tasks is not None and (ids := wanted_tasks(params.notifications)):
                        watched = await tasks.start(self.watch_tasks, ctx, ids, subscription.task_changed)
                        subscription.honor_tasks(watched)
                    return await subscription.serve()
                finally:
                    end()
        finally:
            self._subscribers[caller] -= 1
            if not self._subscribers[caller]:
                del self._subscribers[caller], self._buses[caller]

    def follow(self, caller: str, session: Session) -> None:
        """Record that a caller's session notifies of all changes itself, announcements included."""
        self._followed[caller] = session

    def announce(self, kinds: frozenset[str], caller: str | None = None, concerns: Concerns = None) -> None:
        """Notify a caller's subscribers soon that lists changed, or all callers whose session does not do so itself.

        `concerns` returns whether that is for subscriptions of a profile; it is for all, unless it is given.
        """
        if not self.running:
            return
        events = sorted({EVENTS[kind] for kind in kinds}, key=lambda event: str(event.__name__))
        queue(self._pending, [(caller, event, concerns) for event in events], MAX_WAITING)
        if not self._publishing:
            self._publishing = True
            self.running[0].start_soon(self._publish_pending)

    async def _publish_pending(self) -> None:
        try:
            while self._pending:
                caller, event, self._concerns = self._pending.popleft()
                callers = [one for one in self._buses if not self._is_followed(one)] if caller is None else [caller]
                for one in callers:
                    if one in self._buses:
                        await self._buses[one].publish(event())
        finally:
            self._publishing = False

    def _is_followed(self, caller: str) -> bool:
        session = self._followed.get(caller)
        return session is not None and session.is_open


def wanted_uris(asked: types.SubscriptionFilter) -> list[str]:
    """Return the resources that a subscription may be for: those whose URIs are no longer than one may be."""
    return [uri for uri in dict.fromkeys(asked.resource_subscriptions or ()) if len(uri) <= MAX_URI]


def wanted_tasks(asked: types.SubscriptionFilter) -> list[str]:
    """Return the ids of the tasks that a subscription may be for."""
    given = array((asked.model_extra or {}).get(TASKS_FILTER)) or ()
    return [*dict.fromkeys(one for one in given if isinstance(one, str) and len(one) <= MAX_URI)]


class Subscription:
    """One subscription, which is acknowledged and then sent what it asked for.

    Args:
        ctx: The context of its request.
        asked: What the client asks for.
        groups: Returns the groups at root, or `None` for a client that is not offered any.
    """

    def __init__(self, ctx: Any, asked: types.SubscriptionFilter, groups: Callable[[], Any] | None) -> None:
        self._ctx = ctx
        self._groups = groups if (asked.model_extra or {}).get(GROUPS_FILTER) is True else None
        self._shown = None if self._groups is None else self._groups()
        self._honored = types.SubscriptionFilter(
            tools_list_changed=asked.tools_list_changed or None,
            prompts_list_changed=asked.prompts_list_changed or None,
            resources_list_changed=asked.resources_list_changed or None,
            resource_subscriptions=None,
            **({} if self._groups is None else {GROUPS_FILTER: True}),
        )
        self._uris = frozenset[str]()
        self._meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        self._waiting: dict[Event, None] = {}
        self._arrived = anyio.Event()

    def honor(self, uris: Iterable[str]) -> None:
        """Have the client sent updates of these resources, and of no others."""
        self._honored.resource_subscriptions = [*uris] or None
        self._uris = frozenset(self._honored.resource_subscriptions or ())

    def honor_tasks(self, ids: Iterable[str]) -> None:
        """Have the acknowledgement say which tasks it is for."""
        if tasks := [*ids]:
            self._honored = self._honored.model_copy(update={TASKS_FILTER: tasks})

    def task_changed(self, task: str, state: Mapping[str, Any]) -> None:
        """Have the client sent how a task is, of which it has the id."""
        due = TaskState(task, {**state, "taskId": task})
        self._waiting.pop(due, None)
        self._waiting[due] = None
        self._arrived.set()

    def deliver(self, event: ServerEvent) -> None:
        """Have the client sent an event, if it asked for it; one that waits already says as much as two."""
        due: list[Event] = [event] if event_matches(self._honored, self._uris, event) else []
        if self._groups is not None and not isinstance(event, ResourceUpdated):
            before, self._shown = self._shown, self._groups()
            due += [GROUPS_CHANGED] if self._shown != before else []
        for one in due:
            self._waiting[one] = None
            self._arrived.set()

    def updated(self, uri: str) -> None:
        """Have the client sent that a resource was updated, if it asked for that."""
        self.deliver(ResourceUpdated(uri))

    async def serve(self) -> NoReturn:
        """Acknowledge it and send what is delivered, until the client ends it."""
        params = types.SubscriptionsAcknowledgedNotificationParams(notifications=self._honored, _meta=self._meta)
        await self._notify(types.SubscriptionsAcknowledgedNotification(params=params))
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            while self._waiting:
                event = next(iter(self._waiting))
                del self._waiting[event]
                await self._notify(self._notification(event))

    def _notification(self, event: Event) -> Any:
        if isinstance(event, str):
            return notification(event, types.NotificationParams(_meta=self._meta))
        if isinstance(event, TaskState):
            meta = {**(table(event.state.get("_meta")) or {}), **self._meta}
            return types.Notification[dict[str, Any], str](method=TASK_CHANGED, params={**event.state, "_meta": meta})
        return event_to_notification(event, self._meta)

    async def _notify(self, notification: Any) -> None:
        await self._ctx.session.send_notification(notification, related_request_id=self._ctx.request_id)
