"""Servers that people use, as a client's configuration has them: what the gateway was tried with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.external.support import NODE_OFFLINE, ROOT, TOOLFOLD
from tests.process.ports import free_port

NODE_MODULES = Path(__file__).parent / "node_modules"
NOTE = "It is written here."
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: small, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: small, context: {cluster: small, user: nobody}}]
current-context: small
users: [{name: nobody, user: {}}]
"""


@frozen(kw_only=True)
class RealServer:
    """A server, and a call of it that answers the same each time.

    Texts may contain `{npm}`, the folder of the packages of npm, `{bin}`, that of the programs of the Python packages,
    `{site}`, the folder that the servers work on, and `{page}`, the URL of a page on this machine.

    Attributes:
        name: What it is called in a configuration.
        package: What it is called in its registry: npm's, or the Python index where `language` is Python.
        language: What it is written in.
        command: What starts it.
        transport: How a client reaches it; one that is reached over HTTP is started first, and listens at `path`.
        tool: The tool that is called.
        query: What a model would look for to find the tool.
        arguments: The arguments of the call.
        answer: What is in the answer to it.
        checked: What else is checked with it.
        renamed: What its tools are called behind a gateway that has tools of the same names.
    """

    name: str
    package: str
    language: str
    command: tuple[str, ...]
    transport: str = "stdio"
    path: str = ""
    env: Mapping[str, str] = {}
    tool: str
    query: str
    arguments: Mapping[str, Any] = {}
    answer: str
    checked: str = ""
    renamed: Mapping[str, str] = {}


def _everything(name: str, mode: str, transport: str, path: str = "", checked: str = "") -> RealServer:
    return RealServer(
        name=name,
        package="@modelcontextprotocol/server-everything",
        language="TypeScript",
        command=(*NODE_OFFLINE, "{npm}/@modelcontextprotocol/server-everything/dist/index.js", mode),
        transport=transport,
        path=path,
        tool="get-sum",
        query="sum of two numbers",
        arguments={"a": 1, "b": 2.5},
        answer="3.5",
        checked=checked,
    )


REAL_SERVERS = (
    _everything(
        "everything",
        "stdio",
        "stdio",
        checked="sampling, elicitation, roots, prompts, resources, completions, progress, cancellation",
    ),
    _everything("everything-http", "streamableHttp", "http", "/mcp", "sampling, elicitation, roots"),
    _everything("everything-sse", "sse", "sse", "/sse"),
    RealServer(
        name="filesystem",
        package="@modelcontextprotocol/server-filesystem",
        language="TypeScript",
        command=("node", "{npm}/@modelcontextprotocol/server-filesystem/dist/index.js", "{site}"),
        tool="read_text_file",
        query="read a text file",
        arguments={"path": "{site}/note.txt"},
        answer=NOTE,
        checked="the client's roots",
    ),
    RealServer(
        name="memory",
        package="@modelcontextprotocol/server-memory",
        language="TypeScript",
        command=("node", "{npm}/@modelcontextprotocol/server-memory/dist/index.js"),
        env={"MEMORY_FILE_PATH": "{site}/memory.jsonl"},
        tool="search_nodes",
        query="search nodes of the knowledge graph",
        arguments={"query": "programs"},
        answer="Ada",
    ),
    RealServer(
        name="git",
        package="mcp-server-git",
        language="Python",
        command=("{bin}/mcp-server-git",),
        tool="git_log",
        query="git commit log",
        arguments={"repo_path": "{site}/repository"},
        answer="the first commit",
    ),
    RealServer(
        name="time",
        package="mcp-server-time",
        language="Python",
        command=("{bin}/mcp-server-time",),
        tool="convert_time",
        query="convert time between timezones",
        arguments={"source_timezone": "Asia/Kolkata", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        answer="+3.5h",
    ),
    RealServer(
        name="fetch",
        package="mcp-server-fetch",
        language="Python",
        command=("{bin}/mcp-server-fetch", "--allow-private-ips"),
        tool="fetch",
        query="fetch a URL from the internet",
        arguments={"url": "{page}", "raw": True},
        answer=NOTE,
    ),
    RealServer(
        name="kubernetes",
        package="kubernetes-mcp-server",
        language="Go",
        command=("node", "{npm}/kubernetes-mcp-server/bin/index.js", "--kubeconfig", "{site}/kubeconfig"),
        tool="configuration_view",
        query="view the kubernetes configuration, kubeconfig",
        answer="current-context: small",
        checked="without a cluster",
    ),
    RealServer(
        name="playwright",
        package="@playwright/mcp",
        language="TypeScript",
        command=("node", "{npm}/@playwright/mcp/cli.js", "--executable-path", "{site}/no-browser"),
        tool="browser_navigate",
        query="navigate the browser to a URL",
        arguments={"url": "about:blank"},
        answer="no-browser",
        checked="without a browser: the call is its error",
    ),
    RealServer(
        name="toolfold",
        package="toolfold",
        language="Python",
        command=(TOOLFOLD, "serve", "--app-dir", str(ROOT), "examples.desk:tools"),
        env={"PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        tool="ping",
        query="ping: answer at once",
        answer="pong",
        renamed={"call_tool": "call_tool_2"},
    ),
)


@frozen
class Site:
    """Servers with all that they need: their entries for a client's `mcpServers`, and what marks in texts stand for."""

    entries: dict[str, dict[str, Any]]
    places: Mapping[str, str]

    def call_of(self, server: RealServer) -> tuple[str, dict[str, Any]]:
        """Return the tool that is called, and the arguments."""
        return server.tool, filled(server.arguments, self.places)

    def written_to(self, file: Path) -> str:
        """Write the entries to a file, as clients do, and return its path."""
        file.write_text(json.dumps({"mcpServers": self.entries}, indent=2), encoding="utf-8")
        return str(file)


@contextmanager
def configured(folder: Path, *servers: RealServer) -> Iterator[Site]:
    """Yield servers with what they work on in a folder; those that are reached over HTTP run for the duration."""
    _make(folder)
    with ExitStack() as stack:
        places = {
            "npm": str(NODE_MODULES),
            "bin": python_programs(),
            "site": str(folder),
            "page": stack.enter_context(_page()),
        }
        yield Site({server.name: stack.enter_context(_entry(server, places)) for server in servers}, places)


def filled(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with the marks in its texts replaced."""
    if isinstance(value, str):
        for mark, text in places.items():
            value = value.replace(f"{{{mark}}}", text)
        return value
    if isinstance(value, Mapping):
        return {key: filled(inner, places) for key, inner in value.items()}
    return value


def python_programs() -> str:
    """Return the folder of the Python servers' programs, which have an environment of their own; or nothing."""
    return os.environ.get("TESTS_SERVERS", "")


def _make(site: Path) -> None:
    """Make what the servers work on."""
    site.mkdir(exist_ok=True)
    (site / "note.txt").write_text(NOTE, encoding="utf-8")
    (site / "kubeconfig").write_text(KUBECONFIG, encoding="utf-8")
    entity = '{"type": "entity", "name": "Ada", "entityType": "person", "observations": ["wrote programs"]}\n'
    (site / "memory.jsonl").write_text(entity, encoding="utf-8")
    repository = site / "repository"
    if not repository.exists():
        git = ("git", "-C", str(repository), "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        repository.mkdir()
        subprocess.run([*git, "init", "--quiet"], check=True)
        subprocess.run([*git, "commit", "--quiet", "--allow-empty", "--message", "the first commit"], check=True)


@contextmanager
def _entry(server: RealServer, places: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    program, *arguments = (filled(part, places) for part in server.command)
    if server.transport == "stdio":
        yield {"command": program, "args": arguments, "env": filled(server.env, places)}
        return
    port = free_port()
    command = [shutil.which(program) or program, *arguments]
    with subprocess.Popen(
        command,
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        try:
            while "on port" not in process.stderr.readline():
                assert process.poll() is None, f"{server.name} has ended"
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield {"type": server.transport, "url": f"http://127.0.0.1:{port}{server.path}"}
        finally:
            process.terminate()


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/page"
        text = f"<html><body><p>{NOTE}</p></body></html>".encode() if found else b""
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@contextmanager
def _page() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/page"
        finally:
            server.shutdown()
