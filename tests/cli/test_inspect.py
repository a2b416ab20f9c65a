"""`toolfold inspect`: groups, tools and token counts."""

from __future__ import annotations

import json
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
