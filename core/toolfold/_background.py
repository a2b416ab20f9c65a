"""Tasks beside the code that started them, for as long as that runs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from anyio.abc import TaskGroup


@asynccontextmanager
async def background() -> AsyncGenerator[TaskGroup]:
    """Yield a task group for work that outlives a request; it is cancelled at the end."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # to be raised unchanged, not in the exception group of this task group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
