"""Commands on the tools of another server, which is a process of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.support import RAW, invoke
from toolfold_cli.targets import GatewayOptions, open_target, parse_target


def test_the_advice_for_a_gateway_is_an_option_of_the_command_line(shop: Path) -> None:
    (shop / "groups.toml").write_text('[groups.issues]\ntools = ["issue*"]\n')
    options = ("--groups", "groups.toml", "--control", "per_group", "--control-visibility", "always")
    result = invoke("inspect", *options, "--", *RAW, "words")
    advice = "What costs less: larger groups or --control open_group or --control-visibility relevant.\n"
    assert advice in result.stdout


@pytest.mark.spec("GWY-5")
def test_a_server_is_inspected_through_the_gateway_and_its_broken_tools_are_warned_of(shop: Path) -> None:
    result = invoke("inspect", "--json", "--control", "none", "--", *RAW, "broken")
    assert result.exit_code == 0
    names = [tool["name"] for group in json.loads(result.stdout)["groups"] for tool in group["tools"]]
    assert {"good", "bad_schema", "array_root"} <= set(names)
    assert "toolfold: The tool 'array_root' is served without what clients would refuse in its input" in result.stderr
    assert "toolfold: The tool number 8 of the server's list has no name, so it is left out." in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.spec("GWY-5")
def test_an_active_server_stands_for_its_groups_where_it_is_divided(shop: Path) -> None:
    program, *arguments = RAW
    servers = {name: {"command": program, "args": [*arguments, name]} for name in ("words", "plain")}
    groups = "[groups.text]\n[groups.'text.issues']\ntools = ['words__issue*']\n[groups.rest]\ntools = ['words__*']\n"
    entries = [
        f"[upstreams.{name}]\ncommand = {json.dumps([program, *given['args']])}" for name, given in servers.items()
    ]
    (shop / "gateway.toml").write_text("\n".join([*entries, groups]))
    for given, active in (("words", ["rest", "text", "text.issues"]), ("plain", ["plain"]), ("rest", ["rest"])):
        report = json.loads(invoke("inspect", "gateway.toml", "--json", "--active", given).stdout)
        assert sorted(report["active"]) == active
        assert "open" in invoke("diagram", "gateway.toml", "--active", given, "--format", "tree").stdout
    assert "There is no group 'others'." in invoke("inspect", "gateway.toml", "--active", "others").stderr


@pytest.mark.spec("PRO-2", "GWY-2", "GWY-5")
def test_a_profile_of_a_gateway_file_is_chosen_by_name_and_an_unknown_one_ends_with_1_and_the_list(shop: Path) -> None:
    command = json.dumps([*RAW, "words"])
    (shop / "gateway.toml").write_text(
        f'[upstream]\ncommand = {command}\n[groups.issues]\ntools = ["issue*"]\n[groups.others]\n'
        '[profiles.few]\navailable = ["issues"]\n[profiles.all]\navailable = ["*"]\n'
    )
    for profile, groups in (
        ((), [(None, 1), ("issues", 6), ("others", 0)]),
        (("--profile", "few"), [(None, 1), ("issues", 6)]),
    ):
        report = json.loads(invoke("inspect", "gateway.toml", *profile, "--json").stdout)
        assert [(group["path"], len(group["tools"])) for group in report["groups"]] == groups
    listed = json.loads(invoke("profiles", "gateway.toml", "--json").stdout)
    assert sorted(profile["name"] for profile in listed) == ["all", "few"]
    for command in ("inspect", "serve"):
        refused = invoke(command, "gateway.toml", "--profile", "fewer")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "There is no profile 'fewer'; the profiles are: all, few." in refused.stderr


@pytest.mark.parametrize("behaviour", ["crash", "talks"])
def test_a_server_that_does_not_start_ends_with_1(shop: Path, behaviour: str) -> None:
    result = invoke("inspect", "--", *RAW, behaviour)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "toolfold: The MCP server " in result.stderr
    assert "did not start" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_server_that_does_not_answer_is_given_up_in_time(shop: Path) -> None:
    result = invoke("inspect", "--start-timeout", "0.2", "--", *RAW, "hang")
    assert result.exit_code == 1
    assert "did not answer within 0.2 seconds" in result.stderr


@pytest.mark.spec("GWY-1", "GWY-2")
async def test_a_command_is_opened_with_the_options_of_the_command_line(shop: Path) -> None:
    (shop / "groups.toml").write_text("[budgets]\ngroup_tokens = 85\n")
    options = GatewayOptions(groups=Path("groups.toml"), control="load_tool_group", max_active=1, start_timeout=20)
    target = parse_target(None, (*RAW, "words"), options)
    async with open_target(target, options) as opened:
        assert opened.gateway is not None
        assert opened.gateway.report.instructions == "Be kind."
        assert opened.tools.catalog.max_active == 1
        assert "load_tool_group" in opened.tools.catalog.tools
        assert [group.path for group in opened.tools.catalog.groups] == ["raw"]


@pytest.mark.spec("DIA-1")
def test_the_tools_of_another_server_are_drawn_by_their_groups(shop: Path) -> None:
    (shop / "groups.toml").write_text('[groups.issue]\ntools = ["issue*"]\n')
    result = invoke("diagram", "--format", "tree", "--groups", "groups.toml", "--", *RAW, "words")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == "raw: 1 group, 1 tool in no group"
    assert result.stdout.splitlines()[1].startswith("└─ ○ issue · 6 tools")


@pytest.mark.spec("GWY-2", "GWY-3", "GWY-4", "GWY-5", "GWY-6")
def test_the_configuration_of_a_client_is_inspected_server_by_server_and_what_is_wrong_is_said(shop: Path) -> None:
    program, *arguments = RAW
    servers = {
        "words": {"command": program, "args": [*arguments, "words"]},
        "plain": {"command": program, "args": [*arguments, "plain"]},
        "wrong": {"command": "no-such-program"},
        "broken": {"command": program, "args": [*arguments, "crash"]},
    }
    (shop / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    result = invoke("inspect", "mcp.json", "--json")
    report = json.loads(result.stdout)
    assert [(group["path"], len(group["tools"])) for group in report["groups"]] == [
        *((None, 0), ("broken", 0), ("plain", 3), ("words", 7), ("wrong", 0)),
    ]
    columns = ("name", "tools", "offered", "listed")
    assert [tuple(server[column] for column in columns) for server in report["servers"]] == [
        ("words", 7, 7, 0),
        ("plain", 3, 3, 0),
        ("wrong", 0, None, 0),
        ("broken", 0, None, 0),
    ]
    assert [server["reason"] for server in report["servers"][:2]] == ["", ""]
    assert [server["state"] for server in report["servers"][2:]] == ["backing off"] * 2
    assert "it ended before it answered" in report["servers"][3]["reason"]
    assert sum(server["tokens"]["before"] for server in report["servers"]) == report["tokens"]["before"]
    reason = "the program no-such-program is not installed; install it, or give its full path."
    assert f"The MCP server 'wrong' did not start: {reason}" in result.stderr
    *lines, failed, ended = invoke("inspect", "mcp.json").stdout.splitlines()
    assert [line.split()[:2] for line in lines[-3:]] == [["SERVER", "TOOLS"], ["words", "7"], ["plain", "3"]]
    assert failed == f"The server wrong is backing off: {reason}"
    assert ended.startswith("The server broken is backing off: it ended before it answered")


@pytest.mark.spec("GWY-5")
def test_init_measures_by_starting_the_servers_and_remembers_it(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shop / "cache"))
    program, *arguments = RAW
    (shop / "mcp.json").write_text(
        json.dumps({"mcpServers": {"words": {"command": program, "args": [*arguments, "words"]}}})
    )
    assert "not measured" in invoke("init", "--config", "mcp.json", "--dry-run").stdout
    result = invoke("init", "--config", "mcp.json", "--dry-run", "--measure")
    assert result.exit_code == 0
    assert invoke("init", "--config", "mcp.json", "--dry-run").stdout == result.stdout
    assert [line.split() for line in result.stdout.splitlines()[1:3]] == [
        ["SERVER", "TOOLS", "TOKENS"],
        ["words", "7", "~137"],
    ]
    assert re.search(r"^  ~137 tokens of tool definitions become ~\d+ at first\.$", result.stdout, re.MULTILINE)
    assert "\n  That is more: so few tools cost less as they are.\n" in result.stdout


@pytest.mark.spec("SAF-6")
@pytest.mark.parametrize(
    "command",
    [
        ("inspect",),
        ("inspect", "--tools"),
        ("inspect", "--json"),
        ("diagram",),
        ("diagram", "--format", "mermaid"),
        ("profiles",),
        ("approve", "--dry-run"),
    ],
    ids=" ".join,
)
def test_texts_of_servers_are_shown_and_do_nothing_to_a_terminal(command: tuple[str, ...], shop: Path) -> None:
    program, *arguments = RAW
    servers = {name: {"command": program, "args": [*arguments, "hostile"]} for name in ("evil", "[red]../x")}
    (shop / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    result = invoke(*command, "mcp.json")
    assert result.exit_code == 0
    shown = [line for line in (result.stdout + result.stderr).split("\n") if not line.isprintable()]
    assert shown == []
    assert not any(line.startswith("forged") for line in result.stdout.splitlines())


@pytest.mark.spec("SAF-6")
def test_the_reason_why_a_server_did_not_start_does_nothing_to_a_terminal(shop: Path) -> None:
    result = invoke("inspect", "--", *RAW, "refuses-hostile")
    assert result.exit_code == 1
    assert "\\x1b[31mred" in result.stderr
    assert all(line.isprintable() for line in result.stderr.split("\n"))
