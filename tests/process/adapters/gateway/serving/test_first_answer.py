"""The first minute of a gateway that knows nothing of its servers yet: a real process, and its messages as lines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY

from tests.adapters.gateway.support import SECONDS, command
from tests.preloaded import forked_toolfold

pytestmark = pytest.mark.spec("GWY-4")

CLIENT = {"name": "raw", "version": "1"}
META = {
    PROTOCOL_VERSION_META_KEY: "2026-07-28",
    CLIENT_INFO_META_KEY: CLIENT,
    CLIENT_CAPABILITIES_META_KEY: {},
}
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT}


class Client:
    """Sends requests as lines, and reads the lines that answer them."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._id = 0

    def send(self, method: str, params: dict[str, Any]) -> int:
        assert self.process.stdin is not None
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self.process.stdin.write(f"{json.dumps(message)}\n")
        self.process.stdin.flush()
        return self._id

    def answer(self, number: int) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message: dict[str, Any] = json.loads(line)
            if message.get("id") == number:
                return message
        raise AssertionError("it ended without an answer")

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = self.answer(self.send(method, params))
        assert "result" in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def call(self, meta: dict[str, Any], name: str, **arguments: Any) -> str:
        answer = self.ask("tools/call", {**meta, "name": name, "arguments": arguments})
        return "\n".join(block["text"] for block in answer["content"])


@contextmanager
def started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A gateway in front of three servers without a cache: one answers nothing, and one ends at once."""
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(variable, str(folder))
    deaf = [*command("raw.py", "deaf", str(folder / "pid"))]
    works = [*command("raw.py", "plain", str(folder / "works"))]
    ends = [*command("raw.py", "crash", str(folder / "ends"))]
    (folder / "gateway.toml").write_text(
        f"[upstreams.deaf]\ncommand = {json.dumps(deaf)}\nstart_timeout = 1\n"
        f"[upstreams.works]\ncommand = {json.dumps(works)}\n"
        f"[upstreams.ends]\ncommand = {json.dumps(ends)}\n"
    )
    serve = (*forked_toolfold(), "serve", str(folder / "gateway.toml"))
    pipe = subprocess.PIPE
    with subprocess.Popen(serve, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            yield Client(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_a_client_is_answered_whatever_its_servers_do_with_what_is_the_matter(
    era: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = {"_meta": META} if era == "2026-07-28" else {}
    with started(tmp_path, monkeypatch) as client:
        if meta:
            assert "2026-07-28" in client.ask("server/discover", meta)["supportedVersions"]
        else:
            assert client.ask("initialize", INITIALIZE)["protocolVersion"] == "2025-11-25"
        tools = {tool["name"]: tool for tool in client.ask("tools/list", meta)["tools"]}
        assert {"open_group", "close_group", "find_tools", "call_tool"} <= tools.keys()
        assert all(server in str(tools["open_group"]) for server in ("deaf", "works", "ends"))
        assert "works__one" in client.call(meta, "open_group", group="works")
        assert "Its stderr says: the license has expired" in client.call(meta, "open_group", group="ends")
        assert "deaf failed: it did not answer within 1 seconds" in client.call(meta, "open_group", group="deaf")
