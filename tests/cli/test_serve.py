"""`toolfold serve` up to the server: options, the summary, and what it refuses. The server is tested as a process."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from attrs import frozen
from mcp import Client
from mcp.server import Server

from tests.cli.support import invoke
from tests.cli.test_servers import MARKED
from toolfold import ToolSet
from toolfold_adapters import mcp
from toolfold_adapters.mcp import Limit
from toolfold_adapters.mcp.http.application import as_server
from toolfold_cli.serve import SECTIONS, serve_command


@frozen
class Served:
    """The server that the command made, its options, and the address that it was to have."""

    server: Server[Any]
    options: dict[str, Any]
    address: dict[str, Any]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    """The servers that the command makes, none of which listens."""
    servers: list[Served] = []
    of_http = ("host", "port", "path", "allowed_hosts", "allowed_origins", "forwarded_allow_ips", "shutdown_timeout")

    async def serve(tools: Any, *, transport: str, on_ready: Callable[[str], None], **options: Any) -> None:
        address = {name: options.pop(name) for name in of_http}
        assert (options.pop("auth"), options.pop("logins")) == (None, None)
        address["live"] = options.pop("live")
        made = mcp.build_server(tools, **options) if isinstance(tools, ToolSet) else as_server(tools, {})
        servers.append(Served(made, options, {"transport": transport, **address}))
        on_ready("http://here/mcp")

    monkeypatch.setattr(mcp, "serve", serve)
    return servers


def serve_http(*arguments: str) -> str:
    """Run the command, and return its summary."""
    result = invoke("serve", *arguments, "--http")
    assert (result.exit_code, result.stdout) == (0, "")
    return result.stderr


def asked(
    server: Server[Any], ask: Callable[[Client], Awaitable[Any]], mode: Literal["legacy", "auto"] = "legacy"
) -> Any:
    """Connect a client to a server, and return what it returns."""

    async def connect() -> Any:
        async with Client(server, mode=mode) as client:
            return await ask(client)

    return anyio.run(connect)


async def names(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


def test_the_summary_counts_tools_groups_and_tokens(shop: Path, served: list[Served]) -> None:
    summary = r"toolfold: 4 tools in 3 groups; 8 listed at first \(~\d+ → ~\d+ tokens\); serving http://here/mcp\n"
    assert re.fullmatch(summary, serve_http("shop:tools"))


@pytest.mark.spec("INT-1")
def test_an_existing_server_is_served_with_its_groups(shop: Path, served: list[Served]) -> None:
    (shop / "server.py").write_text(MARKED, encoding="utf-8")
    assert serve_http("server.py:mcp").startswith("toolfold: 2 tools in 1 group; ")
    assert asked(served[0].server, names) == {"call_tool", "close_group", "open_group", "ping"}


@pytest.mark.spec("PRO-2")
def test_a_profile_is_selected(shop: Path, served: list[Served]) -> None:
    assert serve_http("shop:tools", "--profile", "look").startswith("toolfold: 1 tool in 1 group; ")
    assert "orders__open" not in asked(served[0].server, names)


def test_groups_are_open_from_the_start(shop: Path, served: list[Served]) -> None:
    serve_http("shop:tools", "--active", "orders,orders.returns")
    assert {"orders__place", "orders__returns__take_back"} <= asked(served[0].server, names)


@pytest.mark.spec("DEL-5")
@pytest.mark.parametrize("arguments", [(), ("--no-disclosure", "--no-selection")])
def test_the_extension_for_groups_can_be_left_off(shop: Path, served: list[Served], arguments: tuple[str, ...]) -> None:
    serve_http("shop:tools", *arguments)

    async def extensions(client: Client) -> object:
        return client.server_capabilities.extensions

    assert bool(asked(served[0].server, extensions, "auto")) is not bool(arguments)


@pytest.mark.spec("INT-5")
def test_telemetry_that_goes_nowhere_is_warned_of(shop: Path, served: list[Served]) -> None:
    assert "--telemetry records no spans" in serve_http("shop:tools", "--telemetry")


@pytest.mark.spec("CTL-4")
def test_the_form_of_answers_and_the_separator_are_options(shop: Path, served: list[Served]) -> None:
    options = ("--answers", "names", "--answer-tokens", "2000", "--separator", ".")
    serve_http("shop:tools", *options)

    async def answer(client: Client) -> str:
        return str(getattr((await client.call_tool("orders.activate", {})).content[0], "text", ""))

    assert asked(served[0].server, answer).splitlines()[2:] == ["- orders.place"]


@pytest.mark.spec("SAF-4", "DEL-10")
def test_the_address_and_the_limits_are_options(shop: Path, served: list[Served]) -> None:
    address = ("--port", "0", "--path", "/x", "--allow-host", "a:*", "--allow-origin", "http://a", "--host", "::1")
    limits = ("--limit", "sessions=none/2", "--limit", "sessions=1", "--limit", "calls=9/3", "--limit", "streams=50")
    serve_http("shop:tools", *address, *limits, "--forwarded-allow-ips", "*", "--shutdown-timeout", "9")
    assert served[0].address == {
        "transport": "http",
        "host": "::1",
        "port": 0,
        "path": "/x",
        "allowed_hosts": ("a:*",),
        "allowed_origins": ("http://a",),
        "forwarded_allow_ips": "*",
        "shutdown_timeout": 9.0,
        "live": None,
    }
    changed = served[0].options["limits"]
    assert (changed.sessions, changed.calls, changed.streams) == (Limit(1, 2), Limit(9, 3), Limit(50, 12))


@pytest.mark.spec("DIA-3")
@pytest.mark.parametrize(
    ("arguments", "control"), [(("--live", "shop:tools"), False), (("shop:tools", "--live=control"), True)]
)
def test_a_live_page_is_served_on_request_and_changes_nothing_unless_that_is_asked_for_too(
    shop: Path, served: list[Served], arguments: tuple[str, ...], control: bool
) -> None:
    assert serve_http(*arguments).endswith("; live page at http://here/live/; serving http://here/mcp\n")
    assert served[0].address["live"].control is control


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("shop:fail",), "toolfold: shop:fail raised RuntimeError: the till is locked (shop.py, line "),
        (("shop:tools", "--profile", "tills"), "There is no profile 'tills'; the profiles are: look, till.\n"),
        (("shop:tools", "--answer-tokens", "5"), "answer_tokens must be at least 1200, not 5."),
        (("shop:tools", "--host", "0.0.0.0", "--port", "0"), "--allow-host"),
        (("shop:tools", "--host", "0.0.0.0", "--live"), "0.0.0.0 can be reached from other machines: say with auth"),
    ],
)
@pytest.mark.spec("ERR-2")
def test_a_target_that_cannot_be_served_fails_with_the_reason(
    shop: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke("serve", *arguments, "--http")
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


@pytest.mark.spec("SAF-7")
@pytest.mark.parametrize(("name", "option"), [("AUTH", "--auth"), ("PORT", "--port"), ("LIMIT", "--limit")])
def test_an_option_that_the_environment_sets_to_nothing_is_refused(
    shop: Path, served: list[Served], monkeypatch: pytest.MonkeyPatch, name: str, option: str
) -> None:
    monkeypatch.setenv(f"TOOLFOLD_{name}", " ")
    result = invoke("serve", "shop:tools")
    assert (result.exit_code, served) == (2, [])
    assert f"TOOLFOLD_{name} is empty: give it a value for {option}, or unset it." in result.stderr


def test_each_option_is_below_one_heading_of_the_help() -> None:
    lines = invoke("serve", "--help").stdout.splitlines()
    headings = [line.strip().removesuffix(":") for line in lines if re.fullmatch(r"[A-Z].*:", line)]
    assert [heading for heading in headings if heading in SECTIONS] == list(SECTIONS)
    known = {option.opts[-1].lstrip("-") for option in serve_command.params if option.param_type_name == "option"}
    placed = " ".join(SECTIONS.values()).split()
    assert len(placed) == len({*placed})
    assert {*placed} <= known
    shown = [line.split()[0] for line in lines if line.startswith("  --")]
    assert len(shown) == len({*shown})
