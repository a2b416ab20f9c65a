"""A configuration that is edited while a gateway serves it (SPEC GWY-9)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from attrs import frozen

from toolfold import ToolfoldError

from .config import GatewayConfig

log = logging.getLogger("toolfold.gateway")

# What concerns the gateway alone: a connection goes on when it changes.
_NOT_OF_THE_CONNECTION = frozenset({"title", "description", "include_tools", "exclude_tools"})


@frozen(kw_only=True)
class Difference:
    """What differs between two configurations as far as upstreams are concerned.

    Attributes:
        removed: Upstreams to stop: those that are gone, and those that are reached in another way now.
        added: Upstreams to start: those that are new, and those that are reached in another way now.
        restart: Settings that have an effect only after a restart.
    """

    removed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    restart: tuple[str, ...] = ()


def difference(old: GatewayConfig, new: GatewayConfig) -> Difference:
    """Return which upstreams differ between two configurations; all others keep their connections."""
    same = {
        name for name in old.upstreams.keys() & new.upstreams.keys() if _connection(old, name) == _connection(new, name)
    }
    options = (
        name for name in type(old.options).model_fields if getattr(old.options, name) != getattr(new.options, name)
    )
    answers = ("answer_tokens",) if old.budgets.answer_tokens != new.budgets.answer_tokens else ()
    return Difference(
        removed=tuple(name for name in old.upstreams if name not in same),
        added=tuple(name for name in new.upstreams if name not in same),
        restart=(*options, *answers),
    )


def _connection(config: GatewayConfig, name: str) -> object:
    return config.upstreams[name].model_dump(exclude=set(_NOT_OF_THE_CONNECTION))


async def follow(
    read: Callable[[], GatewayConfig],
    apply: Callable[[GatewayConfig], Awaitable[None]],
    changes: AsyncIterator[object],
) -> None:
    """Read a configuration again after each change of its file, and apply it if it is right.

    One that is wrong is logged and changes nothing; what was served goes on.

    Args:
        read: Returns the configuration, or raises `ConfigError`.
        apply: Applies it, or raises `ToolfoldError` and changes nothing.
        changes: Yields something after each change.
    """
    async for _ in changes:
        try:
            await apply(read())
        except ToolfoldError as error:
            log.error("the configuration was changed and is wrong, so the one before it stays: %s", error)
        else:
            log.info("the configuration was changed, and is served now")


async def changes_of(file: Path) -> AsyncIterator[object]:
    """Yield after each change of a file, in place or by replacing it; it never ends. The path must be resolved."""
    from watchfiles import awatch

    # Editors replace files, so the folder is what can be watched.
    async for changes in awatch(file.parent, watch_filter=lambda _, name: Path(name) == file, recursive=False):
        yield changes
