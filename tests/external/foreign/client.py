"""A client of a few lines, by which a finding is confirmed: it shares no code with the kit, nor with any SDK.

It writes JSON-RPC messages to a server's standard input, one to a line, and reads what comes back.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

ANSWER = 30.0
"""Seconds that an answer, or a notice that is due, may take; a JVM that starts on a busy machine is slow."""
QUIET = 0.5
"""Seconds without a message after which no further one is expected."""
CHANGED = "notifications/tools/list_changed"
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
WHO = {"name": "by-hand", "version": "1"}


class Client:
    """A connection to a server over stdio, in one of the eras; notices that are due are awaited for some seconds."""

    def __init__(self, process: subprocess.Popen[str], era: str, notice: float = ANSWER) -> None:
        self.era = era
        self._notice = notice
        self._process = process
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._notices: list[str] = []
        self._number = 0
        threading.Thread(target=self._read, daemon=True).start()

    def open(self) -> None:
        """Shake hands, where the era does."""
        if self.era == "modern":
            return
        self.ask("initialize", protocolVersion=LEGACY, capabilities={}, clientInfo=WHO)
        self._write({"method": "notifications/initialized"})

    def ask(self, method: str, /, **params: Any) -> dict[str, Any]:
        """Return the answer to a request: a message with `result` or `error`."""
        self._number += 1
        if self.era == "modern":
            about = {"protocolVersion": MODERN, "clientCapabilities": {}, "clientInfo": WHO}
            params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in about.items()}
        self._write({"id": self._number, "method": method, "params": params})
        while True:
            message = self._next(ANSWER)
            if message is None:
                raise AssertionError(f"no answer to {method}")
            if message.get("id") == self._number and "method" not in message:
                return message

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the answer to a call of a tool."""
        return self.ask("tools/call", name=tool, arguments=arguments)

    def tools(self) -> list[dict[str, Any]]:
        """Return the definitions on the first page of the list."""
        listed: list[dict[str, Any]] = self.ask("tools/list")["result"]["tools"]
        return listed

    def names(self) -> list[str]:
        """Return the names in the list, in its order."""
        return [tool["name"] for tool in self.tools()]

    def changes(self, due: int = 0) -> int:
        """Return how many notices of a changed list came since this was last asked: those due, and any more."""
        while self._next(self._notice if self._notices.count(CHANGED) < due else QUIET) is not None:
            pass
        arrived, self._notices = self._notices, []
        return arrived.count(CHANGED)

    def _next(self, seconds: float) -> dict[str, Any] | None:
        try:
            message = self._lines.get(timeout=seconds)
        except queue.Empty:
            return None
        if message is not None and "id" not in message:
            self._notices.append(message["method"])
        return message

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(json.loads(line))
        self._lines.put(None)

    def _write(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()


@contextmanager
def connected(command: Sequence[str], env: Mapping[str, str], era: str, notice: float = ANSWER) -> Iterator[Client]:
    """Start a server, yield a client of it, and end the server with what it started, as npm's launchers do."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    environ = {**os.environ, **env}
    with subprocess.Popen(command, env=environ, text=True, start_new_session=True, **pipes) as process:
        client = Client(process, era, notice)
        try:
            client.open()
            yield client
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
