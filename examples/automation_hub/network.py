"""The group `network`: its hooks start and stop a local HTTP server, which serves the files as pages.

All clients see the same pages, so they share one server: the first to open the group starts it, the last to close it
stops it.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import anyio
from anyio import to_thread

from toolfold import HookContext, Session, ToolError, group, tool

from .workspace import Workspace

HOST = "127.0.0.1"
POLL, PATIENCE = 0.05, 5
"""Seconds: how often a server checks whether to stop, and how long a page may take."""


@group(
    description="Look at the files as web pages",
    on_activate="start",
    on_deactivate="stop",
    run_in_thread=False,  # two clients that open the group at once must not start two servers
)
class Network:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._users: set[Session] = set()
        self._site: Site | None = None

    def start(self, context: HookContext) -> None:
        if self._site is None:
            self._site = Site(self._workspace)
        self._users.add(context.session)

    async def stop(self, context: HookContext) -> None:
        self._users.discard(context.session)
        if self._users or self._site is None:
            return
        site, self._site = self._site, None
        with anyio.CancelScope(shield=True):  # the server must not be left half stopped
            await to_thread.run_sync(site.close)

    @tool(annotations={"readOnlyHint": True})
    def address(self) -> str:
        """Return the URL under which the files of the workspace are served."""
        return self._open_site().url

    @tool(annotations={"readOnlyHint": True})
    async def fetch_url(self, url: str) -> str:
        """Fetch a page from the workspace's own server; other addresses are refused."""
        site = self._open_site()
        return await to_thread.run_sync(site.fetch, url)

    def _open_site(self) -> Site:
        if self._site is None:  # the group was closed during the call
            raise ToolError("The server has been stopped; open the group again.")
        return self._site


class Site:
    """A running server on a free port, and how to fetch from it."""

    def __init__(self, workspace: Workspace) -> None:
        self._server = ThreadingHTTPServer((HOST, 0), partial(Page, workspace))
        self._thread = Thread(target=self._server.serve_forever, args=(POLL,), daemon=True)
        self._thread.start()
        self.url = f"http://{HOST}:{self._server.server_port}/"

    def fetch(self, url: str) -> str:
        """Return the page at `url`, or raise `ToolError` with the reason for the failure."""
        if not url.startswith(self.url):
            raise ToolError(f"Only addresses that begin with {self.url} can be fetched.")
        connection = HTTPConnection(HOST, self._server.server_port, timeout=PATIENCE)
        try:
            connection.request("GET", "/" + quote(url.removeprefix(self.url), safe="/?&=%"))
            response = connection.getresponse()
            body = response.read().decode()
        except (OSError, HTTPException, UnicodeError) as error:
            raise ToolError(f"{url} can't be fetched: {error}.") from error
        finally:
            connection.close()
        if response.status != HTTPStatus.OK:
            raise ToolError(f"{url} answers {response.status} {response.reason}.")
        return body

    def close(self) -> None:
        """Stop the server; return when it has stopped."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Page(BaseHTTPRequestHandler):
    """Answers a request with a file of the workspace."""

    def __init__(self, workspace: Workspace, *connection: Any) -> None:
        self._workspace = workspace
        super().__init__(*connection)

    def do_GET(self) -> None:
        status, text = self._answer()
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("X-Content-Type-Options", "nosniff")  # no site may load it as a script
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _answer(self) -> tuple[HTTPStatus, str]:
        host, port = self.connection.getsockname()
        if self.headers["Host"] != f"{host}:{port}":  # DNS rebinding: another site's name resolves to this server
            return HTTPStatus.FORBIDDEN, ""
        try:
            return HTTPStatus.OK, self._workspace.read(unquote(urlsplit(self.path).path).removeprefix("/"))
        except ToolError:
            return HTTPStatus.NOT_FOUND, ""

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the standard error of a server over stdio is its client's."""
