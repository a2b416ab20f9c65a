"""SPEC KIT-6: results are checked against the output schema of their tool, in each of its three forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from toolfold import Context, InputRequired, ToolError, ToolResult, ToolSet

TOTAL: Mapping[str, Any] = {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]}
FORMS = [{"output": {"total": {"type": "integer", "required": True}}}, {"output": TOTAL}, {"output": json.dumps(TOTAL)}]


async def answered(answer: Any, **options: Any) -> ToolResult:
    tools = ToolSet("t")
    tools.register("t", lambda: answer, **options)
    return await tools.call_tool("t")


@pytest.mark.spec("KIT-6", "KIT-3")
@pytest.mark.parametrize("options", FORMS, ids=["fields", "mapping", "text"])
@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ({"total": "secret"}, 'result.total: it is not of type "integer"'),
        ({}, 'result: "total" is a required property'),
        (None, 'result: it is not of type "object"'),
        ("secret", 'result: it is not of type "object"'),
        ([1], 'result: it is not of type "object"'),
        (ToolResult.of_text("secret"), 'result: it is not of type "object"'),
        (ToolResult.of_text("fine", {"total": "secret"}), 'result.total: it is not of type "integer"'),
    ],
)
async def test_a_result_that_does_not_fit_its_output_schema_is_an_error_that_names_the_place(
    options: dict[str, Any], answer: Any, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Document D, return values: structured results are checked against the declared output schema."""
    result = await answered(answer, **options)
    assert result.is_error
    assert result.structured is None
    assert place in result.text
    assert result.text.startswith("t failed: its result does not fit its output schema")
    assert "secret" not in result.text + caplog.text
    assert place in caplog.text


@pytest.mark.spec("KIT-6")
@pytest.mark.parametrize("options", FORMS, ids=["fields", "mapping", "text"])
async def test_a_result_that_fits_is_structured_content_and_text(options: dict[str, Any]) -> None:
    result = await answered({"total": 5}, **options)
    assert (result.is_error, result.structured, result.text) == (False, {"total": 5}, '{"total": 5}')


@pytest.mark.spec("KIT-6")
@pytest.mark.parametrize(
    ("answer", "schema"), [("text", {"type": "string"}), ([1, 2], {"type": "array"}), (5, {"enum": [5]})]
)
async def test_any_json_value_is_structured_content_if_there_is_an_output_schema(
    answer: Any, schema: dict[str, Any]
) -> None:
    result = await answered(answer, output_schema=schema)
    assert (result.is_error, result.structured) == (False, answer)
    assert (await answered(answer)).structured is None


@pytest.mark.spec("KIT-6")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "additionalProperties": False},
        {"type": "object", "unevaluatedProperties": False},
        {"type": "object", "propertyNames": {"maxLength": 3}},
    ],
)
async def test_names_within_a_result_are_not_reported_either(schema: dict[str, Any]) -> None:
    result = await answered({"secret": 1}, output_schema=schema)
    assert result.is_error
    assert "result: " in result.text
    assert "secret" not in result.text


@pytest.mark.spec("KIT-6", "CALL-3")
async def test_errors_and_requests_for_input_are_not_checked_by_the_output_schema() -> None:
    failed = await answered(ToolResult.of_text("no", is_error=True), output=TOTAL)
    assert (failed.is_error, failed.text) == (True, "no")
    assert (await answered(InputRequired(state="s"), output=TOTAL)).needs == InputRequired(state="s")
    tools = ToolSet("t")

    def fail(arguments: dict[str, Any], context: Context) -> None:
        raise ToolError("refused")

    tools.register("t", fail, input={}, output=TOTAL)
    assert (await tools.call_tool("t")).text == "refused"


@pytest.mark.spec("KIT-6")
async def test_the_check_of_results_can_be_disabled_for_a_handler_that_forwards_them() -> None:
    given_on = ToolResult.of_text("as it came", {"total": "none"})
    assert await answered(given_on, output=TOTAL, check_output=False) == given_on


@pytest.mark.spec("CALL-2")
async def test_a_handler_that_passes_arguments_on_can_be_given_them_unchecked() -> None:
    tools = ToolSet("t")
    tools.register("one", lambda arguments: arguments, input={"n": {"type": "integer"}}, check_arguments=False)
    tools.register_prompt("two", lambda arguments: repr(arguments), arguments=["n"], check_arguments=False)
    async with tools.open_session() as session:
        assert (await session.call("one", {"n": "many", "more": 1})).structured == {"n": "many", "more": 1}
        asked = await session.get_prompt("two", {"other": "x"})
    assert asked["messages"][0]["content"]["text"] == "{'other': 'x'}"
