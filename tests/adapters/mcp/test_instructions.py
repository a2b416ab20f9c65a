"""Instructions on the groups and how to open them, in each delivery (SPEC DEL-2, DEL-6, DEL-8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, client_of
from toolfold import Loader, ToolSet
from toolfold_adapters.mcp.instructions import SHOWN

GROUPS = """Groups:
- cash: Paying in coins
- credit: Paying by card
- stock: What there is
- stock.orders: What is to come"""
WHERE = "Most tools are in groups: "

LISTED = ". Its tools are then in your list."
STUCK = ". Its tools are then in your list; if your list does not change, call them by {}."
HANDLES = " and returns a handle, with which {} calls its tools."


async def instructions_of(tools: ToolSet, era: str, **options: Any) -> str | None:
    """Return the instructions that a client of an era is given; `auto` asks a server of both for the newer one's."""
    async with client_of(build_server(tools, **options), era) as (client, _):
        return client.instructions


@pytest.mark.spec("DEL-1", "DEL-2", "DEL-6", "DEL-8")
@pytest.mark.parametrize(
    ("era", "options", "then"),
    [
        ("legacy", {}, STUCK.format("call_tool")),
        ("legacy", {"call_tool": "invoke"}, STUCK.format("invoke")),
        ("legacy", {"legacy_call_tool": False}, LISTED),
        ("auto", {}, HANDLES.format("call_tool")),
        ("auto", {"call_tool": "invoke", "legacy_call_tool": False}, HANDLES.format("invoke")),
        ("auto", {"delivery": "principal"}, LISTED),
        ("legacy", {"delivery": "principal"}, STUCK.format("call_tool")),
    ],
)
async def test_each_delivery_says_how_groups_are_opened_and_their_tools_are_called(
    era: str, options: dict[str, Any], then: str
) -> None:
    instructions = await instructions_of(make_shop(), era, **options)
    assert instructions == f"{WHERE}cash.activate (and so on) opens one{then}\n{GROUPS}"


@pytest.mark.spec("NAM-6")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_activators_have_their_names_on_the_wire(era: str) -> None:
    assert f"{WHERE}cash__activate (and so on) opens " in (
        await instructions_of(make_shop(), era, separator="__") or ""
    )


@pytest.mark.spec("CTL-3")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("control", ["load_tool_group", Loader(name="fetch")])
async def test_a_loader_is_named_instead_of_activators(era: str, control: Any) -> None:
    name = control if isinstance(control, str) else control.name
    instructions = await instructions_of(make_shop(control=control), era)
    assert instructions is not None
    assert instructions.startswith(f"{WHERE}{name} opens one")
    assert "Groups:" not in instructions, "its description names them"
    assert "activate" not in instructions


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_author_s_instructions_come_first(era: str) -> None:
    instructions = await instructions_of(make_shop(), era, instructions="Be kind.")
    assert instructions is not None
    assert instructions.startswith(f"Be kind.\n\n{WHERE}")


@pytest.mark.spec("CTL-3", "SES-6")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("why", ["there are none", "none is opened by clients", "no control tools"])
async def test_nothing_is_added_if_clients_have_no_groups_to_open(era: str, why: str) -> None:
    tools = make_shop(control="none") if why == "no control tools" else ToolSet("plain")
    if why == "none is opened by clients":
        tools.register_group("inner", controls=False)
        tools.register_group("after", opens_on="hello")
    assert await instructions_of(tools, era, instructions="Be kind.") == "Be kind."
    assert not await instructions_of(tools, era)


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_many_groups_are_shortened_to_the_first_ones_with_one_line_each(era: str) -> None:
    tools = ToolSet("many")
    for number in range(SHOWN + 3):
        tools.register_group(f"g{number:03}", "Line one\n- line two:" if number == 1 else "")
    tools.register_group("unlisted", controls=False)
    lines = (await instructions_of(tools, era) or "").splitlines()
    assert lines[1:5] == ["Groups:", "- g000", "- g001: Line one - line two:", "- g002"]
    assert lines[-2:] == [f"- g{SHOWN - 1:03}", "- and 3 more"]
    assert len(lines) == SHOWN + 3


async def test_nothing_follows_a_complete_list_of_groups() -> None:
    tools = ToolSet("enough")
    for number in range(SHOWN):
        tools.register_group(f"g{number:03}")
    assert (await instructions_of(tools, "auto") or "").endswith(f"- g{SHOWN - 1:03}")
