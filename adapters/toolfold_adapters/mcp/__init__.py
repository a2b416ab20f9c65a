"""Delivery over MCP, on the low-level server of the `mcp` package.

server.py    `build_server`: a server for both eras     serve.py     `serve`: stdio and HTTP; `run`, a program
options.py   the options of a server                    request.py   who asks, and what a request selects
handlers.py  each request to its delivery               subscriptions.py  notifications of modern clients
address/     how a request names its session            answer/      how requests are answered
extensions/  extensions for groups and skills           http/        the application, its guards, its operation
existing/    groups for a server that exists already    client.py    a client that follows the groups it opens
sdk.py       what is used of the SDK's private parts    principal.py  who asks, as one value
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolfold import Limit
from toolfold.spi import extras_named

if TYPE_CHECKING:
    from .client import FollowingClient
    from .existing.grouped import group_server

with extras_named():
    from .existing.grouping import in_group
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


def __getattr__(name: str) -> Any:
    """Return what a server of a tool set does without; the SDK's client brings the SDK's other server along."""
    modules = {"FollowingClient": ".client", "group_server": ".existing.grouped"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extras_named():
        return getattr(import_module(modules[name], __name__), name)
