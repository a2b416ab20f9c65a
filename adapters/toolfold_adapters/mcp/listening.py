"""One subscription of the modern era: what `subscriptions/listen` acknowledges and sends (SPEC NTF-3, DEL-5).

A client asks for each kind of notification. The keys of extensions are among those of the protocol, as those of tasks
are: `groupsListChanged` is for the groups at root, of which a client is notified where they are not what they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY, InMemorySubscriptionBus, ResourceUpdated, ServerEvent
from mcp.shared.subscriptions import event_matches, event_to_notification

from ..names import GROUPS_CHANGED, GROUPS_FILTER
from .notify import notification

MOST_WAITING = 1024
"""How many events may wait for a client; beyond that its subscription ends, so that it lists again."""

Event = ServerEvent | str


class Subscription:
    """One subscription, which is acknowledged and then sent what it asked for.

    Args:
        ctx: The context of its request.
        asked: What the client asks for.
        groups: Returns the groups at root, or `None` for a client that is not shown any.
    """

    def __init__(self, ctx: Any, asked: types.SubscriptionFilter, groups: Callable[[], Any] | None) -> None:
        self._ctx = ctx
        self._groups = groups if (asked.model_extra or {}).get(GROUPS_FILTER) is True else None
        self._shown = None if self._groups is None else self._groups()
        self._honored = types.SubscriptionFilter(
            tools_list_changed=asked.tools_list_changed or None,
            prompts_list_changed=asked.prompts_list_changed or None,
            resources_list_changed=asked.resources_list_changed or None,
            resource_subscriptions=asked.resource_subscriptions or None,
            **({} if self._groups is None else {GROUPS_FILTER: True}),
        )
        self._uris = frozenset(asked.resource_subscriptions or ())
        self._meta = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        self._send, self._receive = anyio.create_memory_object_stream[Event](MOST_WAITING)

    def deliver(self, event: ServerEvent) -> None:
        """Have the client sent an event, if it asked for it."""
        due: list[Event] = [event] if event_matches(self._honored, self._uris, event) else []
        if self._groups is not None and not isinstance(event, ResourceUpdated):
            before, self._shown = self._shown, self._groups()
            due += [GROUPS_CHANGED] if self._shown != before else []
        try:
            for one in due:
                self._send.send_nowait(one)
        except (anyio.WouldBlock, anyio.ClosedResourceError):
            self._send.close()

    def updated(self, uri: str) -> None:
        """Have the client sent that a resource was updated, if it asked for that."""
        self.deliver(ResourceUpdated(uri))

    async def serve(self, bus: InMemorySubscriptionBus) -> types.SubscriptionsListenResult:
        """Acknowledge it and send what the bus publishes, until the client ends it."""
        params = types.SubscriptionsAcknowledgedNotificationParams(notifications=self._honored, _meta=self._meta)
        end = bus.subscribe(self.deliver)  # what is published while it is acknowledged comes after that
        try:
            await self._notify(types.SubscriptionsAcknowledgedNotification(params=params))
            async for event in self._receive:
                await self._notify(self._notification(event))
        finally:
            end()
            self._send.close()
            self._receive.close()
        return types.SubscriptionsListenResult(_meta=self._meta)

    def _notification(self, event: Event) -> Any:
        if isinstance(event, str):
            return notification(event, types.NotificationParams(_meta=self._meta))
        return event_to_notification(event, self._meta)

    async def _notify(self, notification: Any) -> None:
        await self._ctx.session.send_notification(notification, related_request_id=self._ctx.request_id)
