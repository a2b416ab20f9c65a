"""Delivery over MCP, on the low-level server of the `mcp` package.

server.py    `build_server`: a server for both eras      serve.py     `serve`: stdio and streamable HTTP
options.py   the options of a server                     program.py   `ToolSet.run`: a program that serves
handlers.py  the delivery of each request                request.py   who asks, and what a request selects
handles.py   handles, signed and stored
delivery/    how requests are answered, in each era      http/        the application, its guards, its operation
existing/    groups for a server that exists already
subscriptions.py  notifications of modern clients
client.py    a client that follows the groups that it opens
"""

from toolfold import Limit
from toolfold.spi import extras_named

with extras_named():
    from .client import FollowingClient
    from .existing.grouping import in_group
    from .existing.server import group_server
    from .http.application import http_app
    from .http.auth import Authentication
    from .options import Extend, Limits, ServerOptions
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
