"""A server over stdio that says in each refusal how many there were, whichever of its clients they were for."""

from __future__ import annotations

from itertools import count
from typing import Any
from unittest.mock import patch

import anyio

from examples.desk import tools
from toolfold import ToolNotFound
from toolfold_adapters.mcp import serve

right, refusals = ToolNotFound.__init__, count(1)


def init(self: ToolNotFound, name: str, hint: str | None = None, kind: str = "tool") -> None:
    right(self, name, f"refusal {next(refusals)}", kind)


async def main() -> None:
    replaced: Any = patch.object(ToolNotFound, "__init__", init)
    with replaced:
        await serve(tools, many_clients=True)


anyio.run(main)
