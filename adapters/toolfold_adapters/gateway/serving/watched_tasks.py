"""The states of tasks that a client of the modern era subscribes to, which their upstreams notify of (SPEC GWY-18)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskStatus
from attrs import define
from mcp.shared.exceptions import MCPError

from toolfold import Session, ToolfoldError

from ...mcp.handlers import RequestHandlers
from ...mcp.principal import Principal, principal_of
from ..upstream.link import Link
from ..upstream.notifications import TASK
from .downstream import DownstreamClient, ServerContext
from .tasks import related_to

if TYPE_CHECKING:
    from ..gateway import Gateway

SUBSCRIBED_SECONDS = 5.0
"""How long a subscription waits until all of its tasks are watched, before it is acknowledged."""

Changed = Callable[[str, Mapping[str, Any]], None]


@define(eq=False)
class WatchedTasks:
    """Watches tasks for subscriptions of one server in front of a gateway."""

    gateway: Gateway
    handlers: RequestHandlers

    async def watch(
        self,
        ctx: ServerContext,
        ids: Sequence[str],
        changed: Changed,
        *,
        task_status: TaskStatus[Iterable[str]] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Call `changed` with the id and the state of a task when its upstream notifies of it, until cancelled.

        `task_status` is started with the ids that the caller was given, and whose servers it may use.
        """
        said, links = False, dict[str, tuple[Link, str]]()
        watcher = object()
        try:
            async with self.handlers.session(ctx) as session:
                client = self.gateway.clients.of_session(session.id, ctx)
                try:
                    for given in ids:
                        if (found := self.gateway.task_of(given, client, session.profile)) is not None:
                            links[given] = found
                    with anyio.move_on_after(SUBSCRIBED_SECONDS):
                        async with anyio.create_task_group() as tasks:
                            for given, (link, task) in links.items():
                                passed = partial(self._pass, link, client, session, principal_of(ctx), given, changed)
                                tasks.start_soon(_watched, link, task, watcher, passed)
                    said = True
                    task_status.started(
                        given for given, (link, task) in links.items() if link.watched.watches(f"{TASK}{task}", watcher)
                    )
                    await anyio.sleep_forever()
                finally:
                    with anyio.move_on_after(SUBSCRIBED_SECONDS, shield=True):
                        for link, task in links.values():
                            with suppress(ToolfoldError):
                                await link.unwatch({"uri": f"{TASK}{task}"}, watcher)
                    self.gateway.clients.release(client)
        except (MCPError, ToolfoldError):  # of the handle, if it has one
            if not said:
                task_status.started(())

    def _pass(
        self,
        link: Link,
        client: DownstreamClient,
        session: Session,
        own: Principal,
        given: str,
        changed: Changed,
        state: dict[str, Any],
    ) -> None:
        async def deliver() -> None:
            task = str(state.get("taskId"))

            def may(principal: Principal) -> bool:
                profile = self.handlers.selections.profile(session, principal)
                return self.gateway.may_have_task(link, task, client, profile, principal)

            with suppress(MCPError):
                if may(client.principal) and may(own) and await link.usable(link.tasks.item(task)):
                    changed(given, related_to(state, given))

        link.pass_on(client, deliver)


async def _watched(link: Link, task: str, watcher: object, passed: Callable[[dict[str, Any]], None]) -> None:
    with suppress(ToolfoldError):
        await link.watch({"uri": f"{TASK}{task}"}, watcher, passed, link.tasks.item(task) or ("tool", ""))
