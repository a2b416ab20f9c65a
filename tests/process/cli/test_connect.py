"""`toolfold connect`: standard input and output as a bridge to a server at a URL."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from mcp import Client, StdioServerParameters

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import names_of, over_http
from tests.cli.support import PROGRAM, SECONDS

pytestmark = pytest.mark.spec("GWY-10")


def bridge_to(url: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable, args=["-m", "toolfold_cli", "connect", url], env=dict(os.environ)
    )


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_clients_that_start_a_command_share_a_server_and_have_a_session_each(era: str) -> None:
    async with (
        over_http(make_desk()) as url,
        Client(bridge_to(url), mode=era) as one,
        Client(bridge_to(url), mode=era) as two,
    ):
        before = await names_of(two)
        opener = next(name for name in before if name.endswith(".activate"))
        assert not (await one.call_tool(opener)).is_error
        assert await names_of(two) == before
        assert (await names_of(one) != before) is (era == "legacy")


def connect(url: str) -> subprocess.CompletedProcess[str]:
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    return subprocess.run(
        [*PROGRAM, "connect", url], input=request, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def test_a_url_at_which_nothing_answers_is_named_and_what_to_do() -> None:
    ended = connect("http://127.0.0.1:9/mcp")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert ended.stderr == (
        "toolfold: Nothing answers at http://127.0.0.1:9/mcp (OSError); start it there: toolfold serve TARGET --http\n"
    )


def test_what_is_no_url_is_a_usage_error() -> None:
    ended = connect("somewhere")
    assert ended.returncode == 2
    assert "'somewhere' is not the URL of an MCP server" in ended.stderr
