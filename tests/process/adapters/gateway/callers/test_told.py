"""What a client that can show no pages reads where its user has to log in first: how he does so (SPEC GWY-19)."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client

from tests.cli.support import server
from tests.process.adapters.gateway.callers.test_each_as_himself import SECONDS, World, said

pytestmark = [pytest.mark.spec("GWY-19"), pytest.mark.parametrize("mode", ["legacy", "auto"])]

BROWSER = """
import sys
from urllib.parse import parse_qs, urlencode, urlsplit
from urllib.request import urlopen
asked = parse_qs(urlsplit(sys.argv[1]).query)
said = urlencode({"error": "access_denied", "state": asked["state"][0]})
urlopen(f"{asked['redirect_uri'][0]}?{said}").read()
"""
"""A program that opens a page to log in at as somebody who does not want to."""


@pytest.fixture
async def made(free_tcp_port_factory: Callable[[], int]) -> AsyncGenerator[World]:
    world = World(free_tcp_port_factory)
    with anyio.fail_after(SECONDS):
        async with world.stack:
            await world.start()
            yield world


@pytest.mark.parametrize(
    ("name", "how"),
    [("board", "`toolfold serve` with --public-url"), ("wiki", "`toolfold login FILE --server wiki --as alice`")],
)
async def test_where_a_gateway_has_no_pages_a_caller_reads_what_its_operator_can_do(
    made: World, mode: str, name: str, how: str
) -> None:
    base = await made.gateway(pages=False)
    async with made.client(base, "alice", mode) as alice:
        told = await said(alice, f"{name}__whoami")
    assert how in told
    assert "/login/" not in told


async def test_the_user_of_a_gateway_of_his_own_reads_the_command_that_logs_him_in(
    made: World, mode: str, tmp_path: Path
) -> None:
    """Over stdio, for a login as for a token that he makes himself."""
    script, file = tmp_path / "browser.py", tmp_path / "gateway.toml"
    script.write_text(BROWSER)
    board, wiki = (made.upstreams[name].url for name in ("board", "wiki"))
    file.write_text(f'[upstreams.board]\nurl = "{board}"\n[upstreams.wiki]\nurl = "{wiki}"\ntoken = {{}}\n')
    process = server("serve", str(file), cwd=tmp_path)
    process.env = {**(process.env or {}), "BROWSER": f"{sys.executable} {script} %s"}
    async with Client(process, mode=mode) as client:
        told = {name: await said(client, f"{name}__whoami") for name in ("board", "wiki")}
    for name, text in told.items():
        assert f"`toolfold login FILE --server {name}`" in text
