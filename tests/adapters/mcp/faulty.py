"""A tool set of handlers that go wrong in every way, and a server of it over stdio: `python faulty.py`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any

import anyio

from toolfold import ProtocolError, ToolError, ToolResult, ToolSet
from toolfold_adapters.mcp import serve
from toolfold_adapters.stores import MemoryStore

ODD = "caf\udce9"
SECRET = "postgres://admin:hunter2@db.internal/main"
EXPECTED = "There is no report for that month; ask for another."


class Panic(BaseException):
    """Such as a library raises that is written in another language."""


class BreakingStore(MemoryStore):
    """A store whose changes can't be followed any more once it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = anyio.Event()

    async def changes(self) -> AsyncGenerator[str | None]:
        await self.broken.wait()
        raise RuntimeError(SECRET)
        yield None


def refuse() -> None:
    raise ToolError(EXPECTED)


def leak() -> None:
    raise RuntimeError(SECRET)


def leave() -> None:
    sys.exit(SECRET)


def panic() -> None:
    raise Panic(SECRET)


def cancel() -> None:
    raise asyncio.CancelledError(SECRET)


def answer_oddly() -> str:
    return ODD


def refuse_oddly() -> None:
    raise ToolError(ODD)


def fail_oddly() -> None:
    raise ProtocolError(-32000, ODD, {ODD: ODD})


def answer_with_anything() -> Any:
    return {"contents": [object()], "messages": [object()]}


PLAIN: tuple[Callable[[], Any], ...] = (
    *(refuse, leak, leave, panic, cancel),
    *(answer_oddly, refuse_oddly, fail_oddly, answer_with_anything),
)


def on_loop(function: Callable[[], Any]) -> Callable[[], Any]:
    async def run() -> Any:
        return function()

    return run


def make_faulty() -> ToolSet:
    """Return a tool set with each handler as a tool, a prompt, a resource and a hook, plain and async, and a ping."""
    tools = ToolSet("faulty")
    tools.register("ping", lambda: "pong")
    tools.register("ready", lambda: ToolResult(({"type": "text", "text": ODD},), {ODD: [ODD]}))
    for function in PLAIN:
        for name, handler in ((function.__name__, function), (f"async_{function.__name__}", on_loop(function))):
            tools.register(name, handler)
            tools.register_prompt(name, handler)
            tools.register_resource(f"faulty:///{name}", handler)
            tools.register_group(f"group_{name}", on_activate=handler)
    return tools


if __name__ == "__main__":
    anyio.run(partial(serve, make_faulty(), separator="."))
