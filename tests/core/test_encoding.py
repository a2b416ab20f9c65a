"""Whatever a handler returns or a caller sends, the answer can be encoded as UTF-8 (SPEC SAF-2, CALL-3).

A lone surrogate, such as Python makes of a file name that is no UTF-8, can't be encoded; one in an answer would end the
writer of a whole connection. It becomes an escape that can be read.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from attrs import asdict
from pydantic import BaseModel

from tests.core.support import with_groups
from toolfold import (
    Context,
    HookFailed,
    InputRequired,
    InvalidArguments,
    ProtocolError,
    ToolError,
    ToolfoldError,
    ToolNotFound,
    ToolResult,
    ToolSet,
)
from toolfold.spi import Passed

ODD = "caf\udce9"
SHOWN = "caf\\udce9"
ANYTHING = {"type": "object"}


class Model(BaseModel):
    name: str


def carried(value: Any) -> str:
    """Return a value as JSON, which must be encodable."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


def wire_of(result: ToolResult) -> list[Any]:
    needs = None if result.needs is None else asdict(result.needs)
    meta = None if result.meta is None else dict(result.meta)
    return [[dict(block) for block in result.content], result.structured, meta, needs]


async def called(answer: Any, **options: Any) -> ToolResult:
    tools = ToolSet("t")
    tools.register("t", lambda values: answer, input_schema=ANYTHING, **options)
    return await tools.call_tool("t")


@pytest.mark.spec("SAF-2", "CALL-3")
@pytest.mark.parametrize(
    ("answer", "text", "structured"),
    [
        (ODD, SHOWN, None),
        ({"name": ODD}, f'{{"name": "{SHOWN}"}}', {"name": SHOWN}),
        ({ODD: 1}, f'{{"{SHOWN}": 1}}', {SHOWN: 1}),
        ([ODD], f'["{SHOWN}"]', None),
        (Path(ODD), f'"{SHOWN}"', None),
        (Model(name=ODD), f'{{"name": "{SHOWN}"}}', {"name": SHOWN}),
        ({"deep": [{"er": (ODD, {ODD: ODD})}]}, None, {"deep": [{"er": [SHOWN, {SHOWN: SHOWN}]}]}),
        (ToolResult.of_text(ODD, ODD), SHOWN, SHOWN),
        (ToolResult(({"type": "text", "text": ODD},), {"name": [ODD]}), SHOWN, {"name": [SHOWN]}),
        ("naïve ✓ 🎉", "naïve ✓ 🎉", None),
    ],
)
async def test_what_utf_8_can_not_encode_becomes_an_escape(answer: Any, text: str | None, structured: Any) -> None:
    result = await called(answer)
    assert not result.is_error
    carried(wire_of(result))
    assert result.structured == structured
    assert text is None or result.text.replace("\\\\", "\\") == text


@pytest.mark.spec("SAF-2", "KIT-6")
async def test_a_result_that_is_checked_by_a_schema_is_escaped_too() -> None:
    answers: tuple[Any, ...] = (ODD, ToolResult.of_text(ODD, ODD))
    for answer in answers:
        result = await called(answer, output_schema={"type": "string"})
        assert not result.is_error
        assert (result.text, result.structured) == (SHOWN, SHOWN)


@pytest.mark.spec("SAF-2")
async def test_every_part_of_a_ready_result_is_escaped() -> None:
    result = await called(
        ToolResult(
            (
                {"type": "resource", "resource": {"uri": f"file:///{ODD}", "text": ODD}},
                MappingProxyType({"type": "text", "text": "fine", "_meta": MappingProxyType({ODD: ODD})}),
            ),
            structured=OrderedDict(model=Model(name="x")),
            meta={"dev.example/name": ODD},
            needs=InputRequired({ODD: {"message": ODD}}, state=ODD),
        )
    )
    carried(wire_of(result))
    assert result.content[0] == {"type": "resource", "resource": {"uri": f"file:///{SHOWN}", "text": SHOWN}}
    assert result.content[1] == {"type": "text", "text": "fine", "_meta": {SHOWN: SHOWN}}
    assert result.structured == {"model": {"name": "x"}}
    assert result.meta == {"dev.example/name": SHOWN}
    assert result.needs == InputRequired({SHOWN: {"message": SHOWN}}, state=SHOWN)


@pytest.mark.spec("CALL-3")
async def test_a_ready_result_that_can_be_encoded_is_passed_on_unchanged() -> None:
    block = {"type": "text", "text": "naïve"}
    ready = ToolResult((block,), structured={"list": [1, 2.5, None, True]}, meta={"m": {"n": "ö"}})
    result = await called(ready)
    assert result is ready
    assert result.content[0] is block


def nested(depth: int) -> Any:
    value: Any = "deep"
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.spec("SAF-2", "CALL-3")
@pytest.mark.parametrize(
    "structured",
    [object(), {"a": object()}, {"a": b"\xff"}, {"n": float("nan")}, nested(100_000), {"n": 10**5000}],
    ids=["object", "inside", "bytes", "not a number", "too deep", "huge"],
)
@pytest.mark.parametrize("ready", [False, True])
async def test_what_has_no_json_form_is_an_error_result(structured: Any, ready: bool) -> None:
    result = await called(ToolResult((), structured) if ready else {"x": structured})
    assert result.is_error
    assert result.text == "t failed with an internal error; its operator can find it in the log."


@pytest.mark.spec("SAF-2", "CALL-2")
@pytest.mark.parametrize("schema", [ANYTHING, {"type": "object", "properties": {"n": {"type": "integer"}}}])
@pytest.mark.parametrize("arguments", [{ODD: 1}, {"n": ODD}, {"n": [{ODD: ODD}]}], ids=["name", "value", "deep"])
async def test_the_answer_to_arguments_that_utf_8_can_not_encode_can_be_encoded(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    tools = ToolSet("t")
    tools.register("raw", lambda values: str(values), input_schema={**schema, "additionalProperties": False})
    tools.register("echo", lambda values: values, input_schema=schema)

    @tools.tool
    def typed(n: int) -> int:
        return n

    for name in ("raw", "echo", "typed"):
        carried(wire_of(await tools.call_tool(name, arguments)))
    if ODD in arguments:
        result = await tools.call_tool("raw", arguments)
        assert "arguments: it has a name or a text with a lone surrogate" in result.text


@pytest.mark.spec("SAF-2", "CALL-1", "ERR-2")
async def test_the_refusal_of_a_name_that_utf_8_can_not_encode_can_be_encoded() -> None:
    tools = with_groups("a", control="load_tool_group")
    tools.register_prompt("p", lambda: "hello")
    asked: list[Callable[[], Awaitable[Any]]] = [
        lambda: tools.call_tool(ODD),
        lambda: tools.default_session.get_prompt(ODD),
        lambda: tools.default_session.get_prompt("p", {ODD: ODD}),
        lambda: tools.default_session.read(f"file:///{ODD}"),
        lambda: tools.activate_group(ODD),
    ]
    for ask in asked:
        with pytest.raises(ToolfoldError) as raised:
            await ask()
        carried(str(raised.value))
        assert SHOWN in str(raised.value).replace("\\\\", "\\") or isinstance(raised.value, InvalidArguments)
    result = await tools.call_tool("load_tool_group", {"group_name": ODD})
    carried(wire_of(result))
    assert result.is_error


@pytest.mark.spec("SAF-2", "CALL-3", "SAF-3")
async def test_errors_for_the_caller_can_be_encoded() -> None:
    def refuse() -> None:
        raise ToolError(f"No such file: {ODD}")

    def fail() -> None:
        raise ProtocolError(-32000, ODD, {ODD: [ODD]})

    def fail_oddly() -> None:
        raise ProtocolError(-32000, "odd", object())

    tools = ToolSet("t")
    tools.register("refuse", refuse)
    tools.register("fail", fail)
    tools.register("fail_oddly", fail_oddly)
    tools.register_prompt("refuse", refuse)
    tools.register_prompt("fail", fail)
    tools.register_group("a", on_activate=refuse)
    assert (await tools.call_tool("refuse")).text == f"No such file: {SHOWN}"
    with pytest.raises(ToolError) as refused:
        await tools.default_session.get_prompt("refuse")
    assert str(refused.value) == f"No such file: {SHOWN}"
    for ask in (lambda: tools.call_tool("fail"), lambda: tools.default_session.get_prompt("fail")):
        with pytest.raises(ProtocolError) as failed:
            await ask()
        assert (failed.value.code, failed.value.message, failed.value.data) == (-32000, SHOWN, {SHOWN: [SHOWN]})
    with pytest.raises(ProtocolError) as failed:
        await tools.call_tool("fail_oddly")
    assert (failed.value.code, failed.value.data) == (-32000, None)
    with pytest.raises(HookFailed) as hook:
        await tools.activate_group("a")
    carried([str(hook.value), hook.value.reason, (await tools.call_tool("a.activate")).text])


@pytest.mark.spec("SAF-2", "REG-9")
async def test_prompts_and_resources_can_be_encoded() -> None:
    tools = ToolSet("t")
    tools.register_prompt("text", lambda: ODD)
    tools.register_prompt("messages", lambda: [{"role": "user", "content": {"type": "text", "text": ODD}}])
    tools.register_prompt("whole", lambda: {"description": ODD, "messages": [Model(name=ODD)]})
    tools.register_prompt("needs", lambda: InputRequired({"a": {"message": ODD}}))
    tools.register_resource("file:///text", lambda: ODD)
    tools.register_resource("file:///contents", lambda: {"contents": [{"uri": f"file:///{ODD}", "text": ODD}]})
    tools.register_resource_template("odd:///{name}", lambda values: values["name"])
    session = tools.default_session
    for name in ("text", "messages", "whole", "needs"):
        answer = await session.get_prompt(name)
        plain = asdict(answer) if isinstance(answer, InputRequired) else answer
        assert SHOWN in carried(plain).replace("\\\\", "\\")
    for uri in ("file:///text", "file:///contents", f"odd:///{ODD}"):
        assert SHOWN in carried(await session.read(uri)).replace("\\\\", "\\")


@pytest.mark.spec("SAF-2")
async def test_progress_messages_can_be_encoded() -> None:
    received: list[str | None] = []

    async def work(context: Context) -> None:
        await context.report_progress(1, 2, ODD)

    async def report(progress: float, total: float | None, message: str | None) -> None:
        received.append(message)

    tools = ToolSet("t")
    tools.register("work", work)
    await tools.default_session.call("work", progress=report)
    assert received == [SHOWN]


def test_an_error_has_the_name_that_was_asked_for() -> None:
    assert ToolNotFound(ODD).name == ODD
    assert str(ToolNotFound(ODD)) == f"Unknown tool: {SHOWN}"


@pytest.mark.spec("GWY-1")
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_the_answer_of_another_server_passes_without_being_encoded(kind: str) -> None:
    answer = {"content": [{"type": "text", "text": ODD}], "vendor": {"a set is": "no JSON", "of": {1, 2}}}

    async def handler() -> ToolResult:
        return Passed(answer=answer)

    tools = ToolSet("passing")
    tools.register("thing", handler)
    tools.register_prompt("thing", handler)
    tools.register_resource("thing:one", handler)
    async with tools.open_session() as session:
        if kind == "tool":
            result = await session.call("thing")
            assert isinstance(result, Passed)
            assert result.answer is answer
        else:
            got = session.get_prompt("thing") if kind == "prompt" else session.read("thing:one")
            assert await got is answer
