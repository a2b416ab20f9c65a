"""A configuration that is edited while a gateway serves it (SPEC GWY-9)."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
from attrs import frozen

from toolfold import ToolfoldError

from .settings import GatewayConfig

log = logging.getLogger("toolfold.gateway")

# What concerns only the gateway: a connection goes on when it changes.
_NOT_OF_THE_CONNECTION = frozenset(
    {"title", "description", "include_tools", "exclude_tools", "max_connections", "max_connections_per_caller"}
)


@frozen(kw_only=True)
class Difference:
    """What differs between two configurations as far as upstreams are concerned.

    Attributes:
        removed: Upstreams to stop: those that are gone, and those that are reached in another way now.
        added: Upstreams to start: those that are new, and those that are reached in another way now.
    """

    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()


def difference(old: GatewayConfig, new: GatewayConfig) -> Difference:
    """Return which upstreams differ between two configurations; all others keep their connections."""
    same = {
        name for name in old.upstreams.keys() & new.upstreams.keys() if _connection(old, name) == _connection(new, name)
    }
    return Difference(
        removed=tuple(name for name in old.upstreams if name not in same),
        added=tuple(name for name in new.upstreams if name not in same),
    )


def _connection(config: GatewayConfig, name: str) -> object:
    return config.upstreams[name].model_dump(exclude=set(_NOT_OF_THE_CONNECTION))


async def follow(
    read: Callable[[], GatewayConfig],
    apply: Callable[[GatewayConfig], Awaitable[None]],
    changes: AsyncIterator[object],
) -> None:
    """Read a configuration again after each change, and apply it if it is right.

    One that is wrong is logged and changes nothing; what was served goes on.

    Args:
        read: Returns the configuration, or raises `ConfigError`.
        apply: Applies it, or raises `ToolfoldError` and changes nothing.
        changes: Yields something after each change of it, or of what was approved.
    """
    async for _ in changes:
        try:
            await apply(read())
        except ToolfoldError as error:
            log.error("the configuration was changed and is wrong, so the one before it stays: %s", error)
        else:
            log.info("the configuration and the approvals were read again")


async def changes_of(*paths: Path) -> AsyncIterator[object]:
    """Yield after each change of files, in place or by replacing them, or in folders; it never ends.

    The paths must be resolved, and the folders exist.
    """
    from watchfiles import watch

    # Editors replace files, so folders are what can be watched.
    folders = {path if path.is_dir() else path.parent for path in paths}

    def concerns(_: object, name: str) -> bool:
        return any(path in (Path(name), Path(name).parent) for path in paths)

    stop = threading.Event()  # `awatch` would take seconds to be cancelled
    changes = watch(*folders, watch_filter=concerns, stop_event=stop, recursive=False)
    try:
        while (change := await anyio.to_thread.run_sync(next, changes, None, abandon_on_cancel=True)) is not None:
            yield change
    finally:
        stop.set()
