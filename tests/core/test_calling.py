"""SPEC 9: calling, from the check to the result."""

import json
import logging
from typing import Annotated, Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from tests.core.support import answer, with_groups
from toolfold import (
    Context,
    InvalidArguments,
    SessionClosed,
    ToolNotFound,
    ToolResult,
    ToolSet,
    Visibility,
)


class Point(BaseModel):
    x: int
    y: int = 0


@pytest.mark.spec("CALL-2")
@pytest.mark.parametrize(
    ("arguments", "place", "expectation"),
    [
        ({}, "arguments", '"count"'),
        ({"count": "three"}, "arguments.count", "integer"),
        ({"count": 0}, "arguments.count", "minimum of 1"),
        ({"count": 1, "more": 1}, "arguments", "more"),
        ({"count": 1, "points": [{"x": 1}, {"x": "a"}]}, "arguments.points[1].x", "integer"),
        ({"count": 1, "points": 5}, "arguments.points", '"array", or 5 is not of type "null"'),
        ({"count": 1, "code": "xyz"}, "arguments.code", "3"),
    ],
    ids=["missing", "type", "bound", "unknown", "nested", "alternatives", "after the schema"],
)
async def test_arguments_that_do_not_fit_are_an_error_result_that_names_place_and_expectation(
    arguments: dict[str, Any], place: str, expectation: str
) -> None:
    def upper(value: str) -> str:
        if len(value) != 4:
            raise ValueError("needs 4 letters, not 3")
        return value

    ran: list[int] = []

    def handler(
        count: Annotated[int, Field(ge=1)],
        points: list[Point] | None = None,
        code: Annotated[str, AfterValidator(upper)] = "abcd",
    ) -> None:
        ran.append(count)

    tools = ToolSet("t")
    tools.register("t", handler)
    result = await tools.call_tool("t", arguments)
    assert result.is_error
    assert result.text.startswith("Invalid arguments for t: ")
    problems = result.text.removeprefix("Invalid arguments for t: ").split("; ")
    assert any(problem.startswith(f"{place}: ") and expectation in problem for problem in problems), problems
    assert ran == []


@pytest.mark.spec("CALL-2", "KIT-2")
async def test_arguments_of_a_typed_handler_arrive_as_its_types_with_defaults() -> None:
    seen: list[Any] = []

    def handler(point: Point, names: set[str], count: int = 7) -> None:
        seen.append((point, names, count))

    tools = ToolSet("t")
    tools.register("t", handler)
    await tools.call_tool("t", {"point": {"x": 1}, "names": ["b", "a"]})
    assert seen == [(Point(x=1, y=0), {"a", "b"}, 7)]


@pytest.mark.spec("CALL-2")
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["n", "s", "l"]), inner),
        max_leaves=5,
    )
)
def test_a_handler_runs_if_and_only_if_its_schema_admits_the_arguments(value: Any) -> None:
    arguments = value if isinstance(value, dict) else {"n": value}
    ran: list[Any] = []
    tools = ToolSet("t")
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "s": {"type": "string"}},
        "additionalProperties": False,
    }
    tools.register("t", ran.append, input_schema=schema)
    result = anyio.run(tools.call_tool, "t", arguments)
    fits = all(
        (key == "n" and isinstance(item, int) and not isinstance(item, bool)) or (key == "s" and isinstance(item, str))
        for key, item in arguments.items()
    )
    assert result.is_error is not fits
    assert ran == ([arguments] if fits else [])


NO_ARGUMENTS: list[tuple[Any, str]] = [
    ("text", "they are a str, and must be a mapping of names to values"),
    ("", "they are a str, and must be a mapping of names to values"),
    ([1], "they are a list, and must be a mapping of names to values"),
    (0, "they are a int, and must be a mapping of names to values"),
    ({5: "x"}, "the name 5 is no text"),
]


@pytest.mark.spec("CALL-2", "REG-9")
@pytest.mark.parametrize(("arguments", "problem"), NO_ARGUMENTS, ids=[repr(row[0]) for row in NO_ARGUMENTS])
async def test_arguments_that_are_no_mapping_are_refused_like_any_that_do_not_fit(arguments: Any, problem: str) -> None:
    tools = with_groups("g", control="load_tool_group")
    tools.register("typed", lambda: "ran")
    tools.register("raw", lambda arguments: "ran", input_schema={"type": "object"})
    tools.register_prompt("asked", lambda arguments: "ran")
    message = f"arguments: {problem}. Call it again with arguments that fit its schema."
    async with tools.open_session() as session:
        for name in ("typed", "raw", "load_tool_group"):
            result = await session.call(name, arguments)
            assert (result.is_error, result.text) == (True, f"Invalid arguments for {name}: {message}")
        with pytest.raises(InvalidArguments) as refused:
            await session.get_prompt("asked", arguments)
        assert str(refused.value) == f"Invalid arguments for asked: {message}"


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("secret"),
        InvalidArguments("other", {"secret": "x"}),
        ToolNotFound("secret"),
        SessionClosed("secret"),
    ],
    ids=["foreign", "arguments of another", "another tool", "library"],
)
async def test_any_other_exception_is_an_error_result_without_internals_and_logged_in_full(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def handler() -> None:
        raise error

    tools = ToolSet("t")
    tools.register("t", handler)
    with caplog.at_level(logging.ERROR, "toolfold"):
        result = await tools.call_tool("t")
    assert result.is_error
    assert "secret" not in result.text
    assert "t failed" in result.text
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.exc_info[1] is error


@pytest.mark.spec("CALL-3")
@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("plain", "plain", None),
        (None, "", None),
        ({"a": 1}, '{"a": 1}', {"a": 1}),
        (Point(x=1), '{"x": 1, "y": 0}', {"x": 1, "y": 0}),
        ([1, "zwei"], '[1, "zwei"]', None),
        (5, "5", None),
        (ToolResult.of_text("own", {"b": 2}, is_error=True), "own", {"b": 2}),
    ],
    ids=["text", "nothing", "mapping", "model", "list", "number", "result"],
)
async def test_the_result_of_a_handler_becomes_text_and_structured_content(
    value: Any, text: str, structured: Any
) -> None:
    tools = ToolSet("t")
    tools.register("t", lambda: value)
    result = await tools.call_tool("t")
    assert (result.text, result.structured) == (text, structured)
    assert result.is_error == isinstance(value, ToolResult)
    json.dumps([dict(block) for block in result.content])


@pytest.mark.spec("CALL-4")
async def test_a_call_in_progress_completes_when_its_group_is_deactivated_or_unregistered() -> None:
    started, proceed = anyio.Event(), anyio.Event()

    async def slow(context: Context) -> str:
        started.set()
        await proceed.wait()
        return f"{context.snapshot.active} {context.session.active}"

    tools = with_groups("a", control="none")
    tools.register("slow", slow, group="a")
    results: list[ToolResult] = []
    async with tools.open_session(active=["a"]) as session, anyio.create_task_group() as tasks:

        async def call() -> None:
            results.append(await session.call("a.slow"))

        tasks.start_soon(call)
        await started.wait()
        await tools.unregister_group("a")
        with pytest.raises(ToolNotFound):
            await session.call("a.slow")
        proceed.set()
    assert [result.text for result in results] == ["('a',) ()"]


@pytest.mark.spec("CALL-4", "VIS-3")
async def test_a_handler_is_given_the_snapshot_that_its_predicate_saw() -> None:
    seen: list[Any] = []

    def predicate(view: Any) -> bool:
        seen.append(view.snapshot)
        return True

    def handler(context: Context) -> None:
        seen.extend((context.snapshot, context.view.snapshot))

    tools = ToolSet("t")
    tools.register("t", handler, visibility=Visibility.when(predicate))
    await tools.call_tool("t")
    assert len(seen) == 3
    assert seen[0] is seen[1] is seen[2]


@pytest.mark.spec("CALL-5")
async def test_a_handler_changes_its_own_session_and_the_next_request_sees_it() -> None:
    async def work(context: Context) -> list[Any]:
        context.set_fact("n", 1)
        opened = await context.activate("a")
        closed = await context.deactivate("b")
        return [context.session.id, opened, closed, list(context.snapshot.active), context.is_group_active("a")]

    tools = ToolSet("t", control="none")
    for path in ("a", "b"):
        tools.register_group(path)
        tools.register("t", answer, group=path)
    tools.register("work", work)
    async with tools.open_session(active=["b"], identity="mine") as session, tools.open_session() as other:
        assert json.loads((await session.call("work")).text) == ["mine", True, True, ["b"], True]
        assert session.list_tools().names == ("a.t", "work")
        assert dict(session.facts) == {"n": 1}
        assert (other.active, dict(other.facts)) == ((), {})


@pytest.mark.spec("CALL-5")
async def test_progress_is_reported_only_to_a_caller_that_asked_for_it() -> None:
    async def work(context: Context) -> None:
        await context.report_progress(1, 2, "half")

    reports: list[tuple[float, float | None, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append((progress, total, message))

    tools = ToolSet("t")
    tools.register("work", work)
    assert not (await tools.call_tool("work")).is_error
    await tools.default_session.call("work", progress=report)
    assert reports == [(1, 2, "half")]


@pytest.mark.spec("CALL-2")
@pytest.mark.parametrize(
    ("value", "named"),
    [(object(), "value of type object"), ([{1, 2}], "value of type set"), ({1: 2}, "name of type int")],
    ids=["object", "set", "number as a name"],
)
async def test_an_argument_that_has_no_json_form_is_refused_by_its_type(value: Any, named: str) -> None:
    tools = ToolSet("t")
    tools.register("raw", lambda _: "ran", input_schema={"type": "object", "properties": {"x": {"type": "integer"}}})
    result = await tools.call_tool("raw", {"x": value})
    assert result.is_error
    assert f"arguments: it has a {named}, which has no JSON form" in result.text


@pytest.mark.spec("CALL-1", "ERR-2")
async def test_a_base_name_is_answered_with_the_full_names_that_are_listed_and_no_others() -> None:
    tools = ToolSet("t")
    for path in ("database", "files", "secret"):
        tools.register_group(path)
        tools.register("query", answer, group=path, hidden=path == "secret")
    await tools.activate_group("database")
    await tools.activate_group("secret")
    with pytest.raises(ToolNotFound) as refused:
        await tools.call_tool("query")
    assert str(refused.value) == "Unknown tool: query (did you mean 'database.query'?)"
