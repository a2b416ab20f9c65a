"""What commands share that use the credentials of a gateway's callers, or of the user (SPEC GWY-19)."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from toolfold import Store

if TYPE_CHECKING:
    from toolfold_adapters.gateway.callers.credentials import Credentials


@asynccontextmanager
async def open_credentials(store: Store | None) -> AsyncGenerator[Credentials]:
    """Yield the credentials of callers: in the store of the sessions, or else in a file of this machine.

    Args:
        store: The store of the sessions, if they have one; it is not closed.
    """
    from toolfold_adapters.gateway.callers.credentials import Credentials
    from toolfold_adapters.gateway.callers.keys import keys_of
    from toolfold_adapters.gateway.stored import stored_folder
    from toolfold_adapters.stores import MemoryStore, SQLiteStore

    folder = stored_folder("tokens")
    if store is not None:
        here = isinstance(store, SQLiteStore | MemoryStore)
        yield Credentials(store, partial(keys_of, os.environ, folder if here else None))
        return
    path = folder / "credentials.db"
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with SQLiteStore(path) as own:
        yield Credentials(own, partial(keys_of, os.environ, folder))
