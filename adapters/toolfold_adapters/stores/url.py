"""A store by its URL, as in `toolfold serve --store` and `TOOLFOLD_STORE`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from toolfold import ConfigError, Store

from .memory import MemoryStore
from .sqlite import SQLiteStore


def open_store(url: str) -> Store:
    """Return the store of a URL: `memory:`, `sqlite:///state.db` (`sqlite:////var/…` for an absolute path), `redis://…`.

    Raises:
        ConfigError: It is not the URL of a store.
        MissingExtra: The package of its engine is not installed.
    """
    scheme, _, rest = url.partition(":")
    if scheme == "memory":
        return MemoryStore()
    if (file := file_of(url)) is not None:
        return SQLiteStore(file)
    if scheme in ("redis", "rediss", "unix") and rest.startswith("//"):
        from .redis import RedisStore

        return RedisStore(url)
    shown = f"{scheme}:{'//' * rest.startswith('//')}…" if rest else repr(url)  # it may have a password
    raise ConfigError(
        f"{shown} is no store; use sqlite:///state.db, redis://localhost:6379/0, rediss://…, unix://… or memory:."
    )


def file_of(url: str) -> Path | None:
    """Return the file of a store, if it is the URL of one that is in a file."""
    path = unquote(urlsplit(url).path)[1:] if url.startswith("sqlite:///") else ""
    return Path(path) if path else None


def is_store(text: str) -> bool:
    """Return whether a text is meant as the URL of a store, and not as the name of a file."""
    return "://" in text or text == "memory:"
