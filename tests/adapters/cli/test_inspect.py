"""`toolfold inspect` and `toolfold profiles`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Literal

import pytest
from anyio import to_thread
from mcp import Client

from tests.adapters.cli.support import RAW, invoke, run
from toolfold_adapters.cli.inspection import view_at_start
from toolfold_adapters.demo import library_desk
from toolfold_adapters.mcp import build_server
from toolfold_adapters.targets import open_target, parse_target
from toolfold_adapters.tokens import approximate_tokens, measure, saved_percent


def rows(text: str) -> list[list[str]]:
    """The cells of a table, by line, without the indentation of the first one."""
    return [line.split() for line in text.splitlines() if line]


@pytest.mark.spec("GWY-5")
def test_the_table_shows_groups_as_a_tree_with_their_tools_and_tokens(shop: Path) -> None:
    result = invoke("inspect", "shop:tools")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert rows(lines[0]) == [["GROUP", "STATE", "TOOLS", "LISTED", "BEFORE", "AFTER", "DESCRIPTION"]]
    for line, label in zip(lines[1:6], ("(in no group)", "cellar", "orders", "  returns", "total"), strict=True):
        assert line.startswith(f"{label} ")
    assert lines[4].split()[:4] == ["returns", "locked", "1", "2"]
    assert lines[-1] == "Only one at a time: cellar, orders"


@pytest.mark.spec("GWY-5")
def test_the_totals_are_the_sums_of_the_groups(shop: Path) -> None:
    report = json.loads(invoke("inspect", "shop:tools", "--json").stdout)
    for side in ("before", "after"):
        assert report["tokens"][side] == sum(group["tokens"][side] for group in report["groups"])
    assert report["tools"] == sum(len(group["tools"]) for group in report["groups"]) == 4
    assert report["listed"] == sum(group["listed"] for group in report["groups"])
    assert report["tokens"]["saved_percent"] == saved_percent(report["tokens"]["before"], report["tokens"]["after"])


def test_the_table_shows_what_is_said_of_a_group_in_one_line(shop: Path) -> None:
    (shop / "told.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('told')\n"
        "tools.register_group('empty', 'Nothing yet.\\n  Needs the program [rust].')\ntools.register_group('silent')\n"
    )
    lines = invoke("inspect", "told:tools").stdout.splitlines()
    assert lines[2].endswith("  Nothing yet. Needs the program [rust].")
    assert lines[2].split()[:3] == ["empty", "inactive", "0"]
    assert re.fullmatch(r"silent +inactive +0 +2 +~0 +~\d+", lines[3])


def test_json_is_stable(shop: Path) -> None:
    first, second = (run("inspect", "shop:tools", "--json", cwd=shop, PYTHONHASHSEED=seed).stdout for seed in "12")
    assert first == second
    report = json.loads(first)
    assert list(report) == ["name", "active", "tools", "listed", "tokens", "groups", "exclusions"]
    assert report["groups"][1] == {
        "path": "cellar",
        "parent": None,
        "description": "Count what is in store",
        "state": "inactive",
        "tokens": report["groups"][1]["tokens"],
        "listed": 2,
        "tools": [{"name": "cellar.count", "listed": False, "tokens": report["groups"][1]["tokens"]["before"]}],
    }


def test_groups_can_be_opened_first_and_no_hook_runs(shop: Path) -> None:
    result = invoke("inspect", "shop:tools", "--active", "orders, orders.returns", "--tools")
    assert "  * orders.place\n" in result.stdout
    assert "  - cellar.count\n" in result.stdout
    assert "with orders, orders.returns open" in result.stdout
    again = invoke("inspect", "shop:tools", "--active", "orders", "--active", "orders.returns", "--tools")
    assert again.stdout == result.stdout
    done = run("inspect", "shop:tools", "--active", "cellar", cwd=shop)
    assert done.returncode == 0
    assert "the cellar is lit" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("active", "said"),
    [
        ("orders.returns", "Group 'orders.returns' can't be activated yet: activate 'orders' first."),
        ("orders,cellar", "leave one out."),
        ("order", "There is no group 'order'. Did you mean 'orders'"),
    ],
)
def test_groups_that_cannot_be_open_are_refused(shop: Path, active: str, said: str) -> None:
    result = invoke("inspect", "shop:tools", "--active", active)
    assert result.exit_code == 1
    assert said in result.stderr
    assert result.stdout == ""


def test_a_profile_shows_what_there_is_under_it(shop: Path) -> None:
    report = json.loads(invoke("inspect", "shop:tools", "--profile", "till", "--json").stdout)
    assert report["active"] == ["orders"]
    report = json.loads(invoke("inspect", "shop:tools", "--profile", "look", "--json").stdout)
    assert [group["path"] for group in report["groups"]] == [None, "cellar"]


def test_a_list_that_costs_more_than_all_tools_is_told(shop: Path) -> None:
    assert "The list costs " in invoke("inspect", "shop:tools").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            "",
            'larger groups or ToolSet(..., control="load_tool_group") or '
            'ToolSet(..., control_visibility="relevant").\n',
        ),
        ("control_visibility='relevant'", 'larger groups or ToolSet(..., control="load_tool_group").\n'),
        ("control='load_tool_group'", "larger groups.\n"),
    ],
)
def test_what_costs_less_is_advised_where_it_is_not_so_already(shop: Path, options: str, said: str) -> None:
    (shop / "few.py").write_text(
        f"from toolfold import ToolSet\ntools = ToolSet('few', {options})\ntools.register_group('g')\n"
        "tools.register('one', print, group='g', input_schema={'type': 'object'})\n"
    )
    assert f"What costs less: {said}" in invoke("inspect", "few:tools").stdout


def test_the_advice_for_a_gateway_is_an_option_of_the_command_line(shop: Path) -> None:
    done = run("inspect", "--control-visibility", "always", "--", *RAW, "words", cwd=shop)
    advice = "What costs less: larger groups or --control load_tool_group or --control-visibility relevant.\n"
    assert advice in done.stdout


def test_a_list_that_costs_less_is_told(shop: Path) -> None:
    result = invoke("inspect", "toolfold_adapters.demo:library_desk")
    assert "% of the tokens are saved at first." in result.stdout


def test_names_are_never_cut_off_without_a_terminal(shop: Path) -> None:
    name = "n" * 60
    (shop / "long.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('long')\npath = None\n"
        f"for _ in range(1):\n    tools.register_group('{name}')\n"
        f"tools.register('{name}', print, group='{name}', input_schema={{'type': 'object'}})\n"
    )
    done = run("inspect", "long:tools", "--tools", cwd=shop, COLUMNS="40", NO_COLOR="1")
    assert f"{name} " in done.stdout
    assert f"{name}.{name}\n" in done.stdout
    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())


def test_what_a_module_prints_stays_out_of_the_output(shop: Path) -> None:
    (shop / "loud.py").write_text("import os\nprint('loud')\nos.system('echo louder')\nfrom shop import tools\n")
    done = run("inspect", "loud:tools", "--json", cwd=shop)
    assert json.loads(done.stdout)["name"] == "shop"
    assert "loud\n" in done.stderr
    assert "louder\n" in done.stderr


@pytest.mark.spec("GWY-5")
def test_a_server_is_inspected_through_the_gateway_and_its_broken_tools_are_warned_of(shop: Path) -> None:
    done = run("inspect", "--json", "--control", "none", "--", *RAW, "broken", cwd=shop)
    assert done.returncode == 0
    names = [tool["name"] for group in json.loads(done.stdout)["groups"] for tool in group["tools"]]
    assert "good" in names
    assert "bad_schema" not in names
    assert "toolfold: The tool 'bad_schema' is left out: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.spec("GWY-2", "GWY-5")
def test_a_gateway_file_is_inspected(shop: Path) -> None:
    command = json.dumps([*RAW, "words"])
    (shop / "gateway.toml").write_text(
        f'[upstream]\ncommand = {command}\n[groups.issues]\ntools = ["issue*"]\n[profiles.all]\nactive = ["issues"]\n'
    )
    report = json.loads(invoke("inspect", "gateway.toml", "--json").stdout)
    assert [(group["path"], len(group["tools"])) for group in report["groups"]] == [(None, 1), ("issues", 6)]
    assert [profile["name"] for profile in json.loads(invoke("profiles", "gateway.toml", "--json").stdout)] == ["all"]


@pytest.mark.spec("PRO-2", "GWY-2")
def test_a_profile_of_a_gateway_file_is_chosen_by_name_and_an_unknown_one_ends_with_1_and_the_list(shop: Path) -> None:
    command = json.dumps([*RAW, "words"])
    (shop / "gateway.toml").write_text(
        f'[upstream]\ncommand = {command}\n[groups.issues]\ntools = ["issue*"]\n[groups.others]\n'
        '[profiles.few]\navailable = ["others"]\n[profiles.all]\navailable = ["*"]\n'
    )
    report = json.loads(invoke("inspect", "gateway.toml", "--profile", "few", "--json").stdout)
    assert [group["path"] for group in report["groups"]] == [None, "others"]
    for command in ("inspect", "serve"):
        refused = invoke(command, "gateway.toml", "--profile", "fewer")
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert "There is no profile 'fewer'; the profiles are: all, few." in refused.stderr


@pytest.mark.parametrize("behaviour", ["crash", "talks"])
def test_a_server_that_does_not_start_ends_with_1(shop: Path, behaviour: str) -> None:
    done = run("inspect", "--", *RAW, behaviour, cwd=shop)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "toolfold: The MCP server " in done.stderr
    assert "did not start" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_does_not_answer_is_given_up_in_time(shop: Path) -> None:
    done = run("inspect", "--start-timeout", "0.2", "--", *RAW, "hang", cwd=shop)
    assert done.returncode == 1
    assert "did not answer within 0.2 seconds" in done.stderr


@pytest.mark.spec("PRO-2")
def test_profiles_are_shown_in_a_table(shop: Path) -> None:
    result = invoke("profiles", "shop:tools")
    assert result.exit_code == 0
    assert rows(result.stdout) == [
        ["PROFILE", "ACTIVE", "AVAILABLE", "DESCRIPTION"],
        ["till", "orders", "*", "For", "the", "counter"],
        ["look", "-", "cellar", "Change", "nothing;", "read-only", "tools"],
    ]


def test_profiles_are_shown_as_json(shop: Path) -> None:
    assert json.loads(invoke("profiles", "shop:tools", "--json").stdout)[1] == {
        "name": "look",
        "description": "Change nothing",
        "active": [],
        "available": ["cellar"],
        "read_only": True,
    }


def test_no_profiles_are_told(shop: Path) -> None:
    assert invoke("profiles", "toolfold_adapters.demo:library_desk").stdout == "There are no profiles.\n"


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize(("mode", "key"), [("legacy", "after"), ("auto", "after_without_session")])
@pytest.mark.parametrize("target", ["toolfold_adapters.demo:library_desk", "shop:tools", "plain:tools"])
async def test_what_is_said_to_be_listed_is_what_clients_are_given(
    shop: Path, target: str, mode: Literal["legacy", "auto"], key: str
) -> None:
    (shop / "plain.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('plain')\n"
        "tools.register('one', print, input_schema={'type': 'object'})\n"
    )
    report = json.loads(await to_thread.run_sync(lambda: invoke("inspect", target, "--json").stdout))
    async with (
        open_target(parse_target(target)) as opened,
        Client(build_server(opened.tools), mode=mode) as client,
    ):
        tools = (await client.list_tools()).tools
    shown = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    assert report["listed"] == len(shown)
    assert report["tokens"][key] == sum(map(approximate_tokens, shown))


@pytest.mark.spec("GWY-5")
def test_without_mcp_a_conversation_in_process_is_counted(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toolfold_adapters.mcp.proxy", None)
    report = json.loads(invoke("inspect", "toolfold_adapters.demo:library_desk", "--json").stdout)
    costs = measure(view_at_start(library_desk()))
    assert report["tokens"]["after"] == costs.after
    assert report["tokens"]["after_without_session"] is None
