"""Conversations whose provider loads tools late, through the official clients (SPEC INT-3)."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from anthropic.types import ToolParam, ToolResultBlockParam
from openai.types.responses import FunctionToolParam, NamespaceToolParam, ToolSearchToolParam
from openai.types.responses.response_input_item_param import AdditionalTools
from openai.types.responses.response_tool_search_output_item_param_param import ResponseToolSearchOutputItemParamParam
from pydantic import TypeAdapter

from tests.adapters.inprocess.late import announced, both, declared, opened, shop
from tests.adapters.inprocess.providers import PROVIDERS, FakeAnthropic, FakeOpenAI, Turn, functions_of
from toolfold import ConfigError, Context, Mode, Modes, Profile, ToolResult, ToolSet, Visibility
from toolfold_adapters.inprocess import BlockingConversation, Conversation, Native
from toolfold_adapters.search import bm25


@both
@pytest.mark.spec("INT-3", "GRP-6")
async def test_the_prefix_of_requests_stays_byte_identical_while_groups_open_and_close(native: Native) -> None:
    turns: list[Turn] = [
        [opened(native, "stock")],
        [("stock__look", {"id": 3}), opened(native, "stock.orders")],
        [("stock__orders__cancel", {"id": 3}), ("close_group", {"group": "stock"})],
        [opened(native, "staff")],
        [("staff__hire", {})],
    ]
    provider = PROVIDERS[native](turns)
    async with Conversation(shop(), native=native) as conversation:
        await provider.run(conversation)
        assert conversation.loaded == ("staff",)
    assert len(provider.requests) == len(turns) + 1
    assert len(set(provider.prefixes())) == 1
    messages = provider.messages()
    assert all(later[: len(earlier)] == earlier for earlier, later in pairwise(messages))


@both
@pytest.mark.spec("INT-3", "CALL-1")
async def test_a_call_of_a_tool_whose_group_was_closed_is_refused(native: Native) -> None:
    turns: list[Turn] = [
        [opened(native, "staff")],
        [("close_group", {"group": "staff"})],
        [("staff__hire", {})],
    ]
    async with Conversation(shop(), native=native) as conversation:
        messages = await PROVIDERS[native](turns).run(conversation)
    assert "Unknown tool: staff__hire" in json.dumps(messages[-1], default=str)


@pytest.mark.spec("INT-3")
def test_all_tools_that_can_ever_be_listed_are_declared_to_anthropic() -> None:
    tools = Conversation(shop(), native="anthropic").tools()
    assert all(TypeAdapter(ToolParam).validate_python(tool) == tool for tool in tools)
    assert [(tool["name"], tool.get("defer_loading", False)) for tool in tools] == [
        ("close_group", False),
        ("help", False),
        ("open_group", False),
        ("staff__hire", True),
        ("stock__look", True),
        ("stock__orders__cancel", True),
    ]


@pytest.mark.spec("INT-3")
def test_groups_are_deferred_namespaces_and_the_loader_is_the_tool_search_of_openai() -> None:
    close, help_, *spaces, search = Conversation(shop(), native="openai").tools()
    assert [TypeAdapter(FunctionToolParam).validate_python(one)["name"] for one in (close, help_)] == [
        "close_group",
        "help",
    ]
    assert [TypeAdapter(NamespaceToolParam).validate_python(space)["name"] for space in spaces] == [
        "staff",
        "stock",
        "stock__orders",
    ]
    assert [space["description"] for space in spaces] == ["Who works here", "What there is", "What was ordered"]
    assert [one["name"] for one in functions_of(spaces)] == ["staff__hire", "stock__look", "stock__orders__cancel"]
    assert all(one["defer_loading"] for one in functions_of(spaces))
    assert search["parameters"]["required"] == ["group"]
    assert TypeAdapter(ToolSearchToolParam).validate_python(search) == search


@both
@pytest.mark.spec("INT-3", "FND-1")
async def test_a_search_announces_only_what_the_session_may_see(native: Native) -> None:
    tools = shop(search=bm25)
    guest = Profile(name="guest", available=("stock", "stock.orders"))
    query = {"query": "hire cancel ordered"}
    call = ("find_tools", {**query, "open": True}) if native == "anthropic" else ("tool_search", query)
    async with Conversation(tools, profile=guest, native=native) as conversation:
        messages = await PROVIDERS[native]([[call]]).run(conversation)
        assert sorted(announced(messages)) == ["stock__look", "stock__orders__cancel"]
        assert "staff__hire" not in declared(conversation)


@pytest.mark.spec("INT-3", "FND-1")
async def test_a_search_that_opens_nothing_describes_closed_tools_and_refers_to_none() -> None:
    provider = FakeAnthropic([[("find_tools", {"query": "hire"})]])
    async with Conversation(shop(search=bm25), native="anthropic") as conversation:
        messages = await provider.run(conversation)
    assert announced(messages) == []
    (text,) = messages[-1]["content"][0]["content"]
    assert "- staff__hire: Hire somebody" in text["text"]
    assert "inputSchema" not in text["text"]


@pytest.mark.spec("INT-3", "FND-1")
async def test_a_tool_search_that_finds_nothing_says_so() -> None:
    provider = FakeOpenAI([[("tool_search", {"query": "zebra"})]])
    async with Conversation(shop(search=bm25), native="openai") as conversation:
        *_, output, remark = await provider.run(conversation)
    assert output["tools"] == []
    assert remark["role"] == "developer"
    assert "No tool matches 'zebra'" in remark["content"]


@both
@pytest.mark.spec("INT-3", "CTL-4")
async def test_the_answer_to_a_load_has_the_new_tools_once(native: Native) -> None:
    async with Conversation(shop(), native=native) as conversation:
        messages = await PROVIDERS[native]([[opened(native, "stock")]]).run(conversation)
    assert announced(messages) == ["stock__look"]
    if native == "anthropic":
        (result,) = messages[-1]["content"]
        TypeAdapter(ToolResultBlockParam).validate_python(result)
        assert result["content"][0]["text"] == (
            "Group stock is open. Groups in it: stock.orders. Now available:\n- stock__look"
        )
    else:
        TypeAdapter(ResponseToolSearchOutputItemParamParam).validate_python(messages[-1])


@both
@pytest.mark.spec("INT-3", "SES-6")
async def test_tools_that_a_handler_makes_available_are_announced_with_its_result(native: Native) -> None:
    tools = shop()

    async def enter(context: Context) -> str:
        await context.activate("staff")
        return "Welcome."

    tools.register("enter", enter)
    provider = PROVIDERS[native]([[("enter", {})], [("staff__hire", {})]])
    async with Conversation(tools, native=native) as conversation:
        messages = await provider.run(conversation)
    assert announced(messages) == ["staff__hire"]
    if native == "openai":
        (item,) = [one for one in messages if isinstance(one, dict) and one.get("type") == "additional_tools"]
        TypeAdapter(AdditionalTools).validate_python(item)
        assert [one.get("defer_loading") for one in functions_of(item["tools"])] == [None]
    assert len(set(provider.prefixes())) == 1


@both
@pytest.mark.spec("INT-3", "VIS-6")
async def test_a_tool_that_a_fact_unlocks_is_announced_by_the_next_result(native: Native) -> None:
    tools = shop()
    tools.register("refund", lambda: "paid", visibility=Visibility.when(lambda view: "manager" in view.facts))
    provider = PROVIDERS[native]([[("help", {})], [("help", {})], [("refund", {})]])
    async with Conversation(tools, native=native) as conversation:
        messages = await provider.run(conversation, lambda: conversation.session.set_fact("manager", True))
    assert announced(messages) == ["refund"]
    assert len(set(provider.prefixes())) == 1


@both
@pytest.mark.spec("INT-3")
async def test_tools_are_not_announced_by_an_error_but_by_the_next_result(native: Native) -> None:
    tools = shop()

    async def fail(context: Context) -> ToolResult:
        await context.activate("staff")
        return ToolResult.of_text("Failed.", is_error=True)

    tools.register("fail", fail)
    async with Conversation(tools, native=native) as conversation:
        messages = await PROVIDERS[native]([[("fail", {})], [("help", {})], [("staff__hire", {})]]).run(conversation)
    assert announced(messages[:3]) == []
    assert announced(messages) == ["staff__hire"]


@both
@pytest.mark.spec("INT-3", "MOD-2")
async def test_modes_and_counts_that_change_leave_the_declarations_unchanged(native: Native) -> None:
    tools = shop()
    errors: list[str] = []
    modes = {"errors": Mode(count=lambda view: len(errors)), "late": Mode(available=lambda view: bool(errors))}
    schema = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}
    tools.register("observe", lambda given: "seen", modes=Modes("what", modes), input_schema=schema)
    conversation = Conversation(tools, native=native)
    before = conversation.tools()
    shown = conversation.tools("anthropic")
    errors.append("one")
    assert conversation.tools("anthropic") != shown
    assert conversation.tools() == before


# -- changes of the catalog -------------------------------------------------------------------------------------------


@both
@pytest.mark.spec("INT-3", "REG-7")
async def test_a_new_tool_is_declared_after_the_others_and_one_that_is_gone_remains_declared(native: Native) -> None:
    tools = shop()
    turns: list[Turn] = [[opened(native, "staff")], [("staff__hire", {}), ("help", {})], [("staff__fire", {})]]

    def change() -> None:
        if "staff.hire" in tools.catalog.tools:
            tools.register("fire", lambda: "fired", group="staff")
            tools.unregister("staff.hire")

    async with Conversation(tools, native=native) as conversation:
        before = declared(conversation)
        messages = await PROVIDERS[native](turns).run(conversation, change)
        assert [name for name in declared(conversation) if name != "staff__fire"] == before
    assert announced(messages) == ["staff__hire", "staff__fire"]
    assert "Unknown tool: staff__hire" in json.dumps(messages, default=str)


@both
@pytest.mark.spec("INT-3", "REG-7")
def test_a_tool_that_is_redefined_is_replaced_in_its_place(native: Native) -> None:
    tools = shop()
    conversation = Conversation(tools, native=native)
    before = conversation.tools()
    tools.unregister("stock.look")
    tools.register("look", lambda: "", group="stock", description="Look again")
    assert json.dumps(conversation.tools()).replace("Look again", "Look") != json.dumps(before)
    assert declared(conversation)[1] == "stock__look"
    assert "Look again" in json.dumps(conversation.tools())


# -- content ----------------------------------------------------------------------------------------------------------


@both
@pytest.mark.spec("INT-3", "AGT-1")
async def test_images_and_other_content_of_results_reach_the_model(native: Native) -> None:
    tools = shop()
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    link = {"type": "resource_link", "uri": "file:///x", "name": "x"}
    tools.register("scan", lambda: ToolResult(({"type": "text", "text": "Look:"}, image, link)))
    async with Conversation(tools, native=native) as conversation:
        messages = await PROVIDERS[native]([[("scan", {})]]).run(conversation)
    as_json = json.dumps(link)
    if native == "anthropic":
        assert messages[-1]["content"][0]["content"] == [
            {"type": "text", "text": "Look:"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
            {"type": "text", "text": as_json},
        ]
    else:
        assert messages[-1]["output"] == [
            {"type": "input_text", "text": "Look:"},
            {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,aGk="},
            {"type": "input_text", "text": as_json},
        ]


@pytest.mark.spec("INT-3")
async def test_arguments_of_a_tool_search_that_cannot_be_read_are_refused() -> None:
    call = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": "[", "status": "completed"}
    async with Conversation(shop(), native="openai") as conversation:
        output, remark = await conversation.answers([call])
    assert output["tools"] == []
    assert "not a JSON object" in remark["content"]


@pytest.mark.spec("INT-3", "GRP-2")
async def test_what_a_tool_search_closed_to_make_room_is_said() -> None:
    tools = shop()
    tools.register_exclusion("stock", "staff")
    async with Conversation(tools, active="staff", native="openai") as conversation:
        *_, remark = await FakeOpenAI([[("tool_search", {"group": "stock"})]]).run(conversation)
    assert "Closed to make room: staff" in remark["content"]


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.spec("INT-3")
@pytest.mark.parametrize(
    ("native", "make", "problem"),
    [
        ("gemini", shop, "not 'gemini'"),
        (
            "mid-conversation-tool-changes-2026-07-01",
            lambda: ToolSet("bare", control="none"),
            "list one from the start",
        ),
        ("anthropic", lambda: ToolSet("bare", control="none"), "list one from the start"),
        ("openai", lambda: shop(control="per_group"), 'ToolSet(control="open_group")'),
    ],
)
def test_what_a_provider_cannot_load_late_is_refused(native: Any, make: Callable[[], ToolSet], problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Conversation(make(), native=native)
    assert problem in str(caught.value)


@pytest.mark.spec("INT-3", "INT-4")
def test_a_program_without_an_event_loop_is_answered_too() -> None:
    call = {"type": "tool_use", "id": "c", "name": "help", "input": {}}
    blocking = BlockingConversation(Conversation(shop(), native="anthropic"))
    with blocking:
        (answer,) = blocking.answers([call])
    assert answer["content"] == [{"type": "text", "text": "None."}]
    with pytest.raises(RuntimeError, match="within `with` only"):
        blocking.answers([call])


@pytest.mark.spec("INT-3")
async def test_answers_without_a_provider_are_refused() -> None:
    with pytest.raises(ConfigError, match='native=, such as "anthropic"'):
        await Conversation(shop()).answers([])
