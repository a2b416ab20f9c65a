"""A model on loopback that says what a script says, by four APIs, and records what it was asked.

The APIs are Anthropic Messages, OpenAI Responses and Chat Completions, and Gemini. A turn of the script is given where
the conversation has had that many calls of tools before, so requests on the side, such as for titles, disturb nothing.
"""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from .apis import API, APIS, Called, stream

THINKING_SECONDS = 0.7
"""How long the model takes for a turn, in which hosts list again; real ones take longer."""


@frozen
class Call:
    """A call of a tool by the name that the server gave it; hosts put their own prefix before it."""

    name: str
    arguments: Mapping[str, Any] | Callable[[Request], Mapping[str, Any] | None] = MappingProxyType({})

    def made_for(self, request: Request) -> dict[str, Any] | None:
        """Return the arguments, which can depend on what the model has read by then; `None` if it is done."""
        found = self.arguments(request) if callable(self.arguments) else self.arguments
        return None if found is None else dict(found)


@frozen
class Request:
    """What a host asked the model."""

    api: API
    body: Mapping[str, Any]

    @property
    def text(self) -> str:
        """The whole request as the model reads it."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def prompt(self) -> str:
        """The request in the order in which models cache it: tools, then what the host says, then the conversation."""
        known = ("tools", "system", "systemInstruction", "instructions", "messages", "input", "contents")
        return re.sub(r', "cache_control": \{[^}]*\}', "", json.dumps([self.body.get(key) for key in known]))

    @property
    def names(self) -> list[str]:
        """The names of the tools that the request declares."""
        return [tool.name for tool in self.api.tools(self.body)]

    @property
    def results(self) -> list[str]:
        """What the calls of tools in the conversation returned."""
        return self.api.results(self.body)


@frozen
class ScriptedModel:
    """A model that is running.

    Attributes:
        url: Its address, without a path.
        requests: The requests that offered it tools, in order.
    """

    url: str
    requests: list[Request] = field(factory=list)


@contextmanager
def scripted_model(
    turns: Sequence[Sequence[Call]], asked: Callable[[], None] = lambda: None
) -> Iterator[ScriptedModel]:
    """Run a model that makes the calls of each turn and then says that it is done.

    Args:
        turns: The script.
        asked: Called when a request that offers tools has come.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """List the models, for hosts that ask."""
            only = {"id": "scripted", "object": "model", "type": "model", "display_name": "scripted"}
            self._send("application/json", json.dumps({"object": "list", "data": [only], "models": []}))

        do_HEAD = do_GET

        def do_POST(self) -> None:
            """Answer a turn."""
            body = json.loads(self._body() or b"{}")
            path = self.path.partition("?")[0]
            api = next((api for api in APIS if path.endswith(api.path)), None)
            if api is None:
                self._send("application/json", json.dumps({"input_tokens": 100, "totalTokens": 100}))
                return
            answer = _turn(model, api, body, turns, asked)
            if body.get("stream") or "stream" in path:
                self._send("text/event-stream", stream(api.events(body, answer)))
            else:
                self._send("application/json", json.dumps(api.whole(body, answer)))

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

        def _body(self) -> bytes:
            if "chunked" in self.headers.get("transfer-encoding", ""):
                raw = b"".join(self._chunks())
            else:
                raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            return gzip.decompress(raw) if "gzip" in self.headers.get("content-encoding", "") else raw

        def _chunks(self) -> Iterator[bytes]:
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()

        def _send(self, kind: str, text: str) -> None:
            data = text.encode()
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        model = ScriptedModel(f"http://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()


def _turn(
    model: ScriptedModel,
    api: API,
    body: Mapping[str, Any],
    turns: Sequence[Sequence[Call]],
    asked: Callable[[], None],
) -> str | list[Called]:
    """Return the calls of the turn that a request is for, or a text if there are none left."""
    request = Request(api, body)
    if not api.tools(body):
        return "ok"
    asked()
    model.requests.append(request)
    time.sleep(THINKING_SECONDS)
    made, calls = api.made(body), 0
    for turn in turns:
        if calls == made:
            asked_for = [(call.name, arguments) for call in turn if (arguments := call.made_for(request)) is not None]
            return [api.call(body, _host_name(request, name), arguments) for name, arguments in asked_for] or "done"
        calls += len(turn)
    return "done"


def _host_name(request: Request, name: str) -> str:
    """Return what the host calls a tool; for one that it does not list, with the prefix of those that it does."""
    known = request.names
    if found := next((one for one in known if one == name or one.endswith((f"_{name}", f"-{name}"))), None):
        return found
    if written := re.search(rf"mcp__\w+?__{re.escape(name)}\b", request.text):
        return written.group()
    prefixes = (one.removesuffix("call_tool") for one in known if one.endswith("call_tool"))
    return f"{next(prefixes, '')}{name}"
