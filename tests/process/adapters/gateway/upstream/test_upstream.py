"""Servers that fail, and what they are given to start with."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process

from tests.adapters.gateway.support import SECONDS, command, is_running, opened, proper, raw
from tests.process.serving import serving
from toolfold import ConfigError
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, UpstreamError, load_config, open_gateway
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.names import ONE_SERVER

NPM = (
    "npm error code E404",
    "npm error 404 Not Found - GET https://npm.test/no-such-server - Not found",
    "npm error A complete log of this run can be found in: /home/you/.npm/_logs/debug-0.log",
)


def script(lines: tuple[str, ...]) -> tuple[str, ...]:
    """A command that writes lines to its stderr and ends."""
    return (sys.executable, "-c", f"import sys; sys.exit({chr(10).join(lines)!r})")


async def refused(config: GatewayConfig) -> str:
    """Return the message of a start that fails in time."""
    with anyio.fail_after(SECONDS), pytest.raises(UpstreamError) as caught:
        async with open_gateway(config):
            pytest.fail("it should not have opened")
    return str(caught.value)


@pytest.mark.spec("GWY-3")
async def test_a_command_that_does_not_exist_is_named() -> None:
    message = await refused(
        GatewayConfig().with_upstream(UpstreamConfig(command=("no-such-program-here", "two words")))
    )
    assert message == (
        "The MCP server \"no-such-program-here 'two words'\" did not start: "
        "the program no-such-program-here is not installed; install it, or give its full path."
    )


async def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    assert "there is no folder" in await refused(raw("plain", cwd=str(tmp_path / "missing")))


async def test_a_file_that_is_no_program_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "server"
    file.write_text("not a program")
    assert "may not be executed" in await refused(GatewayConfig().with_upstream(UpstreamConfig(command=(str(file),))))
    file.chmod(0o755)
    assert "did not start: " in await refused(GatewayConfig().with_upstream(UpstreamConfig(command=(str(file),))))


@pytest.mark.spec("GWY-18")
@pytest.mark.parametrize("behaviour", ["plain", "exits"])
async def test_a_server_that_does_not_know_the_newest_era_is_used_without_a_word(
    behaviour: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(raw(behaviour)) as (gateway, session):
        assert "params" not in (await session.call("one")).text
        (upstream,) = gateway.upstreams.values()
        assert (upstream.modern, upstream.status.reason) == (False, "")
    assert "server/discover" not in capfd.readouterr().err
    assert not caplog.records


@pytest.mark.spec("GWY-3")
async def test_a_server_that_crashes_at_start_is_reported(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    message = await refused(raw("crash", str(tmp_path / "pid")))
    assert "did not start: it ended before it answered. Its stderr says: the license has expired" in message
    assert ": the license has expired\n" in capfd.readouterr().err
    assert not is_running(tmp_path / "pid")


@pytest.mark.spec("GWY-3")
async def test_a_server_that_ends_at_its_start_or_in_a_call_is_reported_with_the_line_that_says_why() -> None:
    config = GatewayConfig().with_upstream(UpstreamConfig(command=(*script(NPM),)))
    assert f"did not start: it ended before it answered. Its stderr says: {NPM[1]}" in await refused(config)
    async with opened(raw("traceback")) as (_, session):
        text = (await session.call("one")).text
    assert text == (
        "The MCP server 'raw' stopped before it answered: it ended. Its stderr says: KeyError: 'ledger'. What it was "
        "asked to do may be done or not."
    )


@pytest.mark.parametrize(
    ("behaviour", "part"),
    [
        ("refuses", "it answered with the error -32603 (no database)"),
        ("nonsense", "its first answer is not one of the protocol"),
        ("list-refused", "it answered with the error -32603 (no list today)"),
        ("not-a-list", 'its answer to tools/list has no list "tools"'),
    ],
)
async def test_a_server_with_wrong_answers_at_the_start_is_reported(behaviour: str, part: str, tmp_path: Path) -> None:
    assert part in await refused(raw(behaviour, str(tmp_path / "pid")))
    assert not is_running(tmp_path / "pid")


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("behaviour", ["hang", "deaf"])
async def test_a_server_that_does_not_answer_at_the_start_is_ended(behaviour: str, tmp_path: Path) -> None:
    message = await refused(raw(behaviour, str(tmp_path / "pid"), start_timeout=1))
    assert "did not answer within 1 seconds, so it was stopped" in message
    assert "start_timeout" in message
    assert not is_running(tmp_path / "pid")


@pytest.mark.spec("GWY-3")
async def test_garbage_between_the_messages_does_no_harm() -> None:
    async with opened(raw("garbage")) as (gateway, session):
        assert any("that are no messages of the protocol" in warning for warning in gateway.report.warnings)
        assert not (await session.call("one")).is_error
        assert not (await session.call("two")).is_error


@pytest.mark.spec("GWY-3")
async def test_when_the_server_has_died_calls_say_so_and_the_list_stays(tmp_path: Path) -> None:
    async with opened(raw("dies", str(tmp_path / "pid"))) as (_, session):
        before = session.list_tools()
        first = await session.call("one")
        assert first.is_error
        assert first.text == (
            "The MCP server 'raw' stopped before it answered: it ended. What it was asked to do may be done or not."
        )
        second = await session.call("two")
        assert second.is_error
        assert second.text.startswith("The MCP server 'raw' has stopped: it ended. It is tried again")
        assert session.list_tools() == before
    assert not is_running(tmp_path / "pid")


@pytest.mark.spec("GWY-3", "SAF-5")
@pytest.mark.parametrize("behaviour", ["parent", "stubborn"])
async def test_nothing_of_a_server_is_left_that_does_not_end_or_leaves_children(behaviour: str, tmp_path: Path) -> None:
    async with opened(raw(behaviour, str(tmp_path / "pid"))) as (_, session):
        assert not (await session.call("one")).is_error
        assert is_running(tmp_path / "pid")
    assert not is_running(tmp_path / "pid")


@pytest.mark.spec("GWY-3")
async def test_a_storm_of_changed_lists_delays_no_call() -> None:
    async with opened(raw("storm")) as (_, session):
        for _ in range(3):
            assert not (await session.call("one")).is_error


@pytest.mark.spec("GWY-1", "GWY-2")
async def test_a_server_with_two_thousand_tools_is_served_whole() -> None:
    async with opened(raw("many")) as (gateway, session):
        assert len(gateway.report.tools) == 2000
        assert not (await session.call("tool_1999")).is_error


async def test_an_error_in_the_block_comes_out_as_it_is_and_the_server_ends(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        async with opened(raw("plain", str(tmp_path / "pid"))):
            raise ZeroDivisionError
    assert not is_running(tmp_path / "pid")


@pytest.mark.parametrize("behaviour", ["plain", "hang"])
async def test_cancelling_it_at_any_time_ends_the_server(behaviour: str, tmp_path: Path) -> None:
    opened = anyio.Event()
    pid = tmp_path / "pid"

    async def hold() -> None:
        async with open_gateway(raw(behaviour, str(pid))):
            opened.set()
            await anyio.sleep_forever()

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hold)
            while not (opened.is_set() if behaviour == "plain" else pid.exists() and pid.read_text()):  # noqa: ASYNC110
                await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()
    assert opened.is_set() == (behaviour == "plain")
    assert not is_running(pid)


@pytest.mark.spec("GWY-3")
async def test_a_server_ends_whose_start_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen.__init__

    def cancel_at_the_start(process: subprocess.Popen[bytes], *arguments: Any, **options: Any) -> None:
        start(process, *arguments, **options)
        started.append(process)
        scope.cancel()

    monkeypatch.setattr(subprocess.Popen, "__init__", cancel_at_the_start)
    with anyio.fail_after(SECONDS), anyio.CancelScope() as scope:
        async with Transports()(raw("plain").upstreams[ONE_SERVER]):
            await anyio.sleep_forever()
    assert [process.returncode is None for process in started] == [False]


async def test_a_wrong_option_is_found_before_the_server_is_started(tmp_path: Path) -> None:
    config = raw("plain", str(tmp_path / "pid"))
    wrong = GatewayConfig.model_validate({**config.model_dump(), "options": {"control": "x"}})
    with pytest.raises(ConfigError, match="There is no control style"):
        async with open_gateway(wrong):
            pytest.fail("it should not have opened")
    assert not (tmp_path / "pid").exists()


@pytest.mark.spec("GWY-8")
async def test_a_server_sees_what_started_the_gateway_and_what_is_added_and_nothing_of_the_gateways_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_PROFILE", "TOOLFOLD_HANDLE_KEY", "OVERRIDDEN"):
        monkeypatch.setenv(name, "old")
    config = proper(env={"OVERRIDDEN": "new", "ADDED": "1"}, cwd=str(tmp_path))
    async with opened(config) as (_, session):
        given = json.loads((await session.call("environment")).text)
    assert Path(given["folder"]).name == tmp_path.name
    variables = given["variables"]
    assert {name: variables.get(name) for name in ("AWS_PROFILE", "OVERRIDDEN", "ADDED")} == {
        "AWS_PROFILE": "old",
        "OVERRIDDEN": "new",
        "ADDED": "1",
    }
    expected = {name for name in os.environ if not name.startswith("TOOLFOLD_")} | {"ADDED"}
    assert variables.keys() - {"LC_CTYPE"} == expected - {"LC_CTYPE"}  # Python itself sets the last


async def test_a_server_can_be_started_where_our_stderr_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    async with opened(raw("plain")) as (_, session):
        assert not (await session.call("one")).is_error


async def test_a_command_may_be_asked_for_the_newest_revision() -> None:
    async with opened(proper(mode="auto")) as (gateway, session):
        assert gateway.report.server == "proper 2.0"
        assert (await session.call("fail")).is_error


@pytest.mark.spec("GWY-12", "GWY-3")
async def test_a_line_that_does_not_end_ends_the_connection_and_says_why() -> None:
    async with opened(raw("endless", max_message_bytes=1_000_000)) as (_, session):
        answer = await session.call("one")
        assert answer.is_error
        assert "before it answered: it sent a message of more than 1000000 bytes; if it has to, raise" in answer.text
        again = await session.call("one")
        assert "more than 1000000 bytes; if it has to, raise its max_message_bytes. It is tried again in" in again.text


# -- over HTTP --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def http_server(transport: str = "http") -> AsyncGenerator[tuple[str, Process]]:
    async with serving(command("proper.py", transport)) as (process, port):
        yield f"http://127.0.0.1:{port.strip()}/mcp", process


@pytest.mark.spec("GWY-1")
@pytest.mark.parametrize("mode", [None, "legacy"])
async def test_a_server_at_a_url_works_in_either_era(mode: str | None) -> None:
    async with http_server() as (url, _):
        config = GatewayConfig().with_upstream(UpstreamConfig.model_validate({"url": url, "mode": mode}))
        async with opened(config) as (gateway, session):
            assert gateway.report.server == "proper 2.0"
            assert (await session.call("fail")).text == "it broke"
            assert (await session.call("structured")).meta == {"example.org/cost": 3}
            marked = (await session.call("region", {"region": "eu"})).text
            left_out = [w for w in gateway.report.warnings if "'mismarked' is left out" in w]
            assert (marked, len(left_out)) == (("eu", 1) if mode is None else ("None", 0))


@pytest.mark.spec("GWY-1", "GWY-8")
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_server_over_either_http_transport_gets_the_headers_of_its_entry(
    transport: str, tmp_path: Path
) -> None:
    async with http_server(transport) as (url, _):
        file = tmp_path / "gateway.toml"
        file.write_text(
            f'[upstream]\nurl = "{url}"\ntransport = "{transport}"\nheaders = {{ X-Token = "${{TOKEN}}" }}\n'
        )
        async with opened(load_config(file, {"TOKEN": "from the environment"})) as (_, session):
            assert (await session.call("token")).text == "from the environment"
            assert (await session.call("structured")).meta == {"example.org/cost": 3}


@pytest.mark.spec("GWY-3")
async def test_when_the_server_at_a_url_is_gone_calls_say_so() -> None:
    async with (
        http_server() as (url, process),
        opened(GatewayConfig().with_upstream(UpstreamConfig(url=url))) as (_, session),
    ):
        process.kill()
        await process.wait()
        first = await session.call("fail")
        second = await session.call("fail")
        assert first.is_error
        assert second.is_error
        assert "can't be reached" in first.text
        assert "It is tried again in" in second.text
        assert session.list_tools().tools


@pytest.mark.spec("GWY-3")
async def test_a_url_at_which_nothing_is_is_reported() -> None:
    async with http_server() as (url, process):
        process.kill()
        await process.wait()
        message = await refused(GatewayConfig().with_upstream(UpstreamConfig(url=url)))
    assert message.startswith(f"The MCP server '{url}' did not start: it can't be reached (")
    assert sys.executable not in message
