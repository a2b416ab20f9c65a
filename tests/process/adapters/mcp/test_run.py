"""A script whose last line is `tools.run()` serves over stdio and HTTP, and ends as asked (SPEC DEL-10)."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters

from tests.cli.support import SECONDS, environment

SCRIPT = """
from toolfold import Profile, ToolSet

tools = ToolSet("script")
tools.register_group("files", "Files", on_deactivate=lambda: print("closed", flush=True))
tools.register_group("mail", "Mail")
tools.register_profile(Profile(name="reading", active="files", available="mail"))

@tools.tool(group="files")
def read(path: str) -> str:
    print("reading", flush=True)
    return path

if __name__ == "__main__":
    tools.run(RUN)
"""


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.replace("RUN", request.param))
    return path


@pytest.mark.spec("DEL-10", "PRO-1")
@pytest.mark.parametrize("script", ['profile="reading"', 'active=["files"]'], indirect=True)
async def test_a_script_serves_over_stdio(script: Path) -> None:
    run = StdioServerParameters(command=sys.executable, args=[str(script)], env=environment(script.parent))
    with anyio.fail_after(SECONDS):
        async with Client(run) as client:
            result = await client.call_tool("files__read", {"path": "a.txt"})
            assert result.structured_content == {"result": "a.txt"}


@pytest.mark.spec("DEL-10", "SAF-5")
@pytest.mark.parametrize("script", ['"http", port=0, path="/tools"'], indirect=True)
async def test_a_script_serves_over_http_until_it_is_asked_to_end(script: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with await anyio.open_process([sys.executable, str(script)], env=environment(script.parent)) as process:
            assert process.stderr is not None
            announced = await TextReceiveStream(process.stderr).receive()
            url = announced.split()[-1]
            assert announced.startswith("toolfold: serving http://127.0.0.1:")
            assert url.endswith("/tools")
            async with Client(url) as client:
                assert "files__activate" in {tool.name for tool in (await client.list_tools()).tools}
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
