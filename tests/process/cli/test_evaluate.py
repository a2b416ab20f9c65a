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

from tests.adapters.evaluation.endpoint import Answer, Behaviour, Sent, dropping_tools, read_of, right, said
from tests.cli.support import invoke
from toolfold_adapters.evaluation import Choice, read_lines, read_records

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


def suggesting(shop: Path, url: str, *more: str) -> tuple[int, str]:
    given = ("shop:tools", "--suggest", "--arm", "everything")
    done = invoke("evaluate", *given, "--model", "mine", "--base-url", url, *more)
    return done.exit_code, done.output


async def obliging(sent: Sent) -> Answer:
    """A model that writes the same request for every tool, and names the first that it is offered."""
    names = sent["response_format"]["json_schema"]["schema"]["properties"]
    chosen = names["name"]["enum"][0] if "name" in names else None
    return said(json.dumps({"name": chosen} if chosen else {"request": "When is the shop open?"}), read_of(sent))


def test_a_model_writes_suggested_requests_and_chooses(shop: Path) -> None:
    with served(obliging) as url:
        status, printed = suggesting(shop, url, "--tasks", "made.toml", "-o", "choices.jsonl")
    assert status == 0, printed
    assert Path("made.toml").read_text(encoding="utf-8").count('ask = "When is the shop open?"') == 1
    assert "4 tasks, of 4 tools: 1 request is written by mine, and the others are sentences" in printed
    assert [line.split()[0] for line in printed.splitlines() if " all " in line] == [
        *("everything", "everything", "search", "groups", "groups:", "groups+search", "first")
    ]
    choices = read_lines(Path("choices.jsonl"), Choice)
    assert {(one.player, one.options["base_url"]) for one in choices} == {("mine", url)}
    assert len(choices) == 20


def test_what_was_chosen_until_the_time_is_over_is_shown(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolfold_cli.evaluate.SUGGESTING", 0)
    with served(obliging) as url:
        status, printed = suggesting(shop, url)
    assert status == 0, printed
    assert "the requests are sentences of descriptions" in printed


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
