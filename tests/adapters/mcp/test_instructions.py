"""Instructions on the groups and how to open them, in each delivery (SPEC CTL-7, DEL-2, DEL-6, DEL-8)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, client_of
from toolfold import Loader, ToolSet

GROUPS = """Groups:
- cash: Paying in coins
- credit: Paying by card
- stock (orders): What there is"""
NAMED = "Groups of tools: cash, credit, stock. "

LISTED = "; its tools are then in your list."
STUCK = "; its tools are then in your list. If it does not change, {} calls them."
HANDLES = " and returns a handle, with which {} calls its tools."


async def instructions_of(tools: ToolSet, era: str, **options: Any) -> str | None:
    """Return the instructions that a client of an era is given; `auto` asks a server of both for the newer one's."""
    async with client_of(build_server(tools, **options), era) as (client, _):
        return client.instructions


@pytest.mark.spec("CTL-7", "DEL-1", "DEL-2", "DEL-6", "DEL-8")
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
    assert instructions == f"{NAMED}cash.activate (and so on) opens one{then}\n{GROUPS}"


@pytest.mark.spec("CTL-3")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("control", ["load_tool_group", Loader(name="fetch")])
async def test_a_loader_is_named_instead_of_activators(era: str, control: Any) -> None:
    name = control if isinstance(control, str) else control.name
    instructions = await instructions_of(make_shop(control=control), era)
    assert instructions is not None
    assert instructions.startswith(f"{NAMED}{name} opens one")
    assert "Groups:" not in instructions, "its description names them"
    assert "activate" not in instructions


@pytest.mark.spec("CTL-7")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("length", [0, 300, 5_000])
@pytest.mark.parametrize("control", ["per_group", "open_group"])
async def test_the_author_s_instructions_come_last_within_the_room(era: str, length: int, control: Any) -> None:
    tools = make_shop(control=control, search=lambda documents: lambda query: [])
    for number in range(200):
        tools.register_group(f"group_{number:03}", "Words about it. " * 20)
    given = f"Be kind. {'Yes. ' * (length // 5)}".strip()
    instructions = await instructions_of(tools, era, instructions=given)
    assert instructions is not None
    assert len(instructions) <= 2_000
    assert "\n\nBe kind." in instructions
    assert instructions.endswith(given) == (length < 5_000)
    shown = instructions[:240]
    assert "Groups of tools: cash, credit, group_000, " in shown
    assert "more. " in shown
    for name in ("open_group" if control == "open_group" else "cash.activate", "call_tool", "find_tools"):
        assert name in shown
    if control == "per_group" and length < 5_000:
        assert "find_tools finds their tools" in instructions


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
