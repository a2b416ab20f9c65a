"""What a model reads of results with structured content alone, or a block that nobody knows, on every way to it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.adapters.gateway.inprocess import wired
from tests.adapters.integrations.frameworks import FRAMEWORKS
from tests.adapters.integrations.support import Framework
from toolfold import ToolResult, ToolSet
from toolfold_adapters.inprocess import Conversation, Native
from toolfold_adapters.mcp import build_server
from toolfold_adapters.mcp.answer.render import for_caller, passed
from toolfold_adapters.mcp.request import own_client

Block = dict[str, Any]

STRUCTURED: Mapping[str, Any] = {
    "an object": {"total": 12.5, "unit": "crowns"},
    "a list": [4711, 4712],
    "a number": 0,
    "a text": "none left",
}
SAYING_NOTHING: Mapping[str, list[Block]] = {
    "no block": [],
    "an empty text": [{"type": "text", "text": ""}],
    "white space": [{"type": "text", "text": " \n"}],
}
UNKNOWN: Block = {"type": "error", "text": "the amount must be a number"}
CALLS: Mapping[Native, Mapping[str, Any]] = {
    "anthropic": {"type": "tool_use", "id": "1", "name": "own", "input": {}},
    "openai": {"type": "function_call", "call_id": "1", "name": "own", "arguments": "{}"},
    "kimi": {"id": "1", "type": "function", "function": {"name": "own", "arguments": "{}"}},
}
of_any_structure = pytest.mark.parametrize("structured", STRUCTURED.values(), ids=STRUCTURED)
of_any_content = pytest.mark.parametrize("content", SAYING_NOTHING.values(), ids=SAYING_NOTHING)
natively = pytest.mark.parametrize("native", CALLS)
in_frameworks = pytest.mark.parametrize("run", FRAMEWORKS.values(), ids=FRAMEWORKS)
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


def answering(content: list[Block], structured: Any = None, *, is_error: bool = False) -> ToolSet:
    """Return a tool set whose tools answer so: by a handler of its own, and by another server for each era."""
    answer = {"content": content, "isError": is_error}
    answer |= {} if structured is None else {"structuredContent": structured}
    tools = ToolSet("shop", control="open_group")
    tools.register_group("deep")
    for name, result in {
        "own": ToolResult(tuple(content), structured, is_error),
        "foreign": passed(for_caller(answer, modern=None)),
        "legacy": passed(for_caller(answer, modern=False)),
        "auto": passed(for_caller(answer, modern=True)),
    }.items():
        for group in (None, "deep"):
            tools.register(name, lambda _, result=result: result, group=group, input_schema={"type": "object"})
    return tools


def texts(answer: Mapping[str, Any]) -> list[str]:
    return [block["text"] for block in answer["content"]]


@pytest.mark.spec("AGT-1", "GWY-1")
@of_any_content
@of_any_structure
async def test_a_conversation_has_structured_content_as_text_where_no_block_says_anything(
    structured: Any, content: list[Block]
) -> None:
    async with Conversation(answering(content, structured)) as conversation:
        for name in ("own", "foreign"):
            (result,) = await conversation.execute([(name, {})])
            assert (json.loads(result.text), result.structured) == (structured, structured)


@pytest.mark.spec("AGT-1")
async def test_a_block_that_says_something_is_what_is_read_and_nothing_else() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    for block in (image, {"type": "text", "text": "two"}, UNKNOWN):
        async with Conversation(answering([block], {"n": 2})) as conversation:
            for name in ("own", "foreign"):
                assert (await conversation.call(name, {})).content == (block,)


@pytest.mark.spec("INT-3")
@natively
@of_any_structure
async def test_a_provider_s_form_has_it_too(native: Native, structured: Any) -> None:
    async with Conversation(answering([], structured), native=native) as conversation:
        (answer,) = await conversation.answers([CALLS[native]])
    given = answer["output"] if native == "openai" else answer["content"]
    assert json.loads(given if isinstance(given, str) else given[0]["text"]) == structured


@pytest.mark.spec("INT-3")
@natively
async def test_a_provider_s_form_has_the_text_of_a_block_that_nobody_knows(native: Native) -> None:
    async with Conversation(answering([UNKNOWN], is_error=True), native=native) as conversation:
        (answer,) = await conversation.answers([CALLS[native]])
    given = answer["output"] if native == "openai" else answer["content"]
    assert (given if isinstance(given, str) else given[0]["text"]) == UNKNOWN["text"]


@pytest.mark.spec("INT-2")
@in_frameworks
@of_any_structure
async def test_a_framework_has_it_too(run: Framework, structured: Any) -> None:
    (answer,) = (await run(answering([], structured), [("own", {})])).answers
    assert answer == structured or json.loads(answer) == structured


@pytest.mark.spec("INT-2")
@in_frameworks
async def test_a_framework_has_the_text_of_an_error_in_a_block_that_nobody_knows(run: Framework) -> None:
    result = await run(answering([UNKNOWN], is_error=True), [("own", {})])
    assert UNKNOWN["text"] in repr(result.messages)


@pytest.mark.spec("DEL-7", "GWY-1")
@ERAS
@of_any_structure
async def test_a_client_of_either_era_has_what_its_era_takes_as_structured_and_the_rest_as_text(
    era: Any, structured: Any
) -> None:
    tools = answering([], structured)
    async with wired(build_server(tools), era) as wire:
        own = await wire.request("tools/call", {"name": "own", "arguments": {}})
        foreign = await wire.request("tools/call", {"name": era, "arguments": {}})
    for answer in (own, foreign):
        assert [json.loads(text) for text in texts(answer)] == [structured]
        if era == "legacy" and not isinstance(structured, dict):
            assert "structuredContent" not in answer
        else:
            assert answer["structuredContent"] == structured


@pytest.mark.spec("GWY-18", "GWY-1")
@pytest.mark.parametrize("modern", [False, True, None])
@pytest.mark.parametrize("is_error", [False, True])
@pytest.mark.parametrize("content", [None, *SAYING_NOTHING.values()])
def test_structured_content_alone_of_another_server_is_its_text_too(
    content: list[Block] | None, is_error: bool, modern: bool | None
) -> None:
    answer: dict[str, Any] = {"structuredContent": {"n": "né"}, "isError": is_error}
    answer |= {} if content is None else {"content": content}
    got = for_caller(answer, modern=modern)
    assert got["content"] == [{"type": "text", "text": '{"n": "né"}'}]
    assert (got["structuredContent"], got["isError"]) == ({"n": "né"}, is_error)


@pytest.mark.spec("GWY-1")
@pytest.mark.parametrize("modern", [False, True, None])
def test_content_of_another_server_that_says_something_passes_as_it_came(modern: bool | None) -> None:
    spaces: Block = {"type": "text", "text": " ", "_meta": {"its/own": 1}}
    for content in ([UNKNOWN, spaces], [{"type": "text", "text": '{"n":2}'}], [{"type": "image", "data": "aGk="}]):
        assert for_caller({"content": content, "structuredContent": {"n": 2}}, modern=modern)["content"] == content
    silent: list[dict[str, Any]] = [{"content": [spaces]}, {"content": []}, {}]
    for nothing in silent:
        got = for_caller(nothing, modern=modern)
        assert {key: got[key] for key in nothing} == nothing


@pytest.mark.spec("DEL-12", "GWY-1")
@ERAS
@pytest.mark.parametrize("content", [*SAYING_NOTHING.values(), [{"type": "text", "text": '{"n": 2}'}]])
async def test_what_was_opened_for_a_call_is_said_after_the_tool_s_own_content_and_hides_none_of_it(
    era: Any, content: list[Block]
) -> None:
    token = own_client.set("client")
    try:
        for name in ("own", era):
            async with wired(build_server(answering(content, {"n": 2})), era) as wire:
                answer = await wire.request("tools/call", {"name": "call_tool", "arguments": {"name": f"deep__{name}"}})
            first, note = texts(answer)
            assert (json.loads(first), answer["structuredContent"]) == ({"n": 2}, {"n": 2})
            assert note.strip() == "Opened for this call: deep."
    finally:
        own_client.reset(token)
