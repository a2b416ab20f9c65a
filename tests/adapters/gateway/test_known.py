"""Well-known servers, divided as a person would divide them: each row, checked against the names of real tools."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.gateway.registering import answering, homes, offering, tool
from toolfold import ToolSet
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig
from toolfold_adapters.gateway.known import KnownServer, known_servers
from toolfold_adapters.gateway.registration import UpstreamRegistration
from toolfold_adapters.mcp.existing.grouping import matches

pytestmark = pytest.mark.spec("GWY-2")

SERVERS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_name("known_tools.toml").read_text(encoding="utf-8")
)
TEXT = "x" * 500
"""A tool has some 150 tokens with it, as those of these servers have in the middle."""
MOST = 15
"""How many of them are within the budget, or nearly."""


DIVIDED = [row for row in known_servers() if row.parts]


def names(server: str) -> list[str]:
    return SERVERS[server]["tools"].split()


def divided(tools: list[str], called: str, name: str = "") -> ToolSet:
    place: dict[str, Any] = {"url": called} if called.startswith("https:") else {"command": tuple(called.split())}
    config = GatewayConfig(upstreams={"s": UpstreamConfig(**place), "t": UpstreamConfig(command=("t",))})
    made = config.new_tool_set("gateway")
    offered = offering(*(tool(one, TEXT) for one in tools), name=name)
    UpstreamRegistration(made, config, answering).register_tools({"s": offered, "t": offering("other")})
    return made


def row_of(server: str) -> KnownServer:
    texts = (SERVERS[server]["name"], SERVERS[server]["called"])
    return next(row for row in known_servers() if row.is_called(texts))


def test_there_are_rows_for_more_than_thirty_servers_and_the_tools_of_each() -> None:
    rows = {row.known_as for row in DIVIDED}
    assert len(rows) > 30
    assert {row_of(server).known_as for server in SERVERS} == rows


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("by", ["name", "called"])
def test_a_known_server_has_the_parts_of_its_row_by_its_name_or_by_what_starts_it(server: str, by: str) -> None:
    given, row = SERVERS[server], row_of(server)
    if not row.is_called([given[by]]):
        assert by == "name"
        return
    called = {"name": given["name"], "called": "program"} if by == "name" else {"called": given["called"]}
    tools = divided(names(server), **called)
    parts: dict[str, list[str]] = {}
    for name, path in homes(tools).items():
        parts.setdefault(path or "", []).append(name)
    inner = {path: own for path, own in parts.items() if path.startswith("s.")}
    assert {path.split(".")[1] for path in inner} <= {*row.parts}
    assert len(inner) > 1
    assert all(len(own) >= 3 for own in inner.values())
    assert all(len(own) <= MOST for own in parts.values()), {path: len(own) for path, own in parts.items()}
    for path in inner:
        if path.count(".") == 1:
            assert tools.catalog.group(path).description == row.descriptions[path.removeprefix("s.")]
    assert not [path for path in inner if re.search(r"\d$|other|misc|general|_and_", path)]


def test_each_pattern_of_a_row_takes_tools_that_the_server_has() -> None:
    for row in DIVIDED:
        found = [name for server in SERVERS if row_of(server) is row for name in names(server)]
        idle = [glob for globs in (row.own, *row.parts.values()) for glob in globs if not matches(found, [glob])]
        assert not idle, (row.known_as, idle)


@pytest.mark.parametrize("server", SERVERS)
def test_most_parts_of_a_row_are_there_and_hardly_a_tool_is_in_none(server: str) -> None:
    row, own = row_of(server), homes(divided(names(server), SERVERS[server]["called"], SERVERS[server]["name"]))
    bare = [name.removeprefix("s__") for name, path in own.items() if path == "s"]
    left = [name for name in bare if not matches([name], row.own)]
    assert len(left) <= max(3, len(names(server)) // 10), left


@pytest.mark.parametrize("called", ["npx @playwright/mcp@latest", "my-playwright-mcpx", "program"])
def test_a_server_whose_tools_are_others_is_divided_like_any_other_one(called: str) -> None:
    tools = [
        f"{verb}_{noun}"
        for noun in ("invoice", "ledger")
        for verb in ("get", "list", "add", "close", "pay", "find", "send")
    ]
    assert set(homes(divided(tools, called)).values()) == {"s.invoice", "s.ledger", "t"}


def test_only_a_whole_word_is_a_name_and_upper_case_is_the_same() -> None:
    row = KnownServer(known_as=("@a/b", "desk"), parts={}, descriptions={})
    for text in ("npx @a/b@1", "DESK", "/opt/desk/run.js", "https://desk.example", "x/desk:latest"):
        assert row.is_called([text])
    for text in ("desktop", "my-desk", "desk_2", "", "@a/bc"):
        assert not row.is_called([text])


@pytest.mark.spec("GWY-14")
def test_a_row_says_how_a_server_is_divided_or_whether_sessions_share_it_and_no_name_is_in_two() -> None:
    rows = known_servers()
    assert all(row.parts or row.shared is not None for row in rows)
    called = [name.lower() for row in rows for name in row.known_as]
    assert sorted({*called}) == sorted(called)
