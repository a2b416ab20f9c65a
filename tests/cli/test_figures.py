"""What `toolfold init` says before it asks: figures, why servers stay, and what is about tools by names."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.initialising import init, read, write
from tests.cli.support import invoke
from toolfold import ToolfoldError
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig
from toolfold_adapters.gateway.stored import DefinitionCache, stored_folder
from toolfold_adapters.gateway.upstream.definitions import Definitions, Known

pytestmark = pytest.mark.spec("GWY-13")

TOOL = {"name": "search", "description": "Searches all issues.", "inputSchema": {"type": "object"}}
OFFERED = Definitions(name="x", tools=[TOOL, {**TOOL, "name": "find"}])


def server(name: str) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-m", name]}


def servers(*names: str) -> dict[str, Any]:
    return {"mcpServers": {name: server(name) for name in names}}


def remember(*names: str) -> None:
    """Have the definitions of servers cached, as after they were asked."""
    cache = DefinitionCache(stored_folder("definitions"))
    known = Known(definitions=OFFERED, modern=False, able=(), capabilities={})
    for name in names:
        cache.write(UpstreamConfig(command=(sys.executable, "-m", name)), known)


def line_of(output: str, first: str) -> list[str]:
    return next(line.split() for line in output.splitlines() if line.split()[:1] == [first])


@pytest.mark.spec("GWY-5")
def test_a_dry_run_has_a_figure_for_each_server_that_was_ever_asked_and_a_total(home: Path) -> None:
    write(home / ".cursor" / "mcp.json", servers("a", "b"))
    write(home / ".claude.json", servers("c"))
    remember("a", "c")
    output = init("--dry-run")
    assert line_of(output, "a")[:2] == ["a", "2"]
    assert line_of(output, "b") == ["b", "not", "measured"]
    assert "2 of 3 servers measured: ~" in output
    assert "Add --measure to ask the others, which starts them." in output


@pytest.mark.spec("GWY-5")
def test_only_servers_that_were_never_asked_are_started_each_with_a_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []

    async def ask(config: GatewayConfig) -> Mapping[str, Definitions]:
        started.extend(config.upstreams)
        if "dead" in config.upstreams:
            raise ToolfoldError("The MCP server 'dead' did not start: it is dead.")
        return dict.fromkeys(config.upstreams, OFFERED)

    monkeypatch.setattr("toolfold_cli.costs._asked", ask)
    write(home / ".cursor" / "mcp.json", servers("a", "b", "dead"))
    remember("a")
    result = invoke("init", "--dry-run", "--measure")
    assert sorted(started) == ["b", "dead"]
    assert sorted(result.stderr.splitlines()) == ["  The MCP server 'dead' did not start: it is dead.", "  b: 2 tools"]
    assert line_of(result.stdout, "dead") == ["dead", "no", "answer"]
    assert "2 of 3 servers measured" in result.stdout


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (
            "ab",
            ("--dry-run",),
            "None of the 2 servers was measured: add --measure to start them and see what they cost.",
        ),
        ("a", ("--dry-run",), "The server was not measured: add --measure to start it and see what it costs."),
        ("ab", ("--yes",), "None of the 2 servers was measured."),
    ],
)
def test_where_no_server_was_measured_that_is_said_without_others(
    home: Path, names: str, options: tuple[str, ...], said: str
) -> None:
    write(home / ".cursor" / "mcp.json", servers(*names))
    assert said in init(*options).splitlines()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({**server("a"), "disabled": True}, "a stays: switched off."),
        ({"command": "no-such-program"}, "mcpServers.a, command: the program no-such-program is not installed"),
        ({"command": 1}, "mcpServers.a: command: must be"),
    ],
)
def test_a_section_none_of_whose_servers_move_says_why_without_a_table(
    home: Path, entry: dict[str, Any], said: str
) -> None:
    file = write(home / ".cursor" / "mcp.json", {"mcpServers": {"a": entry}})
    before = file.read_bytes()
    output = init("--yes")
    assert said in output
    assert "SERVER" not in output
    assert output.rstrip().endswith("There is nothing to change.")
    assert file.read_bytes() == before


RULES: dict[str, tuple[str, Any, str]] = {
    "allowed tools of Claude Code": (
        ".claude.json",
        {"projects": {"/x": {"allowedTools": ["mcp__my-web__search", "Bash(ls)"]}}},
        "projects./x.allowedTools: mcp__my-web__search: tools have other names behind Toolfold. Set it anew.",
    ),
    "permissions of Claude Code": (
        ".claude/settings.json",
        {"permissions": {"allow": ["mcp__my-web", "mcp__my-website__x"], "deny": ["mcp__my-web__drop"]}},
        "permissions.allow: mcp__my-web: tools have",
    ),
    "approved servers of a project": (
        "project/.claude/settings.local.json",
        {"enabledMcpjsonServers": ["my-web", "other"]},
        "enabledMcpjsonServers: my-web: tools have",
    ),
    "permissions of Kilo": (
        ".config/kilo/kilo.json",
        {"permission": {"my-web_search": "allow", "bash": "ask"}},
        "permission: my-web_search: tools have",
    ),
    "servers that Gemini CLI may use": (
        ".gemini/settings.json",
        {"mcp": {"allowed": ["my-web"]}},
        "mcp.allowed: my-web: tools have",
    ),
    "rules of Kimi Code": (
        ".kimi-code/config.toml",
        "[[permission.rules]]\ndecision = 'allow'\npattern = 'mcp__my-web__*'\n",
        "permission.rules: mcp__my-web__*: tools have",
    ),
}
FILES = {".claude.json": "mcpServers", ".gemini/settings.json": "mcpServers", ".kimi-code/mcp.json": "mcpServers"}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_about_a_server_that_moves_is_said_and_left_as_it_is(home: Path, name: str) -> None:
    place, rules, said = RULES[name]
    entry = {"type": "local", "command": [sys.executable]}
    for file, section in FILES.items():
        write(home / file, {section: {"my-web": server("x")}, **(rules if file == place else {})})
    write(home / ".config/kilo/kilo.json", {"mcp": {"my-web": entry}, **(rules if "kilo" in place else {})})
    if place not in (*FILES, ".config/kilo/kilo.json"):
        write(home / place, rules)
    output = init("--yes")
    assert f"{home / place}, {said}" in output
    if isinstance(rules, dict):
        assert rules.items() <= read(home / place).items()


@pytest.mark.parametrize(
    ("place", "rules"),
    [
        (".claude.json", {"projects": {"/x": {"disabledMcpServers": ["a"]}}}),
        (".gemini/settings.json", {"mcp": {"excluded": ["a"]}}),
    ],
)
def test_a_server_that_its_client_has_switched_off_elsewhere_stays(home: Path, place: str, rules: Any) -> None:
    file = write(home / place, {**servers("a", "b"), **rules})
    assert f"stays: switched off in {file}" in " ".join(init("--yes").split())
    assert sorted(json.loads(file.read_text())["mcpServers"]) == ["a", "toolfold"]
