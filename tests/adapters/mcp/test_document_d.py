"""Document D's tables through real clients of both eras, row by row, and what each says of calls.

The same rows are gone through in the core by tests/core/test_toolkits.py and tests/core/test_catalog_tool.py. What
fails at decoration has no wire side but this: clients that are connected notice nothing of it.
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


# The table of arities


# Precedence


# Prompts, resources and templates


@pytest.mark.spec("KIT-4", "REG-9", "VIS-6")
async def test_document_d_hidden_prompts_resources_and_templates_are_used_by_their_names(era: Era) -> None:
    tools = ToolSet("t")
    tools.include(Desk("Ada"))
    async with connected(build_server(tools), era) as caller:
        client = caller.client
        assert await caller.names() == ["who"]
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        assert (await client.list_resources()).resources == []
        templates = (await client.list_resource_templates()).resource_templates
        assert [(one.name, one.uri_template) for one in templates] == [("drawer", "desk://drawers/{number}")]
        content = (await client.get_prompt("ask", {"topic": "tea"})).messages[0].content
        assert content.text == "Ada, tell me about tea."  # type: ignore[union-attr]
        for uri, text in (("desk://owner", "Ada"), ("desk://drawers/2", "drawer 2 of Ada")):
            assert (await client.read_resource(uri)).contents[0].text == text  # type: ignore[union-attr]


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


# The three forms of schema

MAPPING = {
    "type": "object",
    "properties": {"q": {"type": "string", "minLength": 2}, "n": {"type": "integer", "default": 5}},
    "required": ["q"],
    "additionalProperties": False,
}
FIELDS = {"q": {"type": "string", "min_length": 2, "required": True}, "n": {"type": "integer", "default": 5}}


@pytest.mark.spec("KIT-3", "CALL-2")
@pytest.mark.parametrize(
    ("form", "received"),
    [(FIELDS, {"q": "ab", "n": 5}), (MAPPING, {"q": "ab"}), (json.dumps(MAPPING), {"q": "ab"})],
    ids=["fields", "mapping", "text"],
)
async def test_document_d_schema_forms_are_equivalent_but_only_fields_fill_in_defaults(
    era: Era, form: Any, received: dict[str, Any]
) -> None:
    tools = ToolSet("t")
    tools.register("echo", lambda arguments: arguments, input=form)
    async with connected(build_server(tools), era) as client:
        assert (await client.listed())["echo"]["inputSchema"] == MAPPING
        assert (await client.answer("echo", {"q": "ab"})).structured == received
        for wrong, place in (({}, '"q"'), ({"q": "a"}, "arguments.q"), ({"q": "ab", "n": "x"}, "arguments.n")):
            failed, text = await client.call("echo", wrong)
            assert failed
            assert place in text


TOTAL = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}


@pytest.mark.spec("KIT-6", "KIT-3")
@pytest.mark.parametrize(
    "form",
    [{"total": {"type": "integer", "required": True}}, TOTAL, json.dumps(TOTAL)],
    ids=["fields", "mapping", "text"],
)
async def test_document_d_results_are_validated_against_their_output_schema_in_each_form(era: Era, form: Any) -> None:
    """Document D, return values: what does not fit is an error without the result, not a silent pass."""
    tools = ToolSet("t")
    tools.register("sum", lambda arguments: {"total": arguments["of"]}, input={"of": "any"}, output=form)
    async with connected(build_server(tools), era) as client:
        assert (await client.listed())["sum"]["outputSchema"]["required"] == ["total"]
        assert await client.answer("sum", {"of": 5}) == (False, '{"total": 5}', {"total": 5})
        answer = await client.answer("sum", {"of": "secret"})
        assert (answer.is_error, answer.structured) == (True, None)
        assert "result.total" in answer.text
        assert "secret" not in answer.text


# What fails at decoration
