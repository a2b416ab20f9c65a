"""The server that the conformance suite is run against: `python -m tests.external.conformance.server` prints its URL.

What a tool set has no notion of is added to the low-level server, as any user would: completion, the level of logging,
the legacy subscription to a resource, and the seal on states that clients bring back.
"""

from __future__ import annotations

import socket
import warnings
from typing import Any

import mcp_types as types
import uvicorn
from mcp.server import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPDeprecationWarning

from tests.external.conformance.fixtures import make_tools
from toolfold_adapters.mcp import build_server, http_app

HOST = "127.0.0.1"


def make_server() -> Server[Any]:
    """Return the server, with all that the suite asks for."""
    tools = make_tools()
    server = build_server(tools, version="1.0", instructions="Open a group to get at its tools.")
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=tools.name))
    server.add_request_handler("completion/complete", types.CompleteRequestParams, complete)
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, nothing)
    server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, nothing)
    server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, nothing)
    return server


async def complete(_: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
    """Return the words that an argument can be completed to."""
    words = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return types.CompleteResult(completion=types.Completion(values=words, total=len(words), has_more=False))


async def nothing(_: Any, params: types.RequestParams) -> types.EmptyResult:
    """Accept what is asked for."""
    return types.EmptyResult()


def main() -> None:
    """Serve on a free port of this machine until asked to end."""
    warnings.simplefilter("ignore", MCPDeprecationWarning)  # logging and sampling, which the older protocol has
    app = http_app(make_server(), host=HOST)
    with socket.create_server((HOST, 0)) as listener:
        print(f"http://{HOST}:{listener.getsockname()[1]}/mcp", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none")).run(sockets=[listener])


if __name__ == "__main__":
    main()
