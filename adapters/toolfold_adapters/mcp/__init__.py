"""Delivery over MCP, on the low-level server of the `mcp` package.

    server.py    `build_server`: a server for both eras      serve.py    `serve`: stdio and streamable HTTP
    sessions.py  delivery from sessions: those of a          modern.py   delivery under handles, for the era
                 connection (legacy.py) or of a caller                   from 2026-07-28 (handles.py)
                 (principal.py)                              disclosure.py  delivery to clients that fetch groups
    options.py   the options of `build_server`               deliveries.py  the parts that all servers share
    handlers.py  the delivery of each request                callers.py  the caller of a request
    limits.py    limits in all and per caller                selection.py  the groups that a request selects
    http.py      guards of the endpoint                      connections.py, http_sessions.py   limits of HTTP
    notify.py    notifications of legacy connections         subscriptions.py  notifications of the modern era
    answers.py   answers of the library's own tools          describe.py  descriptions of tools, within a budget
    proxy.py     `call_tool`, which calls other tools        render.py    definitions, results and errors on the wire
    existing.py  `group_server`: groups for a server         grouped.py, grouping.py, passing.py   its parts
                 that exists already
    application.py  `http_app`: to be mounted                auth.py      who may call a server
    operation.py  probes, and the end of a server        program.py   `ToolSet.run`: a program that serves
    client.py    a client that sends the newest handle       meta.py      Toolfold's additions to MCP

Deliveries have the same verbs: `list`, `call`, `prompt`, `read`. Each finds the session or snapshot of a request and
calls the core.
"""

from toolfold.spi import Limit, extras_named

with extras_named():
    from .application import http_app
    from .auth import Authentication
    from .client import FollowingClient
    from .existing import group_server
    from .grouping import in_group
    from .limits import Limits
    from .options import Extend, ServerOptions
    from .serve import serve
    from .server import build_server

__all__ = [
    "Authentication",
    "Extend",
    "FollowingClient",
    "Limit",
    "Limits",
    "ServerOptions",
    "build_server",
    "group_server",
    "http_app",
    "in_group",
    "serve",
]
