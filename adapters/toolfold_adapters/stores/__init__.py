"""Engines that hold sessions beyond one process (SPEC STO-1): memory, SQLite on one machine, Redis on many.

`build_server(tools, store=SQLiteStore("state.db"))`, or `open_store` with a URL, as `toolfold serve --store` does.
"""

from typing import TYPE_CHECKING, Any

from .memory import MemoryStore
from .sqlite import SQLiteStore
from .url import open_store

if TYPE_CHECKING:
    from .redis import RedisStore

__all__ = ["MemoryStore", "RedisStore", "SQLiteStore", "open_store"]


def __getattr__(name: str) -> Any:
    if name != "RedisStore":  # which needs an extra
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .redis import RedisStore

    return RedisStore
