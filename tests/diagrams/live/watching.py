"""A browser's part in the tests of the live page, without a browser: requests to the application, and its stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from attrs import define, field, frozen

from toolfold import ToolSet
from toolfold_diagrams import live
from toolfold_diagrams.live.app import Live

HOST = "127.0.0.1:8000"
OWN = {"origin": f"http://{HOST}", "content-type": "application/json"}
PATIENCE = 60


@frozen
class Response:
    """What a request was answered with."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()


def quick(tools: ToolSet, **options: Any) -> Live:
    """Return the application, looking for changes without a pause."""
    return live(tools, interval=0, **options)


def scope_of(
    path: str, method: str = "GET", client: str | None = "127.0.0.1", more: dict[str, Any] | None = None, **headers: Any
) -> dict[str, Any]:
    """Return the scope of a request from a client; a header's name has `_` for `-`."""
    given = {"host": HOST, **{name.replace("_", "-"): value for name, value in headers.items()}}
    return {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": None if client is None else (client, 50_000),
        **(more or {}),
    }


async def get(app: Any, path: str, **request: Any) -> Response:
    """Return the response to a request without a body."""
    return await _answer(app, scope_of(path, **request), b"")


async def post(app: Any, path: str, data: Any, **headers: Any) -> Response:
    """Return the response to a request with a body, which the page itself sends unless headers say otherwise."""
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return await _answer(app, scope_of(path, "POST", **{**OWN, **given}), body)


async def _answer(app: Any, scope: dict[str, Any], body: bytes) -> Response:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Response(sent[0]["status"], headers, b"".join(message.get("body", b"") for message in sent[1:]))


@define
class Watcher:
    """What a page that watches knows: the rows of the sessions, the problems, and how many events it was sent.

    Attributes:
        gate: Set while its connection takes more.
    """

    rows: dict[int, dict[str, Any]] = field(factory=dict[int, dict[str, Any]])
    problems: list[dict[str, Any]] = field(factory=list[dict[str, Any]])
    head: dict[str, Any] = field(factory=dict[str, Any])
    lists: dict[str, int] = field(factory=lambda: {"lists": 0})
    events: int = 0
    status: int = 0
    ended: bool = False
    gate: anyio.Event = field(factory=anyio.Event)
    _news: anyio.Event = field(factory=anyio.Event)

    async def send(self, message: dict[str, Any]) -> None:
        """Take what the application sends, once the connection takes more."""
        await self.gate.wait()
        self.status = message.get("status", self.status)
        for block in message.get("body", b"").decode().split("\n\n"):
            if block.startswith("event: "):
                self._take(block)
        self.ended = message["type"] == "http.response.body" and not message.get("more_body", False)
        self._news.set()
        self._news = anyio.Event()

    def _take(self, block: str) -> None:
        name, _, data = block.removeprefix("event: ").partition("\ndata: ")
        news = json.loads(data)
        self.events += 1
        if name == "head":
            self.head, self.rows, self.problems = news, {}, []
        else:
            self.rows = {key: row for key, row in self.rows.items() if key in news["keys"]}
            self.rows.update({row["key"]: row for row in news["rows"]})
            self.problems += news["problems"]
            self.lists = news["lists"]

    async def until(self, holds: Callable[[], Any]) -> Any:
        """Return what `holds()` is, once that is true of what the page knows."""
        with anyio.fail_after(PATIENCE):
            while not (found := holds()):
                await self._news.wait()
        return found

    def row(self, name: str) -> dict[str, Any] | None:
        """Return the row of a session."""
        return next((row for row in self.rows.values() if row["name"] == name), None)

    def shows(self, name: str, *active: str) -> bool:
        """Return whether a session is shown with exactly these active groups."""
        row = self.row(name)
        return row is not None and row["active"] == [*active]

    async def key(self, name: str) -> int:
        """Return the key of a session once it is known."""
        await self.until(lambda: self.row(name))
        row = self.row(name)
        assert row is not None
        return int(row["key"])


@asynccontextmanager
async def watching(app: Any, **request: Any) -> AsyncGenerator[Watcher]:
    """Watch for the duration of the block."""
    watcher, gone = Watcher(), anyio.Event()
    watcher.gate.set()

    async def receive() -> dict[str, Any]:
        await gone.wait()
        return {"type": "http.disconnect"}

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app, scope_of("/events", **request), receive, watcher.send)
        await watcher.until(lambda: watcher.events > 1 or watcher.ended)
        yield watcher
        gone.set()


async def steps(app: Any, key: int) -> list[dict[str, Any]]:
    """Return the steps of a session."""
    found: list[dict[str, Any]] = (await get(app, f"/sessions/{key}")).json["steps"]
    return found


def shown(step: dict[str, Any]) -> tuple[str, str, list[str]]:
    """Return a step in short."""
    return step["title"], step["outcome"], step["reasons"]
