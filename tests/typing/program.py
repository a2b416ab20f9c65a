"""A program as a user writes it, with the mistakes that a type checker must find (SPEC KIT-8).

Each mistake is in a line of its own, which says `type: ignore`: so the checkers of this repository pass, and mypy says
when one is no longer found. `test_typing.py` takes these comments away and looks at what both checkers say.
"""

from __future__ import annotations

from typing import Annotated, assert_type

from pydantic import Field

from toolfold import (
    Context,
    HookContext,
    ToolSet,
    Visibility,
    group,
    prompt,
    resource,
    resource_template,
    tool,
    toolkit,
)
from toolfold_adapters.inprocess import BlockingConversation, Conversation
from toolfold_adapters.mcp import build_server, http_app, serve

tools = ToolSet(
    "desk", on_hidden="hint", page_size=10, control="load_tool_group", hook_timeout=2.5, structured_output=False
)
unlocked = Visibility.when(lambda view: "unlocked" in view.facts)


# What is right: decorators bare, called, named and with options, and the functions stay what they are


@tools.tool
def bare(number: int) -> int:
    return number + 1


@tools.tool()
async def called(text: str) -> str:
    return text


@tools.tool("named", group="files", hidden=~unlocked, category="Files", annotations={"read_only_hint": True})
def positional() -> None: ...


@tools.tool(name="also_named", flat=True)
def keyword() -> None: ...


@tools.tool(run_in_thread=False, structured_output=True, check_output=True)
def described(words: Annotated[str, Field(min_length=1)], context: Context, *, limit: int = 10) -> list[str]:
    return [words] * limit


@tools.prompt
def bare_prompt() -> str:
    return ""


@tools.prompt("named", arguments=["topic"])
def named_prompt(arguments: dict[str, str]) -> str:
    return arguments["topic"]


@tools.resource("files://today", mime_type="text/plain")
def today() -> str:
    return ""


@tools.resource_template("files://{day}", name="day")
async def day(arguments: dict[str, str]) -> bytes:
    return b""


@toolkit(category="Files", hidden=unlocked)
class Files:
    @tool
    def read(self, path: str) -> str:
        return path

    @tool("write", title="Write", always=True)
    def write_text(self, path: str, text: str) -> None: ...

    @prompt
    def ask(self) -> str:
        return ""

    @prompt(name="more", arguments=["topic"])
    def ask_more(self, arguments: dict[str, str]) -> str:
        return arguments["topic"]

    @resource("files://all", mime_type="text/plain", group="files")
    def everything(self) -> str:
        return ""

    @resource_template("files://{path}", name="one", visible=unlocked)
    def one(self, arguments: dict[str, str]) -> str:
        return arguments["path"]

    @group
    def inner(self) -> Inner:
        return Inner()


@group(name="inner", title="Inside", on_activate="enter", pinned=True)
class Inner:
    async def enter(self, context: HookContext) -> None: ...


def enter() -> None: ...


async def right() -> None:
    tools.register_group("files", "All files", on_activate=enter, on_rollback=False, transient=True)
    tools.include(Files(), group="files", category="Given")
    tools.include(Files(), name="single", description="One tool", hidden=False)
    tools.register("plain", lambda: "done", tags="slow", visible=False)
    tools.register_catalog_tool(hidden=True)
    assert_type(bare(1), int)
    assert_type(await called("x"), str)
    assert_type(tools.tool(bare, name="again")(1), int)
    assert_type(Files().read("x"), str)
    assert_type(bare_prompt(), str)
    assert_type(named_prompt({}), str)
    assert_type(today(), str)
    assert_type(await day({}), bytes)
    async with tools.open_session(active="files") as session:
        await session.call("plain", {"x": 1})
    tools.notify_list_changed("prompt")
    async with Conversation(tools, active="files") as conversation:
        conversation.tools("anthropic")
    with BlockingConversation(Conversation(tools)) as blocking:
        blocking.execute([])
    build_server(tools, delivery="principal", stale_handles="refuse", answers="names")
    http_app(tools, path="/tools", handles="stored", active=["files"])
    await serve(tools, transport="http", port=0, separator="__", disclosure=False)


def main() -> None:
    tools.run("http", port=9000, active="files")


# What is wrong

ToolSet("desk", on_hidden="shout")  # type: ignore[arg-type]
ToolSet("desk", when_full="wait")  # type: ignore[arg-type]
ToolSet("desk", evict="newest")  # type: ignore[arg-type]
ToolSet("desk", control="per-group")  # type: ignore[arg-type]
ToolSet("desk", control_visibility="never")  # type: ignore[arg-type]
ToolSet("desk", page_size="10")  # type: ignore[arg-type]
ToolSet("desk", state=5)  # type: ignore[arg-type]

ToolSet("desk", structured_output="no")  # type: ignore[arg-type]
ToolSet("desk", run_in_thread="no")  # type: ignore[arg-type]

tools.tool(grup="files")(enter)  # type: ignore[call-overload]
tools.tool(enter, grup="files")  # type: ignore[call-overload]
tools.tool("named", hidden="yes")(enter)  # type: ignore[call-overload]
tools.register("plain", enter, hiden=True)  # type: ignore[call-arg]
tools.register("plain", enter, flat="no")  # type: ignore[arg-type]
tools.register("plain", enter, visibility=True)  # type: ignore[arg-type]
tools.register_prompt("asked", enter, category="Files")  # type: ignore[call-arg]
tools.register_resource("files://all", enter, mimetype="text/plain")  # type: ignore[call-arg]
tools.register_resource_template("files://{path}", enter, flat=True)  # type: ignore[call-arg]
tools.register_catalog_tool(hiden=True)  # type: ignore[call-arg]
tools.register_group("files", tilte="Files")  # type: ignore[call-arg]
tools.register_group("files", on_activate="enter")  # type: ignore[arg-type]
tools.include(Files(), categry="Files")  # type: ignore[call-arg]
tools.notify_list_changed("tools")  # type: ignore[arg-type]

tools.register("plain", enter, structured_output="yes")  # type: ignore[arg-type]
tools.register("plain", enter, run_in_thread="yes")  # type: ignore[arg-type]
tools.register("plain", "enter")  # type: ignore[arg-type]
tools.prompt(category="Files")(enter)  # type: ignore[call-overload]
tools.prompt(named_prompt, flat="no")  # type: ignore[call-overload]
tools.resource(enter)  # type: ignore[arg-type]
tools.resource("files://all", flat=True)(enter)  # type: ignore[call-arg]
tools.resource_template("files://{path}", mimetype="text/plain")(enter)  # type: ignore[call-arg]
tools.run("sse")  # type: ignore[arg-type]
tools.run(port="8000")  # type: ignore[arg-type]
tools.run(transport="http", delivery="auto")  # type: ignore[call-arg]

build_server(tools, delivery="session")  # type: ignore[arg-type]
http_app(tools, handles="short")  # type: ignore[arg-type]
http_app(tools, seperator="__")  # type: ignore[call-arg]

tool(grup="files")(enter)  # type: ignore[call-overload]
prompt(category="Files")(enter)  # type: ignore[call-overload]
resource(enter)  # type: ignore[arg-type]
resource("files://all", mimetype="text/plain")(enter)  # type: ignore[call-arg]
toolkit(categry="Files")(Files)  # type: ignore[call-overload]
group(tilte="Files")(Files)  # type: ignore[call-overload]

bare("1")  # type: ignore[arg-type]
bare(text=1)  # type: ignore[call-arg]
described("words")  # type: ignore[call-arg]
named_prompt()  # type: ignore[call-arg]
Files().read(5)  # type: ignore[arg-type]


async def wrong() -> None:
    await serve(tools, transport="sse")  # type: ignore[arg-type]
    await serve(tools, stale_handles="keep")  # type: ignore[arg-type]
    await serve(tools, hidden=True)  # type: ignore[call-arg]
    await day("x")  # type: ignore[arg-type]
    with tools.open_session():  # type: ignore[attr-defined]
        pass
    with Conversation(tools):  # type: ignore[attr-defined]
        pass
    async with BlockingConversation(Conversation(tools)):  # type: ignore[attr-defined]
        pass
    async with tools.open_session() as session:
        await session.call("plain", "text")  # type: ignore[arg-type]
        await session.get_prompt("asked", ["text"])  # type: ignore[arg-type]
