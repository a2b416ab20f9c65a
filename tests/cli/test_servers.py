"""A TARGET that is an existing server of the MCP SDK (SPEC INT-1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import invoke

HEAD = "from mcp.server import MCPServer\nfrom toolfold_adapters.mcp import group_server, in_group\n"
SERVER = f'''{HEAD}
mcp = MCPServer("mine")

@mcp.tool()
def ping() -> str:
    """Answer."""
    return "pong"
'''
MARKED = f'''{SERVER}
@mcp.tool(meta=in_group("database"))
def query(x: int) -> int:
    """Query."""
    return x
'''
GROUPED = f'{MARKED}\ngroup_server(mcp, {{"database": "query", "rest": "ping"}})\n'
MANY = f"""{HEAD}
mcp = MCPServer("many")
for noun in ("issue", "release", "branch", "user"):
    for verb in ("create", "list", "close", "update"):
        mcp.add_tool(lambda x: x, name=f"{{verb}}_{{noun}}", description=("About " + noun + ". ") * 120)
"""
LOW = """
from tests.adapters.mcp.existing import listing, plain_tool
low = listing(plain_tool("a", tags=["x"]), plain_tool("b"), plain_tool("c"), pages=2)
"""


def groups(text: str) -> dict[str | None, list[str]]:
    """Return the tools of each group, as `inspect` shows the server in a file."""
    Path("server.py").write_text(text, encoding="utf-8")
    result = invoke("inspect", "server.py", "--json")
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    return {group["path"]: [tool["name"] for tool in group["tools"]] for group in report["groups"]}


@pytest.mark.spec("INT-1")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SERVER, {None: ["ping"]}),
        (MARKED, {None: ["ping"], "database": ["query"]}),
        (GROUPED, {None: [], "database": ["query"], "rest": ["ping"]}),
        (LOW, {None: ["b", "c"], "x": ["a"]}),
    ],
    ids=["few tools", "marks", "groups of its own", "low-level, tags"],
)
def test_a_server_is_a_target_with_the_groups_that_it_has(
    shop: Path, text: str, expected: dict[str | None, list[str]]
) -> None:
    assert groups(text) == expected


@pytest.mark.spec("INT-1", "GWY-2")
def test_a_server_with_many_tools_and_no_marks_is_divided_by_their_names(shop: Path) -> None:
    found = groups(MANY)
    assert found[None] == []
    assert sorted(found["issue"]) == ["close_issue", "create_issue", "list_issue", "update_issue"]


@pytest.mark.spec("INT-1", "GWY-2")
def test_a_server_with_many_tools_whose_names_tell_no_parts_is_one_group(shop: Path) -> None:
    one = MANY.replace('"issue", "release", "branch", "user"', '"issue",').replace("* 120", "* 300")
    found = groups(f"{one}    mcp.add_tool(print, name='run')\n")
    assert found == {None: [], "many": ["close_issue", "create_issue", "list_issue", "run", "update_issue"]}


@pytest.mark.spec("INT-1", "ERR-2")
def test_options_of_tool_sets_are_refused_for_a_server(shop: Path) -> None:
    (shop / "server.py").write_text(SERVER, encoding="utf-8")
    result = invoke("serve", "server.py:mcp", "--active", "database")
    assert result.exit_code == 1
    assert "--active is for tool sets; mine is a server: give it to group_server" in result.stderr
