"""A script whose last line is `tools.run()` serves over stdio and HTTP, and ends as asked (SPEC DEL-10)."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client, StdioServerParameters

from tests.cli.support import SECONDS, environment
from tests.preloaded import forked

SCRIPT = """
from toolfold import Profile, ToolSet

tools = ToolSet("script")
tools.register_group("files", "Files", on_deactivate=lambda: print("closed", flush=True))
tools.register_group("mail", "Mail")
tools.register_profile(Profile(name="reading", active="files", available="mail"))

@tools.tool(group="files")
def read(path: str) -> str:
    "Read a file."
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
    command, *arguments = forked(str(script))
    run = StdioServerParameters(command=command, args=arguments, env=environment(script.parent))
    with anyio.fail_after(SECONDS):
        async with Client(run) as client:
            result = await client.call_tool("files__read", {"path": "a.txt"})
            assert result.structured_content == {"result": "a.txt"}


@pytest.mark.spec("DEL-10", "SAF-5")
@pytest.mark.parametrize("script", ['"http", port=0, path="/tools"'], indirect=True)
async def test_a_script_serves_over_http_until_it_is_asked_to_end(script: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with await anyio.open_process(forked(str(script)), env=environment(script.parent)) as process:
            assert process.stderr is not None
            announced = await TextReceiveStream(process.stderr).receive()
            url = announced.split()[-1]
            assert announced.startswith("toolfold: serving http://127.0.0.1:")
            assert url.endswith("/tools")
            async with Client(url) as client:
                assert "files__open" in {tool.name for tool in (await client.list_tools()).tools}
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0


AWAITED = """
import anyio, sys
from toolfold import ToolSet
from toolfold_adapters.mcp import serve

tools = ToolSet("desk")
tools.register_group("mail", on_deactivate=lambda: print("closed"))

def announce(_):
    print("ready", file=sys.stderr, flush=True)

async def main():
    async with tools.open_session(active=["mail"]):
        await serve(tools, transport=sys.argv[1], on_ready=announce, **({"port": 0} if sys.argv[1] == "http" else {}))
    print("after it")

anyio.run(main)
"""


@pytest.mark.spec("DEL-10", "SAF-5")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_program_that_awaits_a_server_goes_on_after_a_signal_has_ended_it(tmp_path: Path, transport: str) -> None:
    (tmp_path / "main.py").write_text(AWAITED)
    with subprocess.Popen(
        forked("main.py", transport),
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert process.stdout is not None
        try:
            assert process.stderr.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS) == 0
            assert process.stdout.read() == "closed\nafter it\n"
        finally:
            process.kill()
