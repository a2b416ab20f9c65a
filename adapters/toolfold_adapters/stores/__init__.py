"""Engines that hold sessions beyond one process (SPEC STO-1).

memory  records in the memory of one process; the reference of what a store does
sqlite  records in a file, for the processes of one machine
redis   records in Redis or Valkey, for processes on any number of machines
url     a store by its URL

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
