"""What is used of other packages beyond their public API, which is why `pyproject.toml` bounds their versions.

A new version of one of them is allowed once this test passes with it.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from pathlib import Path
from types import ModuleType

import mcp.server
import pytest
from h11 import Connection as H11Connection
from mcp import ClientSession
from mcp.os.win32 import utilities as windows
from mcp.server import MCPServer, Server, _otel, runner
from mcp.server.connection import Connection
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Router
from uvicorn import Server as UvicornServer
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolfold_adapters.mcp import sdk
from toolfold_adapters.transport import processes

ROOT = Path(__file__).parents[3]
INTERNALS: dict[type | ModuleType, list[str]] = {
    windows: ["_create_job_object", "_maybe_assign_process_to_job"],
    ClientSession: ["_absorb_tool_listing"],
    MCPServer: ["_lowlevel_server"],
    Server: ["_session_manager"],
    ServerSession: ["_connection"],
    mcp.server: ["_otel"],
    _otel: ["OpenTelemetryMiddleware"],
    runner: ["_serve_legacy_stream", "_serve_modern_stream"],
    Connection: ["has_standalone_channel", "session_id", "state"],
    StreamableHTTPServerTransport: ["_request_streams", "idle_scope"],
    StreamableHTTPSessionManager: [
        "_discard_session",
        "_server_instances",
        "_serve_opening_request",
        "_session_owners",
        "asgi_app",
    ],
    CORSMiddleware: ["is_allowed_origin"],
    Router: ["lifespan_context"],
    UvicornServer: ["handle_exit", "on_tick", "servers", "should_exit", "startup"],
    H11Protocol: ["conn", "cycle", "on_response_complete", "send_400_response", "transport"],
    H11Connection: ["our_state", "their_state", "trailing_data"],
}


@pytest.mark.parametrize("kind", INTERNALS, ids=lambda kind: f"{getattr(kind, '__module__', '')}.{kind.__name__}")
def test_an_internal_that_is_used_is_there(kind: type | ModuleType) -> None:
    source = inspect.getsource(kind)
    assert [name for name in INTERNALS[kind] if not hasattr(kind, name) and f"self.{name}" not in source] == []


def test_the_package_of_each_internal_has_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounded = {one.partition(">")[0] for one in project["optional-dependencies"]["mcp"] if "<" in one}
    assert bounded == {kind.__module__.partition(".")[0] for kind in INTERNALS if isinstance(kind, type)}


def test_every_private_name_that_is_used_of_the_sdk_is_listed() -> None:
    listed = {name for names in INTERNALS.values() for name in names}
    used = inspect.getsource(sdk) + inspect.getsource(processes)
    assert set(re.findall(r"\._\w+", used)) <= {f".{name}" for name in listed}
