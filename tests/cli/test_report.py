"""`toolfold report` and `toolfold status`: what was used of a server, and how it is doing."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request

import anyio
import pytest

from tests.cli.support import invoke
from tests.core.support import with_groups
from tests.diagrams.live.watching import get
from toolfold import ToolSet
from toolfold_adapters.stored_usage import Writer
from toolfold_adapters.stores import SQLiteStore
from toolfold_cli import status as asking
from toolfold_diagrams import live, report


def used() -> ToolSet:
    """Return a tool set of which something was used."""
    tools = with_groups("a")
    tools.register("t", lambda: "12345678", group="a")
    ticks = iter(range(100))
    tools.count_usage(lambda: float(next(ticks)))

    async def use() -> None:
        async with tools.open_session(active=["a"]) as session:
            for _ in range(3):
                await session.call("a.t")

    anyio.run(use)
    return tools


def serving(tools: ToolSet, monkeypatch: pytest.MonkeyPatch, states: tuple[str, ...] = ("running",)) -> list[Request]:
    """Have the operator's questions answered by the live page of a tool set, and return them."""
    asked: list[Request] = []

    async def status() -> Any:
        return [{"what": "server", "name": f"s{n}", "state": state, "text": ""} for n, state in enumerate(states)]

    app = live(tools, status=status)

    def answer(request: Request, timeout: float) -> io.BytesIO:
        asked.append(request)
        response = anyio.run(get, app, request.selector.removeprefix("/live"))
        return io.BytesIO(response.body)

    monkeypatch.setattr(asking, "urlopen", answer)
    return asked


@pytest.mark.spec("EXP-3")
def test_what_a_server_counted_is_reported_as_text_json_and_html(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = used()
    asked = serving(tools, monkeypatch)
    monkeypatch.setenv("TOOLFOLD_OPERATOR_TOKEN", "hunter2")
    assert tools.usage is not None
    text = invoke("report", "http://example.test:1/mcp")
    assert text.stdout.startswith("3 calls in 1 session, 0 of them with an error; half took ")
    assert ["a.t", "a", "3", "0"] in [line.split()[:4] for line in text.stdout.splitlines()]
    assert json.loads(invoke("report", "--format", "json").stdout) == report(tools.usage).data
    assert invoke("report", "--format", "html").stdout.strip() == report(tools.usage).html.strip()
    assert [one.full_url for one in asked[:2]] == [
        "http://example.test:1/live/usage",
        "http://127.0.0.1:8000/live/usage",
    ]
    assert asked[0].get_header("Authorization") == "Bearer hunter2"


@pytest.mark.spec("EXP-3")
def test_what_a_store_has_is_reported(tmp_path: Path) -> None:
    tools, file = used(), tmp_path / "usage.db"

    async def keep() -> None:
        store = SQLiteStore(file)
        await Writer(tools, store).write()
        await store.aclose()

    anyio.run(keep)
    for source in (str(file), f"sqlite:///{file}"):
        (row,) = json.loads(invoke("report", source, "--format", "json").stdout)["tools"]
        assert (row["name"], row["calls"]) == ("a.t", 3)


@pytest.mark.spec("EXP-4")
@pytest.mark.parametrize(("states", "code"), [(("running", "idle"), 0), (("running", "failed"), 1)])
def test_the_status_has_a_line_for_each_and_fails_if_one_has_failed(
    states: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving(used(), monkeypatch, states)
    result = invoke("status")
    assert result.exit_code == code
    assert [line.split() for line in result.stdout.splitlines()[1:]] == [
        ["server", f"s{number}", state] for number, state in enumerate(states)
    ]
    assert [line["state"] for line in json.loads(invoke("status", "--json").stdout)] == [*states]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (HTTPError("", 401, "", {}, None), "is for the operator: set TOOLFOLD_OPERATOR_TOKEN"),  # type: ignore[arg-type]
        (HTTPError("", 404, "", {}, None), "answered 404: start the server with --live"),  # type: ignore[arg-type]
        (URLError("refused"), "can't be asked: refused. Is the server running, with --http --live?"),
    ],
)
def test_a_server_that_does_not_answer_is_reported_with_what_to_do(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Request, timeout: float) -> None:
        raise error

    monkeypatch.setattr(asking, "urlopen", fail)
    for command in ("report", "status"):
        result = invoke(command)
        assert result.exit_code == 1
        assert said in " ".join(result.stderr.split())
