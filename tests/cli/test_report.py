"""`toolfold report` and `toolfold status`: what was used of a server, and how it is doing."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request

import anyio
import pytest

from tests.cli.support import invoke
from tests.core.support import with_groups
from tests.diagrams.live.watching import get
from toolfold import ToolSet, Usage
from toolfold_adapters.observe.stored_usage import Writer, usage_file, usage_url
from toolfold_adapters.stores import SQLiteStore
from toolfold_adapters.stores.url import file_of
from toolfold_cli import status as asking
from toolfold_cli.saved import line_of
from toolfold_diagrams import live, report


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the record of this machine, which is not there yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    if sys.platform != "linux":
        monkeypatch.setattr("platformdirs.user_data_path", lambda name: tmp_path / "data" / name)
    usage_file().parent.mkdir(parents=True)
    return usage_file()


def calls_of(tool: str, calls: int) -> list[Any]:
    return [tool, tool.rpartition(".")[0], "desk", "modern", calls, 0, 1.0, 5, {"100": calls}]


def used(times: int = 3) -> ToolSet:
    """Return a tool set of which something was used."""
    tools = with_groups("a")
    tools.register("t", lambda: "12345678", group="a")
    ticks = iter(range(1_000))
    tools.count_usage(lambda: float(next(ticks)))

    async def use() -> None:
        async with tools.open_session(active=["a"]) as session:
            session.list_tools()
            for _ in range(times):
                await session.call("a.t")

    anyio.run(use)
    return tools


def keep(tools: ToolSet, file: Path, day: date | None = None) -> None:
    """Record what was used of a tool set in a file."""

    today = None if day is None else lambda: day

    async def write() -> None:
        store = SQLiteStore(file)
        await Writer(tools, store, today).write()
        await store.aclose()

    anyio.run(write)


def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no server answer on this machine."""

    def refuse(request: Request, timeout: float) -> None:
        raise URLError("refused")

    monkeypatch.setattr(asking, "urlopen", refuse)


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
    file = tmp_path / "usage.db"
    keep(used(), file)
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
    assert [line.split() for line in result.stdout.splitlines()[2:]] == [
        ["server", f"s{number}", state] for number, state in enumerate(states)
    ]
    assert [line["state"] for line in json.loads(invoke("status", "--json").stdout)] == ["used", *states]


@pytest.mark.spec("EXP-4", "ISO-3")
@pytest.mark.parametrize("kind", ["a file", "a link to nothing", "a loop of links"])
def test_the_status_says_that_what_is_approved_can_not_be_stored(
    kind: str, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch)
    folder = record.parent / "approved"
    if kind == "a file":
        folder.write_text("")
    else:
        folder.symlink_to("approved" if kind == "a loop of links" else "nowhere")
    for _ in range(2):
        result = invoke("status")
        assert result.exit_code == 1
        assert "what is approved can't be stored (File exists)" in " ".join(result.stdout.split())
        keep(used(), record)


FEW, MANY = {"lists": 1, "tokens": 300, "ungrouped": 200}, {"lists": 70, "tokens": 100_000, "ungrouped": 1_300_456}
OPEN = ["open_group", "", "desk", "modern", 9, 0, 1.0, 20_000, {"100": 9}]
WEEKS: list[tuple[dict[str, Any], str]] = [
    ({}, "nothing was used"),
    (
        {"lists": MANY, "calls": [OPEN, calls_of("a.t", 400), calls_of("u", 12)], "sessions": 31},
        "412 calls of 2 tools by 31 sessions; 1 group opened; about 1.2 million tokens of definitions were not sent",
    ),
    (
        {"lists": FEW, "calls": [calls_of("u", 1)], "sessions": 1, "groups": {}},
        "1 call of 1 tool by 1 session; 0 groups opened; about 100 tokens more were sent than without groups",
    ),
]


@pytest.mark.spec("EXP-4")
@pytest.mark.parametrize(("counted", "said"), WEEKS)
def test_what_was_used_and_saved_is_one_sentence(counted: dict[str, Any], said: str) -> None:
    usage = Usage("shop")
    nothing: dict[str, Any] = {**usage.dump(), "tools": {"a.t": "a", "u": ""}}
    opened = {"a": {"opened": 9, "called": 9, "closed": 0}} if counted else {}
    usage.add({**nothing, "groups": opened, **counted})
    assert line_of(usage, "this week")["text"] == said


@pytest.mark.spec("EXP-4")
def test_the_status_begins_with_what_was_used_this_week_and_saved(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch)
    today = date(2026, 3, 9)
    for before, times in ((6, 3), (7, 100)):
        keep(used(times), record, today - timedelta(before))
    monkeypatch.setattr("toolfold_adapters.observe.stored_usage.today_in_utc", lambda: today)
    monkeypatch.setattr("toolfold_cli.saved.today_in_utc", lambda: today)
    said = "3 calls of 1 tool by 1 session; 1 group opened; about "
    assert invoke("status").stdout.startswith(f"This week: {said}")
    week = json.loads(invoke("status", "--json").stdout)[0]
    assert (week["what"], week["name"], week["since"]) == ("use", "this week", "2026-03-03")
    listed = used(3).usage
    assert listed is not None
    assert week["figures"] == {
        "calls": 3,
        "errors": 0,
        "tools": 1,
        "sessions": 1,
        "groups_opened": 1,
        "openings": 1,
        "tokens_without_groups": listed.lists.ungrouped,
        "tokens_of_lists": listed.lists.tokens,
        "tokens_of_openings": 0,
        "tokens_not_sent": listed.lists.ungrouped - listed.lists.tokens,
    }


@pytest.mark.spec("EXP-4")
def test_a_record_without_use_this_week_says_so(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away(monkeypatch)
    keep(used(), record, datetime.now(UTC).date() - timedelta(8))
    assert invoke("status").stdout.startswith("This week: nothing was used.\n")


@pytest.mark.spec("EXP-4")
def test_what_a_server_was_used_for_is_said_since_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    serving(used(), monkeypatch)
    assert invoke("status", "http://example.test").stdout.startswith("Since it started: 3 calls of 1 tool by 1 session")


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


@pytest.mark.spec("EXP-3", "EXP-4")
@pytest.mark.parametrize("command", ["report", "status"])
@pytest.mark.parametrize(
    ("source", "named"), [((), True), (("http://127.0.0.1:8000",), False), (("http://example.test",), False)]
)
def test_a_record_in_which_nothing_is_yet_is_named_beside_a_server_that_does_not_answer(
    command: str, source: tuple[str, ...], named: bool, record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch)
    result = invoke(command, *source)
    said = " ".join(result.stderr.split())
    assert (result.exit_code, result.stdout) == (1, "")
    assert "can't be asked: refused." in said
    begins = (
        "toolfold: Nothing is recorded on this machine yet. Servers that `toolfold init` has clients start record "
        f"their use in {record}, and those of `toolfold serve --usage sqlite:///usage.db` in a file to be named here."
    )
    assert said.startswith(begins) is named


@pytest.mark.spec("EXP-4")
def test_a_record_without_a_call_says_nothing_of_the_last_one(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(used(), monkeypatch)
    unused = with_groups("a")
    unused.count_usage(lambda: 0.0)
    keep(unused, record)
    about = next(line for line in json.loads(invoke("status", "--json").stdout) if line["what"] == "record")
    assert (about["state"], about["text"]) == ("unused", "no calls in 30 days")


@pytest.mark.spec("EXP-3", "EXP-4")
def test_what_servers_that_clients_start_recorded_is_found_without_arguments(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch)
    keep(used(), record)
    os.utime(record, (then := time.time() - 305, then))
    (row,) = json.loads(invoke("report", "--format", "json").stdout)["tools"]
    assert (row["name"], row["calls"]) == ("a.t", 3)
    assert invoke("report").stdout.startswith(f"Of {record}:\n3 calls in 1 session")
    result = invoke("status", "--json")
    assert result.exit_code == 0
    _, about, group = json.loads(result.stdout)
    assert (about["what"], about["name"], about["state"]) == ("record", str(record), "used")
    assert about["text"] == "3 calls, 0 of them with an error in 30 days, the last 5 min ago"
    assert group == {"what": "group", "name": "a", "state": "used", "text": "3 calls, 0 of them with an error"}


@pytest.mark.spec("EXP-4")
def test_the_calls_of_a_record_are_those_of_its_groups_and_of_the_week_and_what_opens_is_counted_apart(
    record: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away(monkeypatch)
    tools = with_groups("a")
    tools.register("t", lambda: "12345678", group="a")
    tools.register("alone", lambda: "12345678")
    tools.count_usage(lambda: 0.0)

    async def use() -> None:
        async with tools.open_session() as session:
            for name in ("a.activate", "a.t", "a.t", "alone"):
                await session.call(name)

    anyio.run(use)
    keep(tools, record)
    week, about, group = json.loads(invoke("status", "--json").stdout)
    assert (week["figures"]["calls"], week["figures"]["tools"]) == (3, 2)
    assert about["text"].startswith(
        "3 calls, 0 of them with an error in 30 days, 1 of them of tools in no group, beside 1 that opened, closed or "
        "found tools, the last "
    )
    assert (group["name"], group["text"]) == ("a", "2 calls, 0 of them with an error")


@pytest.mark.spec("EXP-4")
@pytest.mark.parametrize("form", ["u.db", "./u.db", "sqlite:///u.db", "record"])
def test_the_status_takes_a_record_of_ones_own_in_the_forms_of_the_report(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    away(monkeypatch)
    keep(used(), tmp_path / ("record" if form == "record" else "u.db"))
    week, about, group = json.loads(invoke("status", form, "--json").stdout)
    assert (week["what"], week["figures"]["calls"]) == ("use", 3)
    assert (about["what"], about["name"], about["state"]) == ("record", form, "used")
    assert about["text"].endswith(" in 30 days, the last 0 min ago")
    assert group["name"] == "a"


@pytest.mark.spec("EXP-4")
def test_the_status_of_a_record_elsewhere_shows_nothing_of_its_url_but_the_scheme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(used(), tmp_path / "u.db")
    monkeypatch.setattr("toolfold_cli.records.open_store", lambda url: SQLiteStore(tmp_path / "u.db"))
    result = invoke("status", "redis://:s3cret@example.test/0")
    assert (result.exit_code, "redis:…" in result.stdout, "s3cret" in result.output) == (0, True, False)
    assert "3 calls, 0 of them with an error in 30 days\n" in result.stdout


@pytest.mark.spec("EXP-4")
@pytest.mark.parametrize("source", ["sqlite:///nope.db", "notes.txt"])
def test_what_is_no_record_is_said_to_be_none_by_the_status_as_by_the_report(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("tea " * 99)
    status, reported = invoke("status", source), invoke("report", source)
    assert status.exit_code == reported.exit_code != 0
    assert status.stderr.partition("Error: ")[2] == reported.stderr.partition("Error: ")[2]


@pytest.mark.spec("EXP-4")
def test_a_server_that_answers_comes_before_what_was_recorded(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving(used(), monkeypatch)
    keep(used(), record)
    lines = json.loads(invoke("status", "--json").stdout)
    assert [line["what"] for line in lines] == ["use", "use", "server", "record", "group"]


@pytest.mark.spec("EXP-3")
@pytest.mark.parametrize("source", ["nope.db", "sqlite:///nope.db", "folder/nope.db"])
def test_a_file_that_is_not_there_is_a_usage_error_and_is_not_made(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    result = invoke("report", source)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "There is no file" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_the_url_of_the_record_names_its_file_whatever_is_in_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "a b#%20ü?"))
    assert file_of(usage_url()) == usage_file()
