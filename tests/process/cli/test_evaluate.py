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

from tests.adapters.evaluation.endpoint import Answer, Behaviour, Sent, dropping_tools, read_of, refused, right, said
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


async def refusing(sent: Sent) -> Answer:
    """A server that knows no answers of a given form."""
    return refused(400, "no response_format")


def test_a_model_that_answers_no_choice_is_a_failure_that_says_why(shop: Path) -> None:
    (shop / "tasks.toml").write_text(TASKS, encoding="utf-8")
    for given in (("--choices", "--tasks", "tasks.toml"), ("--suggest",)):
        asked = ("evaluate", "shop:tools", *given, "--model", "mine", "-o", f"{given[0]}.jsonl", "--base-url")
        with served(refusing) as url:
            done = invoke(*asked, url)
        assert done.exit_code == 1
        assert "\n  everything, all tools: stopped early: " in done.stdout
        assert ": the model stopped (error): HTTP 400: no response_format\n" in done.stdout
        said = "can't be used: the model stopped (error): HTTP 400: no response_format"
        assert done.stderr.splitlines()[-1] == f"toolfold: The model 'mine' at {url} {said}"


def test_a_model_that_has_answered_nothing_is_asked_again(shop: Path) -> None:
    (shop / "tasks.toml").write_text(TASKS, encoding="utf-8")
    answers = [refusing, obliging]

    async def better(sent: Sent) -> Answer:
        return await answers[0](sent)

    with served(better) as url:
        asked = ("evaluate", "shop:tools", "--choices", "--tasks", "tasks.toml", "--model", "mine", "--base-url", url)
        assert invoke(*asked, "-o", "choices.jsonl").exit_code == 1
        answers.pop(0)
        for _ in range(2):
            done = invoke(*asked, "-o", "choices.jsonl")
            assert (done.exit_code, "stopped early" in done.stdout) == (0, False)
    assert len(read_lines(Path("choices.jsonl"), Choice)) == 10


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
