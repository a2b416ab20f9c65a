"""`toolfold inspect`: groups, tools and token counts."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from anyio import to_thread
from mcp import Client

from tests.cli.support import invoke
from toolfold_adapters.gateway.upstream.upstream import UpstreamStatus
from toolfold_adapters.mcp import build_server
from toolfold_adapters.tokens import approximate_tokens, measure, saved_percent
from toolfold_cli.costs import Inspected, initial_view, inspected
from toolfold_cli.shop import tools as back_office
from toolfold_cli.targets import open_target, parse_target


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


@pytest.mark.spec("GWY-12")
def test_what_is_left_out_of_a_list_that_is_too_long_is_said_with_its_number(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut(*arguments: Any) -> Inspected:
        status = UpstreamStatus(
            name="big", state="idle", since=0, connections=0, failures=0, reason="", tools=20_000, cut=80_000
        )
        return inspected(*arguments)._replace(status=(status,))

    monkeypatch.setattr("toolfold_cli.inspect.inspected", cut)
    said = "The server big lists more than is kept, so 80,000 or more are left out."
    assert said in invoke("inspect", "shop:tools").stdout
    (server,) = json.loads(invoke("inspect", "shop:tools", "--json").stdout)["servers"]
    assert (server["offered"], server["left_out"]) == (20_000, 80_000)


def test_the_table_shows_the_description_of_a_group_on_one_line(shop: Path) -> None:
    (shop / "described.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('described')\n"
        "tools.register_group('empty', 'Nothing yet.\\n  Needs the program [rust].')\ntools.register_group('silent')\n"
    )
    lines = invoke("inspect", "described:tools").stdout.splitlines()
    assert lines[2].endswith("  Nothing yet. Needs the program [rust].")
    assert lines[2].split()[:3] == ["empty", "closed", "0"]
    assert re.fullmatch(r"silent +closed +0 +2 +~0 +~\d+", lines[3])


def test_json_has_the_same_keys_for_each_group(shop: Path) -> None:
    report = json.loads(invoke("inspect", "shop:tools", "--json").stdout)
    keys = ["name", "active", "tools", "listed", "tokens", "groups", "servers", "exclusions"]
    assert list(report) == keys
    assert report["groups"][1] == {
        "path": "cellar",
        "parent": None,
        "description": "Count what is in store",
        "state": "inactive",
        "tokens": report["groups"][1]["tokens"],
        "listed": 2,
        "tools": [
            {
                "name": "cellar.count",
                "listed": False,
                "tokens": report["groups"][1]["tokens"]["before"],
                "replaces_control": False,
            }
        ],
    }


def test_groups_can_be_open_from_the_start_and_no_hook_runs(shop: Path) -> None:
    result = invoke("inspect", "shop:tools", "--active", "orders, orders.returns", "--tools")
    assert "  * orders.place\n" in result.stdout
    assert "  - cellar.count\n" in result.stdout
    assert "with orders, orders.returns open" in result.stdout
    again = invoke("inspect", "shop:tools", "--active", "orders", "--active", "orders.returns", "--tools")
    assert again.stdout == result.stdout
    hooked = invoke("inspect", "shop:tools", "--active", "cellar")
    assert hooked.exit_code == 0
    assert "the cellar is lit" not in hooked.output


@pytest.mark.parametrize(
    ("active", "message"),
    [
        ("orders.returns", "Group 'orders.returns' can't be opened yet: open 'orders' first."),
        ("orders,cellar", "leave one out."),
        ("order", "There is no group 'order'. Did you mean 'orders'"),
    ],
)
def test_groups_that_cannot_be_open_are_refused(shop: Path, active: str, message: str) -> None:
    result = invoke("inspect", "shop:tools", "--active", active)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stdout == ""


def test_a_profile_shows_its_groups_and_tools(shop: Path) -> None:
    report = json.loads(invoke("inspect", "shop:tools", "--profile", "till", "--json").stdout)
    assert report["active"] == ["orders"]
    report = json.loads(invoke("inspect", "shop:tools", "--profile", "look", "--json").stdout)
    assert [group["path"] for group in report["groups"]] == [None, "cellar"]


def test_the_table_says_if_the_list_costs_more_than_all_tools(shop: Path) -> None:
    assert "The list costs " in invoke("inspect", "shop:tools").stdout


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        (
            "",
            'larger groups or ToolSet(..., control="open_group") or ToolSet(..., control_visibility="relevant").\n',
        ),
        ("control_visibility='relevant'", 'larger groups or ToolSet(..., control="open_group").\n'),
        ("control='load_tool_group'", "larger groups.\n"),
    ],
)
def test_the_advice_on_what_costs_less_leaves_out_what_is_done_already(shop: Path, options: str, advice: str) -> None:
    (shop / "few.py").write_text(
        f"from toolfold import ToolSet\ntools = ToolSet('few', {options})\ntools.register_group('g')\n"
        "tools.register('one', print, group='g', input_schema={'type': 'object'})\n"
    )
    assert f"What costs less: {advice}" in invoke("inspect", "few:tools").stdout


def test_what_is_listed_and_saved_is_said_with_units_in_the_words_of_serve(shop: Path) -> None:
    result = invoke("inspect", "toolfold_cli.shop:tools")
    assert "42 tools in 6 groups; 6 listed at first (~4,124 → ~601 tokens): 85.4% saved." in result.stdout


@pytest.mark.spec("GWY-5")
def test_a_list_that_saves_with_a_session_alone_is_said_to_cost_more_without_one(shop: Path) -> None:
    output = invoke("inspect", "examples.desk:tools").stdout
    report = json.loads(invoke("inspect", "examples.desk:tools", "--json").stdout)["tokens"]
    assert report["after"] < report["before"] < report["after_without_session"]
    more = -saved_percent(report["before"], report["after_without_session"])
    assert f": {report['saved_percent']:g}% saved with a session, but {more:g}% more without one. What costs" in output


def test_names_are_never_cut_off_without_a_terminal(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "n" * 60
    (shop / "long.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('long')\npath = None\n"
        f"for _ in range(1):\n    tools.register_group('{name}')\n"
        f"tools.register('{name}', print, group='{name}', input_schema={{'type': 'object'}})\n"
    )
    monkeypatch.setenv("COLUMNS", "40")
    printed = invoke("inspect", "long:tools", "--tools").stdout
    assert f"{name} " in printed
    assert f"{name}.{name}\n" in printed
    assert "\x1b" not in printed
    assert all(line == line.rstrip() for line in printed.splitlines())


def test_what_a_module_prints_stays_out_of_the_output(shop: Path) -> None:
    (shop / "loud.py").write_text("print('loud')\nfrom shop import tools\n")
    result = invoke("inspect", "loud:tools", "--json")
    assert json.loads(result.stdout)["name"] == "shop"
    assert result.stderr == "loud\n"


@pytest.mark.spec("GWY-5")
@pytest.mark.parametrize(("mode", "key"), [("legacy", "after"), ("auto", "after_without_session")])
@pytest.mark.parametrize("target", ["toolfold_cli.shop:tools", "shop:tools", "plain:tools"])
@pytest.mark.parametrize("more", [[], ["--call-tools"]])
async def test_the_counts_are_those_of_the_list_that_clients_are_given(
    shop: Path, target: str, mode: Literal["legacy", "auto"], key: str, more: list[str]
) -> None:
    (shop / "plain.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('plain')\n"
        "tools.register('one', print, input_schema={'type': 'object'})\n"
    )
    report = json.loads(await to_thread.run_sync(lambda: invoke("inspect", target, "--json", *more).stdout))
    async with (
        open_target(parse_target(target)) as opened,
        Client(build_server(opened.tools, call_tools=bool(more)), mode=mode) as client,
    ):
        tools = (await client.list_tools()).tools
    definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    assert report["listed"] == len(definitions)
    assert report["tokens"][key] == sum(map(approximate_tokens, definitions))


@pytest.mark.spec("GWY-5")
def test_without_mcp_a_conversation_in_process_is_counted(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "toolfold_adapters.mcp.answer.proxy", None)
    report = json.loads(invoke("inspect", "toolfold_cli.shop:tools", "--json").stdout)
    costs = measure(initial_view(back_office))
    assert report["tokens"]["after"] == costs.after
    assert report["tokens"]["after_without_session"] is None


def test_a_check_fails_for_what_has_no_description_and_for_groups_that_are_too_long(shop: Path) -> None:
    assert invoke("inspect", "shop:tools", "--check", "--max-group-tokens", "5000").exit_code == 0
    (shop / "bare.py").write_text(
        "from toolfold import ToolSet\n"
        "tools = ToolSet('bare', control='open_group')\n"
        "tools.register_group('quiet')\n"
        "tools.register('a', lambda: 1, group='quiet', input_schema={'type': 'object'})\n"
        "tools.register('b', lambda: 1, description='Do b', group='quiet', input_schema={'type': 'object'})\n"
    )
    result = invoke("inspect", "bare:tools", "--check", "--max-group-tokens", "10")
    assert result.exit_code == 1
    assert result.stdout.startswith("GROUP")
    assert re.fullmatch(
        r"toolfold: The tool quiet\.a has no description\.\nThe group quiet has no description\.\n"
        r"The tools of quiet cost ~\d+ tokens, more than 10\.\n",
        result.stderr,
    )


@pytest.mark.spec("NAM-4")
def test_a_tool_that_takes_the_place_of_a_control_tool_is_named(shop: Path) -> None:
    (shop / "replaced.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('replaced')\ntools.register_group('mail')\n"
        "tools.register('activate', lambda: 1, description='Work.', group='mail', replaces_control=True)\n"
    )
    output = invoke("inspect", "replaced:tools").stdout
    assert "The tool mail.activate takes the place of the control tool of that name" in " ".join(output.split())
    assert "Without a description" not in output
    report = json.loads(invoke("inspect", "replaced:tools", "--json").stdout)
    assert [tool["replaces_control"] for tool in report["groups"][1]["tools"]] == [True]


@pytest.mark.parametrize(("groups", "is_said"), [(12, False), (13, True)])
def test_for_many_groups_with_control_tools_of_their_own_the_shorter_style_is_said_first(
    shop: Path, groups: int, is_said: bool
) -> None:
    (shop / "many.py").write_text(
        "from toolfold import ToolSet\n\n\ndef make(**options):\n    tools = ToolSet('many', **options)\n"
        f"    for number in range({groups}):\n        tools.register_group(f'g{{number}}')\n    return tools\n\n\n"
        "def apart():\n    return make()\n\n\ndef together():\n    return make(control='open_group')\n"
    )
    said = (
        f"Each of {groups} groups has control tools of its own, {2 * groups} in all. "
        'ToolSet(..., control="open_group") has two for all of them.\n\n'
    )
    assert invoke("inspect", "many:apart").stdout.startswith(said) == is_said
    assert "control tools of its own" not in invoke("inspect", "many:together").stdout


def test_tools_without_a_description_are_named(shop: Path) -> None:
    (shop / "bare.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('bare')\n"
        "tools.register('a', lambda: 1)\ntools.register('b', lambda: 1)\n"
    )
    output = invoke("inspect", "bare:tools").stdout
    assert output.endswith("Without a description: a, b. A model can't know what they do.\n")


@pytest.mark.spec("GWY-5")
def test_without_tools_there_is_nothing_to_compare(shop: Path) -> None:
    (shop / "bare.py").write_text(
        "from toolfold import ToolSet\n\ntools = ToolSet('bare')\ntools.register_group('orders', 'Take orders')\n",
        encoding="utf-8",
    )
    said = invoke("inspect", "bare:tools").stdout
    assert "There are no tools to list but what opens groups: " in said
    assert "%" not in said
