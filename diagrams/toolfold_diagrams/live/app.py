"""`live`: an ASGI application that shows the operator what happens in a tool set, and by choice lets it be changed.

GET  /                                     the page, with /live.css and /live.js
GET  /events                               a stream of server-sent events: what changed since the last one
GET  /sessions/KEY                         a session with its last steps
GET  /sessions/KEY/STEP/structure.svg      its groups after a step; STEP may be 0, for the state before the first
GET  /sessions/KEY/STEP/sequence.svg       what happened in a step
GET  /report                               what was used, as `toolfold_diagrams.report` has it; it counts all the time
GET  /usage                                the same as counters, for `toolfold report`
GET  /status                               how the server is doing
GET  /metrics                              the counters in Prometheus' text format
POST /sessions/KEY                         {"group": PATH, "open": true}; only where control is on

Nothing is queued for a watcher: it is sent what changed since the version that it was sent last, when its connection
takes more. So a slow one gets fewer events and the same state, and holds up nobody.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from functools import cache, partial
from importlib.resources import files
from ipaddress import ip_address
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from attrs import frozen

from toolfold import MissingExtra, ToolfoldError, ToolSet, Usage

from ..page import page_part, palette_css
from ..text import printable, xml
from ..usage_report import report
from . import views
from .metrics import exposition
from .recording import RecordedRequest, Recording, SessionRecord

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Status = Sequence[Mapping[str, Any]]
"""How each part of a server is doing: `what` it is, its `name`, its `state` in a word, and a `text` of one line."""

INTERVAL = 0.1
"""Seconds between two looks at what changed."""
HEARTBEAT = 150
"""After how many of them without a change a watcher is sent a comment, so that its connection stays open."""
WATCHERS = 20
"""How many may watch at a time."""
MAX_BODY = 4_096
EVENTS = "/events"
ENDING = "toolfold.ending"
"""The extension by which `toolfold_adapters.mcp.serve` says that the server is ending."""

PARTS = files("toolfold_diagrams") / "live" / "parts"
TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "text": "text/plain; version=0.0.4; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
}
HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def live(
    tools: ToolSet,
    *,
    control: bool = False,
    allow: Callable[[Scope], bool] | None = None,
    interval: float = INTERVAL,
    status: Callable[[], Awaitable[Status]] | None = None,
) -> Live:
    """Return an ASGI application that shows the sessions of a tool set as they change, to be run or mounted.

    ```
    app = Starlette(routes=[Mount("/live", live(tools)), Mount("/", http_app(tools))])
    ```

    It is for the operator, who sees every session, and so answers requests from this machine alone, and those of users
    that an application in front of it has authenticated (Starlette's `request.user`). While nobody watches, no more is
    recorded than which groups were opened and closed. It belongs in the event loop in which the sessions are used.

    Args:
        tools: The tool set to watch.
        control: Whether the operator may open and close groups, too.
        allow: Decides, given the scope of a request, whether it is the operator's; in place of the rule above.
        interval: Seconds between two looks at what changed.
        status: Returns how each part of the server is doing; by default, how many sessions are open.
    """
    recording = Recording(tools)
    allow = allow or is_operator
    return Live(recording, control=control, allow=allow, interval=interval, status=status or partial(_sessions, tools))


async def _sessions(tools: ToolSet) -> Status:
    return [{"what": "sessions", "name": tools.name, "state": "running", "text": f"{len(tools.sessions)} are open"}]


def is_operator(scope: Scope) -> bool:
    """Return whether a request comes from this machine, by a name of it and no proxy, or from an authenticated user."""
    if getattr(scope.get("user"), "is_authenticated", False):
        return True
    headers = _headers(scope)
    client, host = scope.get("client"), urlsplit(f"//{headers.get('host', '')}").hostname
    proxied = {"forwarded", "via", "x-forwarded-for", "x-real-ip"} & headers.keys()
    return not proxied and client is not None and _is_loopback(client[0]) and _is_loopback(host)


def _is_of_page(scope: Scope, path: str) -> bool:
    """Return whether a request can come from the page itself, or from a link to it.

    No window can be opened on the stream of events: other sites could hold it that way.
    """
    headers = _headers(scope)
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.lower() != headers.get("host", "").lower():
        return False
    if scope["method"] == "POST" and (
        origin is None or headers.get("content-type", "").partition(";")[0].strip() != "application/json"
    ):
        return False
    is_navigation = headers.get("sec-fetch-mode") == "navigate"
    if is_navigation and path == EVENTS:
        return False
    is_linked = is_navigation and scope["method"] == "GET" and path in ("", "/")
    return is_linked or headers.get("sec-fetch-site", "none") in ("same-origin", "none")


@frozen
class PageAnswer:
    """An answer to a request."""

    body: bytes
    kind: Literal["css", "html", "js", "json", "svg", "text"] = "json"
    status: int = 200
    headers: Mapping[str, str] = {}


class Live:
    """The application; made by `live`."""

    def __init__(
        self,
        recording: Recording,
        *,
        control: bool,
        allow: Callable[[Scope], bool],
        interval: float,
        status: Callable[[], Awaitable[Status]],
    ) -> None:
        self.recording = recording
        self.control = control
        self._allow = allow
        self._interval = interval
        self._status = status
        self._watchers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        if (refusal := self._refusal(scope, path)) is not None:
            await _send(send, refusal)
        elif path == EVENTS and scope["method"] == "GET":
            extensions: dict[str, Callable[[], bool]] = scope.get("extensions") or {}
            await self._stream(receive, send, extensions.get(ENDING, lambda: False))
        else:
            await _send(send, await self._answer(scope, path, receive))

    def _refusal(self, scope: Scope, path: str) -> PageAnswer | None:
        """Return why a request is refused: it is not the operator's, or not from the page itself."""
        if not self._allow(scope):
            return _error(
                403, "The live page is for the operator: open it on the machine that it runs on, or authenticate."
            )
        return None if _is_of_page(scope, path) else _error(403, "Only the live page itself may ask for this.")

    async def _answer(self, scope: Scope, path: str, receive: Receive) -> PageAnswer:
        match scope["method"], path.split("/")[1:]:
            case "GET" | "HEAD", []:
                return PageAnswer(b"", "html", 307, {"location": f"{scope.get('root_path', '')}/"})
            case "GET" | "HEAD", [""]:
                name = printable(self.recording.tools.name)
                return PageAnswer(_part("live.html").replace("{{name}}", xml(name)).encode(), "html")
            case "GET" | "HEAD", ["live.css"]:
                return PageAnswer("\n".join((palette_css(), page_part("page.css"), _part("live.css"))).encode(), "css")
            case "GET" | "HEAD", ["live.js"]:
                return PageAnswer(_part("live.js").encode(), "js")
            case "GET", ["report"]:
                return _json(report(self._usage()).data)
            case "GET", ["usage"]:
                return _json(self._usage().dump())
            case "GET", ["metrics"]:
                try:
                    return PageAnswer(exposition(self._usage(), len(self.recording.tools.sessions)), "text")
                except MissingExtra as error:
                    return _error(501, str(error))
            case "GET", ["status"]:
                return _json(await self._status())
            case "GET", ["sessions", key]:
                return self._about(key, lambda record: _json(views.detail(record)))
            case "GET", ["sessions", key, step, picture]:
                return await self._picture(key, step, picture)
            case "POST", ["sessions", key]:
                return await self._controlled(key, receive)
            case _:
                return _error(404, "There is nothing here.")

    def _usage(self) -> Usage:
        usage = self.recording.tools.usage
        assert usage is not None, "the recording counts"
        return usage

    def _record(self, key: str) -> SessionRecord | None:
        self.recording.watch()
        return self.recording.records.get(int(key)) if key.isascii() and key.isdigit() and len(key) < 16 else None

    def _about(self, key: str, answer: Callable[[SessionRecord], PageAnswer]) -> PageAnswer:
        record = self._record(key)
        return _error(404, "There is no such session any more.") if record is None else answer(record)

    async def _picture(self, key: str, number: str, picture: str) -> PageAnswer:
        """Return a picture, drawn in a thread: that takes some milliseconds."""
        record = self._record(key)
        step = None if record is None else _step(record, number)
        draw: Callable[[], str] | None = None
        if record is not None and picture == "structure.svg" and (step is not None or number == "0"):
            before = record.steps[0].before if record.steps else record.refresh()
            draw = partial(views.structure_svg, before if step is None else step.after)
        elif step is not None and picture == "sequence.svg":
            draw = partial(views.sequence_svg, step)
        if draw is None:
            return _error(404, "There is no such step any more.")
        return PageAnswer((await anyio.to_thread.run_sync(draw)).encode(), "svg")

    # -- control ------------------------------------------------------------------------------------------------------

    async def _controlled(self, key: str, receive: Receive) -> PageAnswer:
        if not self.control:
            return _error(403, "This page only watches; serve it with control to open and close groups.")
        match _decoded(await _body(receive)):
            case {"group": str(group), "open": bool(is_open)}:
                pass
            case _:
                return _error(400, 'Give {"group": PATH, "open": true or false}.')
        record = self._record(key)
        session = None if record is None else record.session
        if session is None:
            return _error(409, "This session has ended, or is none.")
        try:
            if not views.change_by_clients(session.catalog.group(group), is_open=is_open):
                return _error(
                    409, f"Clients can't {'open' if is_open else 'close'} the group {group!r}, nor can this page."
                )
            changed = await (session.activate(group) if is_open else session.deactivate(group))
        except ToolfoldError as error:
            return _error(409, f"{type(error).__name__}: {error}")
        return _json({"changed": changed})

    # -- events -------------------------------------------------------------------------------------------------------

    async def _stream(self, receive: Receive, send: Send, is_ending: Callable[[], bool]) -> None:
        if self._watchers >= WATCHERS:
            await _send(send, _error(503, f"{WATCHERS} pages watch already; close one of them."))
            return
        self._watchers += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_disconnected, receive, tasks.cancel_scope)
                await send(_start(200, "text/event-stream; charset=utf-8", {"x-accel-buffering": "no"}))
                async with aclosing(self._events(is_ending)) as events:
                    async for event in events:
                        await send({"type": "http.response.body", "body": event, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
                tasks.cancel_scope.cancel()
        finally:
            self._watchers -= 1

    async def _events(self, is_ending: Callable[[], bool]) -> AsyncGenerator[bytes]:
        """Yield first everything, then what changed; a comment where nothing has for some time."""
        self.recording.watch()
        began = self.recording.began
        yield _event("head", views.head(self.recording, control=self.control))
        sent, quiet = -1, 0
        while not is_ending():
            self.recording.watch()
            if self.recording.began != began:  # it was ended while this stream was held up
                return
            quiet += 1
            if self.recording.version != sent:
                changes = views.changes(self.recording, sent)
                sent, quiet = changes["version"], 0
                yield _event("changes", changes)
            elif quiet >= HEARTBEAT:
                quiet = 0
                yield b": quiet\n\n"
            await anyio.sleep(self._interval)


async def _until_disconnected(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _step(record: SessionRecord, number: str) -> RecordedRequest | None:
    return next((step for step in tuple(record.steps) if str(step.number) == number), None)


async def _body(receive: Receive) -> bytes:
    """Return the body of a request, or of one that is too long its beginning."""
    body, more = b"", True
    while more and len(body) <= MAX_BODY:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body if len(body) <= MAX_BODY else b""


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _event(name: str, data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


def _json(data: Any, status: int = 200) -> PageAnswer:
    return PageAnswer(json.dumps(data, separators=(",", ":")).encode(), status=status)


def _error(status: int, message: str) -> PageAnswer:
    return _json({"error": printable(message)}, status)


def _start(status: int, kind: str, headers: Mapping[str, str]) -> dict[str, Any]:
    given = {"content-type": kind, **HEADERS, **headers}
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in given.items()]
    return {"type": "http.response.start", "status": status, "headers": encoded}


async def _send(send: Send, answer: PageAnswer) -> None:
    await send(_start(answer.status, TYPES[answer.kind], {"content-length": str(len(answer.body)), **answer.headers}))
    await send({"type": "http.response.body", "body": answer.body})


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


@cache
def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")
