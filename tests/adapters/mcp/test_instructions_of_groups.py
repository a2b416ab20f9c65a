"""The instructions of groups in each delivery (SPEC SKL-1)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.existing import listing, plain_tool
from tests.adapters.mcp.support import build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of, through
from toolfold import InvalidDefinition, Profile, ToolSet, group, prompt_section, tool
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.manifests import load_manifests
from toolfold_adapters.manifests.catalogs import load_catalog
from toolfold_adapters.mcp import group_server
from toolfold_adapters.mcp.request import own_client
from toolfold_adapters.tokens import CHARACTERS_PER_TOKEN

pytestmark = pytest.mark.spec("SKL-1")
ERAS = ("legacy", MODERN)
LOAN = "Ask for the card first."
RETURN = "Look for damage.\n\nThen shelve it."


def library(**options: Any) -> ToolSet:
    """Return a group "loans", with "back" in it, and a pinned group; all have instructions."""
    tools = ToolSet("library", **options)
    tools.register_group("house", instructions="Be quiet.", pinned=True)
    tools.register_group("loans", "Lend books", instructions=f"{LOAN}\n")
    tools.register_group("back", parent="loans", instructions=RETURN)
    tools.register("lend", lambda: "lent", group="loans", description="Lend a book")
    tools.register("shelve", lambda: "shelved", group="loans.back", description="Put a book back")
    return tools


def is_before_tools(text: str, instructions: str, name: str) -> bool:
    return -1 < text.find(f"\n{instructions}\n") < text.find(f"- {name}")


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("control", "name", "arguments"),
    [
        ("per_group", "loans.activate", {}),
        ("open_group", "open_group", {"group": "loans"}),
        ("load_tool_group", "load_tool_group", {"group_name": "loans"}),
    ],
)
async def test_they_are_read_before_the_tools_of_a_group_that_opens(
    era: str, control: Any, name: str, arguments: dict[str, str]
) -> None:
    async with client_of(build_server(library(control=control)), era) as (client, _):
        text = text_of(await client.call_tool(name, arguments))
        assert is_before_tools(f"\n{text}", LOAN, "loans.lend")
        assert RETURN not in text


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_opens_groups_has_theirs_within_the_budget_of_the_answer(era: str) -> None:
    tools = library()
    tools.register_group("long", instructions="step " * 2_000)
    tools.register("tool", lambda: "done", group="long")
    token = own_client.set("client")
    try:
        async with client_of(build_server(tools, answer_tokens=1_200), era) as (client, _):
            answer = await through(client, "loans.back.shelve")
            expected = f"shelved\n\nOpened for this call: loans, loans.back.\n\n{LOAN}\n\n{RETURN}"
            assert text_of(answer) == expected
            long = text_of(await through(client, "long.tool"))
            assert long.startswith("done\n\nOpened for this call: long.\n\nstep")
            assert long.endswith("…")
            assert len(long) == 1_200 * CHARACTERS_PER_TOKEN
    finally:
        own_client.reset(token)


@pytest.mark.spec("SES-6")
@pytest.mark.parametrize("era", ERAS)
async def test_a_call_on_whose_success_a_group_opens_answers_with_them_once(era: str) -> None:
    tools = library()
    tools.register("greet", lambda: "Welcome.")
    tools.register_group("desk", instructions="Ring the bell.", opens_on="greet")
    tools.register("ring", lambda: "rung", group="desk")
    async with client_of(build_server(tools), era) as (client, _):
        first = await client.call_tool("greet", {})
        assert [block.text for block in first.content if isinstance(block, TextContent)][:2] == [
            "Welcome.",
            "Ring the bell.",
        ]
        again = await through(client, "greet", {}, (first.meta or {}).get("dev.toolfold/handle"))
        assert text_of(again) == "Welcome."


async def test_those_of_pinned_groups_are_read_at_the_start() -> None:
    tools = library()
    assert prompt_section(tools).endswith("- loans: Lend books\n- loans.back\n\nBe quiet.")
    async with client_of(build_server(tools, instructions="For members."), "legacy") as (client, _):
        assert str(client.instructions).endswith("\n\nFor members.\n\nBe quiet.")
    alone = ToolSet("alone")
    alone.register_group("house", instructions="Be quiet.", pinned=True, controls=False)
    assert prompt_section(alone) == "Be quiet."


@pytest.mark.parametrize("how", [{"active": ["loans"]}, {"profile": "desk"}])
async def test_those_of_groups_that_are_open_from_the_start_are_read_at_the_start(how: Any) -> None:
    tools = library()
    tools.register_profile(Profile(name="desk", active=["loans"]))
    for era in ("legacy", "auto"):
        async with client_of(build_server(tools, **how), era) as (client, _):
            assert LOAN in str(client.instructions)
        async with client_of(build_server(tools), era) as (client, _):
            assert LOAN not in str(client.instructions)
    conversation = Conversation(tools, **how)
    prompt = conversation.system_prompt("You lend.")
    assert prompt.startswith("You lend.")
    assert LOAN in prompt
    (closed,) = await conversation.execute([("loans__close", {})])
    assert not closed.is_error
    assert conversation.system_prompt("You lend.") == prompt
    assert Conversation.restore(tools, conversation.dump()).system_prompt("You lend.") == prompt
    assert LOAN not in Conversation(tools).system_prompt()


@pytest.mark.spec("DEL-4")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_those_of_groups_that_a_request_selects_are_read_at_the_start(era: str) -> None:
    tools = library()
    tools.register_profile(Profile(name="desk", active=["loans"]))
    over = group_server(listing(plain_tool("lend")), {"loans": "lend"}, tools=library())
    async with endpoint_of(build_server(tools, instructions="For members.")) as own, endpoint_of(over) as others:
        for endpoint, query, headers, texts in [
            (own, "?groups=loans.back", {}, ["For members.", LOAN, RETURN]),
            (own, "?profile=desk", {}, ["For members.", LOAN]),
            (own, "", {"toolfold-groups": "loans"}, ["For members.", LOAN]),
            (own, "", {}, ["For members."]),
            (others, "?groups=loans", {}, [LOAN]),
            (others, "", {}, []),
        ]:
            async with Client(endpoint.target(query, **headers), mode=era) as client:
                said = str(client.instructions)
                assert [text for text in ("For members.", LOAN, RETURN) if text in said] == texts, query
                assert "loans" in said


def test_classes_manifests_and_catalogs_have_them(tmp_path: Path) -> None:
    @group(instructions="Of a class")
    class Books:
        @tool
        def find(self) -> str:
            return ""

    tools = ToolSet("declared")
    tools.include(Books())
    manifest = tmp_path / "web.json"
    manifest.write_text(json.dumps([{"_meta": True, "instructions": "Of a manifest"}, {"name": "fetch"}]))
    load_manifests(tools, manifest, handlers={"fetch": lambda: ""}, strict=True)
    catalog = tmp_path / "catalog.toml"
    catalog.write_text('[groups.a]\ninstructions = "Of a catalog"\ntools = ["b"]\n')
    groups = (*tools.catalog.groups, *load_catalog(catalog).catalog.groups)
    assert [one.instructions for one in groups] == ["Of a class", "Of a manifest", "Of a catalog"]


def test_they_are_a_text_and_can_be_changed() -> None:
    tools = library()
    assert tools.update_group("loans", "Lend", instructions="New").instructions == "New"
    with pytest.raises(InvalidDefinition, match=r"more.*its instructions is int, and must be a text"):
        tools.register_group("more", instructions=5)  # type: ignore[arg-type]
