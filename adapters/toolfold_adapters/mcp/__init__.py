"""Delivery over MCP, on the low-level server of the `mcp` package.

    server.py    `build_server`: a server for both eras      serve.py    `serve`: stdio and streamable HTTP
    legacy.py    sessions of the era up to 2025-11-25        modern.py   requests of 2026-07-28
    limits.py    how much there may be, by caller            callers.py   whom a request is from
    http.py      guards of the endpoint                      connections.py, http_sessions.py   limits of HTTP
    notify.py    notifications of legacy connections         subscriptions.py  those of the modern era
    answers.py   answers of the library's own tools          describe.py  tools in a text, within a budget
    proxy.py     `call_tool`, which calls other tools        render.py    definitions, results and errors on the wire
    client.py    a client that carries the handle along      meta.py      what Toolfold adds to MCP

`legacy` and `modern` have the same verbs: `list`, `call`, `prompt`, `read`. Each finds the snapshot that its request is
about, and asks the core.
"""

from toolfold.spi import Limit, extras_named

with extras_named():
    from .client import FollowingClient
    from .limits import Limits
    from .serve import serve
    from .server import build_server

__all__ = ["FollowingClient", "Limit", "Limits", "build_server", "serve"]
