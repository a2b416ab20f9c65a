"""`toolfold conform` on servers, which are processes of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import invoke
from tests.preloaded import forked, forked_toolfold
from tests.process.specs.support import FIXTURE, environment
from toolfold_specs.served import Served

PIPED = Path(__file__).parents[1] / "specs" / "targets" / "piped.py"


@pytest.mark.spec("CNF-1")
def test_a_server_made_for_the_kit_is_driven_over_mcp_in_both_eras(shop: Path) -> None:
    (shop / "systems.py").write_text("from tests.specs.made import BrokenDriver\n")
    invoke("conform", "--layers", "vectors", "systems:BrokenDriver", "-o", "reports")
    result = invoke("conform", "--replay", "reports/failure.json", "--", *forked(*FIXTURE))
    assert result.stdout == ("Not reproduced: INV-2 is no longer violated (stdio, legacy / stdio, modern).\n")
    assert result.exit_code == 0


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_tool_set_is_served_and_checked_as_clients_see_it(shop: Path, transport: str) -> None:
    result = invoke(
        "conform", "shop:tools", "--transport", transport, "--era", "legacy", "--layers", "exhaustive", "--json"
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    verdicts = {line.get("id"): line.get("verdict") for line in lines}
    assert lines[0]["settings"] == [f"{transport}, legacy"]
    assert (verdicts["ACT-4"], verdicts["INV-2"], result.exit_code) == ("held", "held", 0)
    assert "the server was not made for the kit" in lines[0]["left_out"]["hooks"]


@pytest.mark.spec("CNF-2")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--era", "both"), "/no/such/program"),
        ((), "Nothing could be checked.\nstdio, legacy: It can't be started: No such file"),
    ],
)
def test_a_server_that_cannot_be_started_has_status_2(arguments: tuple[str, ...], message: str) -> None:
    result = invoke("conform", "--layers", "vectors", *arguments, "--", "/no/such/program")
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


@pytest.mark.spec("CNF-1", "CNF-2")
def test_a_command_that_speaks_the_driver_protocol_is_driven_over_stdio() -> None:
    result = invoke("conform", "--layers", "vectors", "--json", "--driver", "--", *forked(str(PIPED)))
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    verdicts = {line.get("id"): line.get("verdict") for line in lines}
    assert lines[0]["settings"] == ["driver over stdio"]
    assert (verdicts["ACT-4"], verdicts["INV-2"], result.exit_code) == ("held", "held", 0)


@pytest.mark.spec("CNF-1", "CNF-2")
def test_a_tool_of_a_server_that_speaks_the_driver_protocol_is_driven_over_http(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = "from verification.library.driver import CoreDriver\n"
    tools = "from tests.specs.test_driver_protocol import behind_a_tool\ntools = behind_a_tool(CoreDriver())\n"
    (shop / "driven.py").write_text(core + tools)
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    serve = (*forked_toolfold(), "serve", "driven:tools", "--http", "--port", "0")
    with Served(serve) as served:
        result = invoke("conform", "--layers", "vectors", "--driver", served.url())
    assert "settings: driver over MCP" in result.stdout
    assert "It conforms" in result.stdout
    assert result.exit_code == 0


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--", "cat"), "Its response to hello breaks the driver protocol"),
        (("http://127.0.0.1:9/mcp",), "http://127.0.0.1:9/mcp can't be reached"),
        (("--", "true"), "It ended with status 0 before it answered hello."),
        (("--era", "legacy", "--", "cat"), "--driver needs no --era, --transport or --describe: leave them out."),
        (("shop:tools",), "--driver is for a command after --, or the URL of an MCP server; shop:tools is neither."),
    ],
)
def test_what_does_not_speak_the_driver_protocol_has_status_2(
    shop: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = invoke("conform", "--driver", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
