"""What a fresh interpreter loads: nothing before it is needed."""

import subprocess
import sys

import pytest

from tests.cli.support import environment

HELP = """
from click.testing import CliRunner
from toolfold_cli.program import program
assert CliRunner().invoke(program, {}).exit_code == 0
"""

BEFORE_DEMO = """
from toolfold_cli import demo
class Begun(BaseException): ...
def begun(*_): raise Begun
demo.run = begun
try:
    demo.demo_command.main(["--fast"])
except Begun:
    pass
"""

HEAVY = {"anyio", "attr", "httpx", "httpx2", "jsonschema_rs", "mcp", "mcp_types", "pydantic", "rich"}
"""What takes long to import."""

FEW_NEED = {"difflib", "opentelemetry.metrics", "tomllib"}
"""What a server imports for a mistake, a refusal or a file of TOML alone."""

SERVE = """
from toolfold_adapters.transport.starting import defer_sdk
defer_sdk()
from toolfold_adapters.gateway import open_gateway
from toolfold_adapters.mcp import serve
from mcp_types import CallToolResult, jsonrpc_message_adapter
assert CallToolResult.model_validate({"content": [{"type": "text", "text": "x"}]}).content[0].text == "x"
assert jsonrpc_message_adapter.validate_python({"jsonrpc": "2.0", "id": 1, "method": "ping"}).method == "ping"
import sys
loaded = {*sys.modules}
import mcp.server, mcp
assert mcp.server.MCPServer("x").name == "x" and mcp.Client and {*mcp.__all__} <= {*dir(mcp)}
from toolfold_adapters.mcp import FollowingClient
assert issubclass(FollowingClient, mcp.Client)
sys.modules = loaded
"""

RUNTIME = """
from importlib import import_module
from toolfold_cli.up import OF_SESSIONS
from toolfold_adapters.transport.starting import starting
with starting():
    for name in OF_SESSIONS:
        import_module(name)
"""

CONNECT = """
from click.testing import CliRunner
from toolfold_cli.program import program
assert "Nothing answers at " in CliRunner().invoke(program, ["connect", "http://127.0.0.1:1/mcp"]).stderr
"""


@pytest.mark.parametrize(
    ("code", "not_loaded"),
    [
        ("import toolfold", {"click", "httpx", "httpx2", "mcp", "mcp_types", "rich", "starlette", "uvicorn"}),
        ("import toolfold_specs", {"toolfold", "toolfold_specs.driver"}),
        ("from toolfold_specs import check, suite, Driver", {"hypothesis", "mcp", "rich", "click", "pydantic"}),
        (HELP.format(["--help"]), {*HEAVY, "toolfold", "toolfold_adapters", "toolfold_diagrams", "toolfold_specs"}),
        (HELP.format(["--version"]), {"mcp", "rich", "toolfold_adapters"}),
        (BEFORE_DEMO, {*HEAVY - {"rich"}, "toolfold", "toolfold_adapters", "toolfold_diagrams", "toolfold_cli.shop"}),
        (HELP.format(["serve", "--help"]), {"toolfold_diagrams", "toolfold_specs", "mcp"}),
        ("import toolfold_adapters.mcp", {*FEW_NEED, "rich", "redis", "sqlite3", "toolfold_cli", "toolfold_diagrams"}),
        (SERVE, {"httpx2", "mcp.client.client", "mcp.server.mcpserver", "toolfold_cli", "toolfold_diagrams"}),
        (RUNTIME, {"httpx2", "mcp.client.client", "mcp.server.mcpserver", "rich", "uvicorn"}),
        (CONNECT, {"mcp.client.client", "starlette.applications", "toolfold_adapters.gateway", "toolfold_diagrams"}),
        (HELP.format(["conform", "--help"]), {"toolfold_diagrams", "toolfold_specs.kit", "mcp", "hypothesis"}),
    ],
    ids=[
        "core",
        "kit",
        "names of the kit",
        "help",
        "version",
        "demo",
        "help of serve",
        "adapter",
        "serve",
        "runtime",
        "connect",
        "help of conform",
    ],
)
def test_nothing_is_loaded_before_it_is_needed(code: str, not_loaded: set[str]) -> None:
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    loaded = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True).stdout.split()
    assert not not_loaded & {*loaded}
