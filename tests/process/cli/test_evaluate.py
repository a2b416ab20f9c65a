"""`toolfold evaluate` with a model that a server on loopback has."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import anyio
import pytest

from tests.adapters.evaluation.endpoint import Behaviour, dropping_tools, right
from tests.cli.support import invoke
from toolfold_adapters.evaluation import read_records

pytestmark = pytest.mark.spec("EVA-1", "EVA-2")
TASKS = """
[[tasks]]
id = "tea"
ask = "Two teas, please."
calls = [{ tool = "orders.place", arguments = { item = "tea", count = 2 } }]
"""


@contextmanager
def served(behaviour: Behaviour) -> Generator[str]:
    """The address of an endpoint with this behaviour."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["content-length"])))
            status, body = anyio.run(behaviour, sent)
            answer = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def evaluated(shop: Path, url: str, *more: str) -> tuple[int, str]:
    (shop / "tasks.toml").write_text(TASKS, encoding="utf-8")
    done = invoke(
        *("evaluate", "shop:tools", "--tasks", "tasks.toml", "--arm", "everything"),
        *("--model", "mine", "--base-url", url, "--temperature", "0", *more),
    )
    return done.exit_code, done.output


def test_a_model_of_a_local_server_plays(shop: Path) -> None:
    with served(right(("orders__place", {"item": "tea", "count": 2}))) as url:
        status, printed = evaluated(shop, url, "-o", "runs.jsonl")
    assert (status, printed.splitlines()[2].split()[:3]) == (0, ["everything", "all", "1/1"])
    (record,) = read_records(Path("runs.jsonl"))
    assert record.options == {"base_url": url, "temperature": 0.0, "timeout": 600.0}
    assert f"; base_url {url}; temperature 0" in printed


def test_a_model_whose_template_has_no_tools_is_warned_of(shop: Path) -> None:
    with served(dropping_tools) as url:
        status, printed = evaluated(shop, url)
    assert status == 0
    assert "Does the model's template have tools" in printed


def test_a_server_that_is_down_is_named(shop: Path, free_tcp_port: int) -> None:
    url = f"http://127.0.0.1:{free_tcp_port}/v1"
    status, printed = evaluated(shop, url, "-o", "runs.jsonl")
    assert status == 1
    assert f"toolfold: The model 'mine' at {url} can't be used: the model stopped (unreachable): " in printed
    assert read_records(Path("runs.jsonl")) == []
