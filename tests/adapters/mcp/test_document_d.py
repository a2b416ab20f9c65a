"""Document D's tables through real clients of both eras, row by row, and what each says of calls.

The same rows are gone through in the core by tests/core/test_toolkits.py and tests/core/test_catalog_tool.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

import pytest
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import build_server
from tests.core.document_d import (
    HIDDEN,
    OPTIONS,
    Desk,
    declared,
    kit_of,
    shop,
)
from tests.examples.callers import connected
from toolfold import (
    ToolError,
    ToolResult,
    ToolSet,
    tool,
)

Era = Literal["legacy", "auto"]


@pytest.fixture(params=["legacy", "auto"])
def era(request: pytest.FixtureRequest) -> Era:
    chosen: Era = request.param
    return chosen


# The table of options


@pytest.mark.spec("KIT-1", "KIT-3", "KIT-5")
@pytest.mark.parametrize(
    ("option", "options", "place", "expected"),
    OPTIONS,
    ids=[f"{number}-{row[0]}" for number, row in enumerate(OPTIONS)],
)
async def test_document_d_options_are_in_the_list_of_a_client(
    era: Era, option: str, options: dict[str, Any], place: str, expected: Any
) -> None:
    async with connected(build_server(declared("class", options)), era) as client:
        (shown,) = (await client.listed()).values()
        for key in place.split("."):
            shown = shown[key]
        assert shown == expected


@pytest.mark.spec("KIT-1", "VIS-6")
async def test_document_d_options_hidden_components_are_unlisted_but_callable(era: Era) -> None:
    """Document D, rows `:hidden` and `:visible`, and: calling never asks whether something is hidden."""
    tools = ToolSet("t")
    for number, (options, _) in enumerate(HIDDEN):
        tools.tool(f"t{number}", **options)(lambda: "done")
    async with connected(build_server(tools), era) as client:
        assert await client.names() == [f"t{number}" for number, (_, hidden) in enumerate(HIDDEN) if not hidden]
        for number in range(len(HIDDEN)):
            assert await client.call(f"t{number}", {}) == (False, "done")


# Prompts, resources and templates


@pytest.mark.spec("KIT-4", "REG-9", "VIS-5")
async def test_document_d_registration_overrides_a_toolkit_and_its_group_gates_all_of_it(era: Era) -> None:
    tools = ToolSet("t", control="none")
    tools.register_group("desk")
    tools.include(Desk("Ada"), group="desk", visible=True, category="Given")
    async with connected(build_server(tools), era) as caller:
        client = caller.client
        assert await caller.names() == []
        for request in (client.get_prompt("desk.ask", {"topic": "tea"}), client.read_resource("desk://owner")):
            with pytest.raises(MCPError):
                await request
    async with connected(build_server(tools, active=["desk"]), era) as caller:
        client = caller.client
        assert (await caller.listed())["desk.who"]["_meta"] == {"category": "Given"}
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["desk.ask", "desk.greet"]
        assert [str(resource.uri) for resource in (await client.list_resources()).resources] == ["desk://owner"]


# What functions return


def fail() -> None:
    raise ToolError("There is no such file.")


RETURNS: dict[str, tuple[Callable[..., Any], tuple[bool, str, Any]]] = {
    "text": (lambda: "done", (False, "done", None)),
    "mapping": (lambda: {"n": 1}, (False, '{"n": 1}', {"n": 1})),
    "content": (
        lambda: ToolResult(({"type": "text", "text": "a"}, {"type": "text", "text": "b"})),
        (False, "a\nb", None),
    ),
    "result": (lambda: ToolResult.of_text("text", {"n": 2}), (False, "text", {"n": 2})),
    "error as a result": (lambda: ToolResult.of_text("no", is_error=True), (True, "no", None)),
    "error": (fail, (True, "There is no such file.", None)),
}
"""What a function of a toolkit does, and what a client is answered."""


@pytest.mark.spec("KIT-2", "CALL-3")
@pytest.mark.parametrize("kind", RETURNS)
async def test_document_d_returns_reach_the_client_in_the_right_form(era: Era, kind: str) -> None:
    function, answer = RETURNS[kind]
    tools = ToolSet("t")
    tools.include(kit_of(t=tool(name="t")(function)))
    async with connected(build_server(tools), era) as client:
        assert await client.answer("t", {}) == answer


# The catalog tool


@pytest.mark.spec("CAT-1", "CAT-2")
async def test_document_d_catalog_entries_extend_those_of_the_lists(era: Era) -> None:
    """Document D, the result of the catalog tool: the wire definition plus `hidden`, and a tool's `category`."""
    async with connected(build_server(shop()), era) as caller:
        client, answer = caller.client, await caller.answer("catalog", {"include_hidden": False})
        assert json.loads(answer.text) == answer.structured
        lists: dict[str, list[Any]] = {
            "tools": [one for one in (await client.list_tools()).tools if one.name != "call_tool"],
            "prompts": (await client.list_prompts()).prompts,
            "resources": (await client.list_resources()).resources,
            "resource_templates": (await client.list_resource_templates()).resource_templates,
        }
        for section, listed in lists.items():
            wire = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in listed]
            assert answer.structured[section] == [{**one, "hidden": False, **one.get("_meta", {})} for one in wire]
