"""The upstreams that the gateways of one process share, such as those of a user's runtime (SPEC GWY-14).

Gateways share a server where it would be the same for each: it has one name, is reached in one way, and would be
started in one folder with one environment. Whether their clients share a connection to it, the upstream decides as for
those of one gateway. A gateway that withholds what was not approved shares none: that is its configuration's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from anyio.abc import TaskGroup
from attrs import define, field

from ..config.settings import Entry, UpstreamConfig
from .upstream import OnChange, Runtime, Upstream

PlaceOf = Callable[[UpstreamConfig], Hashable]


def nowhere(_: UpstreamConfig) -> None:
    """Return that a command is started in the same place whoever wants it."""


@define(eq=False)
class _Pooled:
    upstream: Upstream
    users: list[OnChange] = field(factory=list[OnChange])


class Pool:
    """The upstreams of all gateways of a process.

    Args:
        tasks: Where their connections are held.
    """

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._pooled: dict[Hashable, _Pooled] = {}

    def take(self, entry: Entry, place: Hashable, runtime: Runtime, on_change: OnChange) -> Upstream:
        """Return the upstream of an entry for one more gateway.

        Args:
            entry: The entry.
            place: In which folder and with which environment a command would be started.
            runtime: What the upstream runs on, if no other gateway has it.
            on_change: Is awaited when it has changed.
        """
        key = entry.name, entry.upstream.model_dump_json(), None if entry.upstream.url else place
        pooled = self._pooled.get(key)
        if pooled is None:
            users: list[OnChange] = []

            async def changed(upstream: Upstream) -> None:
                for user in tuple(users):
                    await user(upstream)

            upstream = Upstream(entry, runtime, self._tasks, changed, lambda: False)
            pooled = self._pooled[key] = _Pooled(upstream, users)
        pooled.users.append(on_change)
        return pooled.upstream

    def give_back(self, upstream: Upstream, on_change: OnChange) -> bool:
        """Take note that a gateway needs an upstream no more; return whether another one does."""
        key = next((key for key, pooled in self._pooled.items() if pooled.upstream is upstream), None)
        if key is None:
            return False
        users = self._pooled[key].users
        users.remove(on_change)
        if not users:
            del self._pooled[key]
        return bool(users)
