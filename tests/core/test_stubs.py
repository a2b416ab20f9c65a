"""SPEC COD-1: declarations of what can be called now, and the door for programs that were written against them."""

from __future__ import annotations

import ast
import re
from typing import Any, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from tests.core.support import FAMILIES, answer, notifications, snapshot_of, tool_set, with_groups
from toolfold import (
    ConfigError,
    InputRequired,
    Snapshot,
    ToolError,
    ToolNotFound,
    ToolResult,
    ToolSet,
    TransitionRequest,
    Visibility,
    include_stubs,
    invoke,
    stubs,
)
from toolfold._view.stubs import Language, identifiers, identifiers_of
from verification.systems import reachable

pytestmark = pytest.mark.spec("COD-1")


def declared(text: str) -> list[ast.AsyncFunctionDef]:
    """Return the functions that a stub in Python declares; there is nothing else in it that would run."""
    module = compile(text, "stubs", "exec", ast.PyCF_ONLY_AST)
    assert isinstance(module, ast.Module)
    said, imported, *rest = module.body
    assert isinstance(said, ast.Expr)
    assert isinstance(imported, ast.Import)
    assert {type(node) for node in rest} <= {ast.AsyncFunctionDef, ast.Assign}
    for node in rest:
        if isinstance(node, ast.Assign):
            assert ast.unparse(node.value).startswith("_typing.TypedDict(")
    exec(compile(text, "stubs", "exec"), {})
    return [node for node in rest if isinstance(node, ast.AsyncFunctionDef)]


def declared_in_typescript(text: str) -> list[str]:
    """Return the functions that a stub in TypeScript declares; nothing stands outside of comments and declarations."""
    without = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    lines = [line for line in without.splitlines() if line.strip()]
    found = [re.fullmatch(r"export declare function (\w+)\(.*\): Promise<.*>;", line) for line in lines]
    assert all(found), without
    return [one[1] for one in found if one]


@pytest.mark.parametrize("family", ["pairs-1", "pairs-2", "pairs-3"])
def test_stubs_have_what_is_listed_in_every_state_of_every_small_system(family: str) -> None:
    for system in FAMILIES[family]:
        tools = tool_set(system)
        tools.register("hidden", answer, hidden=True)
        names = identifiers(tools.catalog)
        for state in reachable(system):
            active = [system.paths()[group] for group in system.canonical(state)]
            snapshot = snapshot_of(tools.catalog, active)
            listed = [names[f"{path}.t"] for path in sorted(active)]
            assert sorted(one.name for one in declared(stubs(snapshot))) == sorted(listed)
            assert sorted(declared_in_typescript(stubs(snapshot, "typescript"))) == sorted(listed)


def test_equal_snapshots_have_equal_stubs_however_they_came_about() -> None:
    def made(*order: str) -> ToolSet:
        tools = with_groups("a", "b")
        for name in order:
            tools.register(name, answer, group=name[0])
        return tools

    one, other = made("a1", "b1", "a2"), made("b1", "a2", "a1")
    opened = Snapshot.of(one.catalog).after(TransitionRequest(activate=["b"])).after(TransitionRequest(activate=["a"]))
    languages: tuple[Language, ...] = ("python", "typescript")
    for language in languages:
        assert stubs(opened, language) == stubs(snapshot_of(other.catalog, ["a", "b"]), language)
    with pytest.raises(ConfigError, match="There are stubs in python and typescript, not in 'cobol'"):
        stubs(opened, "cobol")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_a_tool_has_one_identifier_in_every_state_and_it_maps_back() -> None:
    tools = with_groups("a", "b")
    names = ["list", "get_it", "get-it", "a.list", "2fast", "class", "_typing", "ä", "a_list"]
    assert identifiers_of(names) == {
        "2fast": "_2fast",
        "_typing": "_typing_",
        "a.list": "a_list_",
        "a_list": "a_list",
        "class": "class_",
        "get-it": "get_it_",
        "get_it": "get_it",
        "list": "list_",
        "ä": "_",
    }
    assert len({*identifiers_of(["x-y", "x.y", "x_y", "x_y_"]).values()}) == 4
    before = dict(identifiers(tools.catalog))
    tools.register("late", answer)
    assert before.items() <= identifiers(tools.catalog).items()


STRING = {"type": "string"}


class Row(TypedDict):
    """A row of a table."""

    name: str
    age: NotRequired[int]


@pytest.mark.parametrize(
    ("schema", "python", "typescript"),
    [
        ({"type": "object", "additionalProperties": False}, "", ""),
        ({"type": "object"}, "**arguments: _typing.Any", "args?: Record<string, unknown>"),
        (
            {"type": "object", "properties": {"b": {"type": "integer"}, "a": STRING}, "required": ["a"]},
            "*, a: str, b: int=...",
            "args: { b?: number; a: string }",
        ),
        (
            {"type": "object", "properties": {"x-y": {"type": ["array", "null"], "items": STRING}}},
            "*, x_y: list[str] | None=...",
            'args?: { "x-y"?: Array<string> | null }',
        ),
        (
            {"type": "object", "properties": {"mode": {"enum": ["a", 1, None]}, "n": {"enum": [[1]]}}},
            "*, mode: _typing.Literal['a', 1, None]=..., n: _typing.Any=...",
            'args?: { mode?: "a" | 1 | null; n?: unknown }',
        ),
        (
            {"type": "object", "properties": {"by": {"type": "object", "additionalProperties": {"type": "number"}}}},
            "*, by: dict[str, float]=...",
            "args?: { by?: Record<string, number> }",
        ),
        (
            {"type": "object", "properties": {"row": {"$ref": "#/$defs/Row"}}, "$defs": {"Row": {"type": "object"}}},
            "*, row: dict[str, _typing.Any]=...",
            "args?: { row?: Record<string, unknown> }",
        ),
    ],
)
def test_arguments_have_their_types(schema: dict[str, Any], python: str, typescript: str) -> None:
    tools = ToolSet("t")
    tools.register("call", answer, input_schema=schema)
    snapshot = Snapshot.of(tools.catalog)
    (function,) = declared(stubs(snapshot))
    assert ast.unparse(function.args) == python
    assert f"function call({typescript}):" in stubs(snapshot, "typescript")


def test_nested_objects_and_what_a_tool_returns_have_types() -> None:
    tools = ToolSet("t")

    @tools.tool()
    def insert(rows: list[Row]) -> list[int]:
        """Insert rows.

        Args:
            rows: What to insert.
        """
        return [len(rows)]

    snapshot = Snapshot.of(tools.catalog)
    assert stubs(snapshot).partition("\n\n")[2] == (
        "import typing as _typing\n\n"
        "InsertRows = _typing.TypedDict(\"InsertRows\", {'name': str, 'age': _typing.NotRequired[int]})\n"
        "async def insert(*, rows: list[InsertRows]) -> list[int]:\n"
        '    """Insert rows.\n'
        '\n    rows: What to insert."""\n'
        "    ...\n"
    )
    line = "function insert(args: { rows: Array<{ name: string; age?: number }> }): Promise<Array<number>>;"
    assert line in stubs(snapshot, "typescript")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.sampled_from(
    ['"""', "*/", "\\", 'x"', "*/ alert(1) /*", '"""\nimport os', "{x}", "a\r\nb", "\u2028", "*args", "\\u0022"]
)


@given(TEXTS, st.lists(TEXTS, unique=True, max_size=3), TEXTS)
def test_texts_of_others_are_never_code(description: str, properties: list[str], choice: str) -> None:
    tools = ToolSet("t")
    parts = {key: {"enum": [choice], "description": description} for key in properties}
    inner = {"type": "object", "properties": {**parts, "all": {"type": "object", "properties": parts}}}
    tools.register("call", answer, description=description, input_schema=inner)
    snapshot = Snapshot.of(tools.catalog)
    assert [one.name for one in declared(stubs(snapshot))] == ["call"]
    assert declared_in_typescript(stubs(snapshot, "typescript")) == ["call"]


# -- the door ---------------------------------------------------------------------------------------------------------


async def test_a_program_opens_a_group_and_loses_a_tool_when_an_exclusion_closes_its_group() -> None:
    tools = with_groups("read", "write")
    tools.register_exclusion("read", "write")
    tools.register("get", lambda: {"rows": 2}, group="read")
    tools.register("put", answer, group="write")
    async with tools.open_session() as session:
        changes = notifications(session)
        assert [one.name for one in declared(stubs(session.snapshot))] == [
            *("read_open", "read_close", "write_open", "write_close")
        ]
        await invoke(session, "read_open")
        assert await invoke(session, "read_get") == {"rows": 2}
        await invoke(session, "write_activate", {})  # as it was called in the stubs of earlier versions
        assert "read_get" not in stubs(session.snapshot)
        with pytest.raises(ToolNotFound, match=r"Unknown tool: read\.get"):
            await invoke(session, "read_get")
        assert await invoke(session, "write.put") == "done"
        assert changes == [{"tool"}, {"tool"}]


async def test_the_door_obeys_predicates_validates_and_maps_arguments() -> None:
    tools = ToolSet("t")
    schema = {"type": "object", "properties": {"x-y": {"type": "integer"}, "class": STRING}, "required": ["x-y"]}
    tools.register("call", lambda arguments: str(sorted(arguments.items())), input_schema=schema)
    tools.register("closed", answer, visibility=Visibility.when(lambda view: "key" in view.facts))
    async with tools.open_session() as session:
        assert await invoke(session, "call", {"x_y": 1, "class_": "a"}) == "[('class', 'a'), ('x-y', 1)]"
        assert await invoke(session, "call", {"x-y": 1}) == "[('x-y', 1)]"
        with pytest.raises(ToolError, match="x-y"):
            await invoke(session, "call", {"x_y": "one"})
        with pytest.raises(ToolNotFound):
            await invoke(session, "closed")
        session.set_fact("key", True)
        assert await invoke(session, "closed") == "done"


async def test_a_program_gets_the_value_that_a_tool_answers_with() -> None:
    tools = ToolSet("t")

    @tools.tool()
    def numbers() -> list[int]:
        return [1, 2]

    tools.register("text", lambda: "a text")
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    tools.register("image", lambda: ToolResult(content=(image,)))
    tools.register("fails", lambda: ToolResult.of_text("no", is_error=True))
    tools.register("asks", lambda: InputRequired({"name": {"method": "elicitation/create", "params": {}}}))
    async with tools.open_session() as session:
        assert await invoke(session, "numbers") == [1, 2]
        assert await invoke(session, "text") == "a text"
        assert [block["type"] for block in await invoke(session, "image")] == ["image"]
        with pytest.raises(ToolError, match=r"^no$"):
            await invoke(session, "fails")
        with pytest.raises(ToolError, match="asks for something"):
            await invoke(session, "asks")


async def test_stubs_are_read_as_resources_of_the_state_at_that_time() -> None:
    tools = with_groups("a")
    tools.register("t", answer, group="a")
    include_stubs(tools)
    async with tools.open_session() as session:
        languages: dict[str, Language] = {"toolfold://stubs.py": "python", "toolfold://stubs.ts": "typescript"}
        for uri, language in languages.items():
            (before,) = (await session.read(uri))["contents"]
            await session.activate("a")
            (after,) = (await session.read(uri))["contents"]
            assert "a_t" not in before["text"]
            assert after["text"] == stubs(session.snapshot, language)
            assert after["mimeType"] == f"text/x-{language}"
            await session.deactivate("a")
