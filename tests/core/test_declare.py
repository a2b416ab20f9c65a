"""SPEC KIT-1, KIT-2, KIT-7: tools and groups declared by decorators, and their options."""

from collections.abc import Callable
from typing import Any, cast

import pytest

from toolfold import (
    Context,
    HookContext,
    InvalidDefinition,
    InvalidName,
    ToolSet,
    group,
    tool,
)


@pytest.mark.spec("KIT-1")
def test_parts_that_were_not_given_are_not_on_the_wire() -> None:
    assert set(ToolSet("t").register("t", lambda: "").definition) <= {"name", "description", "inputSchema"}


@pytest.mark.spec("KIT-1")
def test_a_description_defaults_to_the_docstring() -> None:
    tools = ToolSet("t")

    @tools.tool()
    def documented() -> None:
        """Does it.

        In two parts.
        """

    @tools.tool(description="")
    def silenced() -> None:
        """Not for the model."""

    @tools.tool()
    def bare() -> None: ...

    class Handler:
        """About the class, not the tool."""

        def __call__(self) -> None: ...

    tools.register("callable", Handler())
    descriptions = {name: spec.description for name, spec in tools.catalog.tools.items()}
    assert descriptions == {"documented": "Does it.\n\nIn two parts.", "silenced": "", "bare": "", "callable": ""}


@pytest.mark.spec("KIT-2")
async def test_parameters_may_have_any_name() -> None:
    tools = ToolSet("t")

    @tools.tool()
    def odd(_private: int, model_config: int, self: int, schema: int, title: int, return_: int = 0) -> int:
        return _private + model_config + self + schema + title + return_

    names = ["_private", "model_config", "self", "schema", "title"]
    assert list(tools.catalog.tools["odd"].input_schema["properties"]) == [*names, "return_"]
    assert (await tools.call_tool("odd", dict.fromkeys(names, 2))).text == "10"


async def both(arguments: dict[str, Any], context: Context) -> list[Any]:
    return [arguments, context.name]


@pytest.mark.spec("KIT-2")
@pytest.mark.parametrize(
    ("handler", "text"),
    [
        (lambda: "nothing", "nothing"),
        (lambda arguments: [arguments], '[{"n": 1}]'),
        (lambda arguments, context: [arguments, context.name], '[{"n": 1}, "t"]'),
        (lambda arguments=None: [arguments], '[{"n": 1}]'),
        (lambda arguments, context=None: [arguments, context], '[{"n": 1}, null]'),
        (lambda *given: [len(given)], "[2]"),
        (both, '[{"n": 1}, "t"]'),
    ],
    ids=["nothing", "arguments", "both", "optional", "optional context", "any number", "async"],
)
async def test_a_handler_with_an_explicit_schema_takes_nothing_the_arguments_or_both(
    handler: Callable[..., Any], text: str
) -> None:
    tools = ToolSet("t")
    tools.register("t", handler, input_schema={"type": "object"})
    assert (await tools.call_tool("t", {"n": 1})).text == text


@group(description="The database", title="Data")
class Database:
    """Not used: the option overrides it."""

    def __init__(self) -> None:
        self.log: list[str] = []

    @group
    def reading(self) -> "Read":
        return Read(self.log)

    @group(name="admin", show_deactivator=False, title="Admin")
    def administration(self) -> "Write":
        return Write(self.log)

    @group
    def writing(self) -> "Write":
        return Write(self.log)

    @tool(always=True)
    def status(self) -> str:
        return f"{len(self.log)} entries"

    @property
    def broken(self) -> str:
        raise RuntimeError("properties are not looked at")


class Read:
    """Queries."""

    def __init__(self, log: list[str]) -> None:
        self.log = log

    @tool
    def query(self, text: str) -> str:
        self.log.append(text)
        return text


@group(on_activate="enter", on_deactivate="leave", title="Write")
class Write:
    def __init__(self, log: list[str]) -> None:
        self.log = log

    @tool
    def insert(self) -> str:
        return "inserted"

    async def enter(self, context: HookContext) -> None:
        self.log.append(f"enter {context.group}")

    def leave(self) -> None:
        self.log.append("leave")


@pytest.mark.spec("KIT-7", "NAM-3")
def test_groups_are_classes_nested_by_methods_that_return_instances() -> None:
    tools = ToolSet("t")
    tools.include(Database())
    infos = {info.name: (info.display_name, info.description, info.tool_count) for info in tools.list_groups()}
    assert infos == {
        "database": ("Data", "The database", 1),
        "database.admin": ("Admin", "", 1),
        "database.read": ("read", "Queries.", 1),
        "database.write": ("Write", "", 1),
    }
    user_tools = {name for name, spec in tools.catalog.tools.items() if spec.control is None}
    assert user_tools == {"database.status", "database.read.query", "database.admin.insert", "database.write.insert"}
    assert "database.admin.deactivate" not in tools.catalog.tools
    assert "database.write.deactivate" in tools.catalog.tools


@pytest.mark.spec("KIT-7", "HOOK-1")
async def test_hooks_are_methods_named_by_options() -> None:
    database = Database()
    tools = ToolSet("t")
    tools.include(database)
    await tools.activate_group("database")
    await tools.activate_group("database.write")
    await tools.deactivate_group("database")
    assert database.log == ["enter database.write", "leave"]


@pytest.mark.spec("KIT-7")
async def test_an_always_tool_of_a_group_is_listed_and_callable_while_the_group_is_closed() -> None:
    tools = ToolSet("t", control="none")
    tools.include(Database())
    assert tools.list_tools().names == ("database.status",)
    assert (await tools.call_tool("database.status")).text == "0 entries"


@pytest.mark.spec("KIT-7")
def test_a_servers_own_tools_are_at_root_and_its_group_methods_are_groups_at_root() -> None:
    class Server:
        @tool
        def ping(self) -> str:
            return "pong"

        @group(name="db")
        def database(self) -> Database:
            return Database()

    tools = ToolSet("t", control="none")
    tools.include(Server())
    assert tools.catalog.tools["ping"].group is None
    assert [info.name for info in tools.list_groups()] == ["db", "db.admin", "db.read", "db.write"]
    assert "db.read.query" in tools.catalog.tools


@pytest.mark.spec("KIT-7", "REG-1")
def test_what_can_not_be_included_is_refused_by_name() -> None:
    @group(on_activate="missing")
    class Wrong: ...

    tools = ToolSet("t")
    with pytest.raises(InvalidDefinition, match="'missing'"):
        tools.include(Wrong())
    with pytest.raises(InvalidDefinition, match="instance"):
        tools.include(Database)
    with pytest.raises(InvalidDefinition, match=r"'object'.* nothing"):
        tools.include(object())
    with pytest.raises(InvalidName):
        tools.include(group(type("Café", (), {}))())
    assert not tools.catalog.groups


@pytest.mark.spec("KIT-2", "ERR-2")
def test_an_async_generator_is_refused_since_a_call_has_one_result() -> None:
    async def stream() -> Any:
        yield 1

    class Streaming:
        async def __call__(self) -> Any:
            yield 1

    tools = ToolSet("t")
    handlers: list[Any] = [stream, Streaming()]
    for handler in handlers:
        forms: list[dict[str, Any]] = [{}, {"input": {}}]
        for options in forms:
            with pytest.raises(InvalidDefinition, match="its handler is an async generator, and a call has one result"):
                tools.register("t", handler, **cast("Any", options))
        with pytest.raises(InvalidDefinition, match="async generator"):
            tools.register_prompt("p", handler)


@pytest.mark.spec("KIT-2", "REG-1")
def test_a_generator_can_not_be_a_handler() -> None:
    def stream() -> Any:
        yield 1

    class Streaming:
        def __call__(self, *given: Any) -> Any:
            yield 1

    tools = ToolSet("t")
    handlers: list[Any] = [stream, Streaming()]
    for handler in handlers:
        with pytest.raises(InvalidDefinition, match="its handler is a generator, and a call has one result"):
            tools.register("t", handler)
