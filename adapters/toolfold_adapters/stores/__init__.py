"""Engines that hold sessions beyond one process (SPEC STO-1).

memory  records in the memory of one process; the reference of what a store does
sqlite  records in a file, for the processes of one machine
redis   records in Redis or Valkey, for processes on any number of machines
url     a store by its URL
cases   what every store does, as cases to run against one of your own: `check_store`

What each operation does is decided by `toolfold.records`; a store reads and writes what is decided on, at once.

`build_server(tools, store=SQLiteStore("state.db"))`, or `open_store` with a URL, as `toolfold serve --store` does.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .memory import MemoryStore

if TYPE_CHECKING:
    from .cases import STORE_CASES, Stores, check_store
    from .redis import RedisStore
    from .sqlite import SQLiteStore
    from .url import open_store

__all__ = ["STORE_CASES", "MemoryStore", "RedisStore", "SQLiteStore", "Stores", "check_store", "open_store"]


def __getattr__(name: str) -> Any:
    """Return what most servers do without, or what needs an extra."""
    modules = {"RedisStore": ".redis", "SQLiteStore": ".sqlite", "open_store": ".url"}
    modules |= dict.fromkeys(("STORE_CASES", "Stores", "check_store"), ".cases")
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(modules[name], __name__), name)
