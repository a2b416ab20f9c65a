"""A program as a user writes it, with the mistakes that a type checker must find (SPEC KIT-8).

Each mistake is in a line of its own, which says `type: ignore`: so the checkers of this repository pass, and mypy says
when one is no longer found. `test_typing.py` takes these comments away and looks at what both checkers say.
"""

from __future__ import annotations

from typing import assert_type

from toolfold import (
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

tools = ToolSet("desk", on_hidden="hint", page_size=10, control="load_tool_group", hook_timeout=2.5)
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
    async with tools.open_session(active="files") as session:
        await session.call("plain", {"x": 1})
    tools.notify_list_changed("prompt")
    async with Conversation(tools, active="files") as conversation:
        conversation.tools("anthropic")
    with BlockingConversation(Conversation(tools)) as blocking:
        blocking.execute([])


# What is wrong

ToolSet("desk", on_hidden="shout")  # type: ignore[arg-type]
ToolSet("desk", when_full="wait")  # type: ignore[arg-type]
ToolSet("desk", evict="newest")  # type: ignore[arg-type]
ToolSet("desk", control="per-group")  # type: ignore[arg-type]
ToolSet("desk", control_visibility="never")  # type: ignore[arg-type]
ToolSet("desk", page_size="10")  # type: ignore[arg-type]
ToolSet("desk", state=5)  # type: ignore[arg-type]

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

tool(grup="files")(enter)  # type: ignore[call-overload]
prompt(category="Files")(enter)  # type: ignore[call-overload]
resource(enter)  # type: ignore[arg-type]
resource("files://all", mimetype="text/plain")(enter)  # type: ignore[call-arg]
toolkit(categry="Files")(Files)  # type: ignore[call-overload]
group(tilte="Files")(Files)  # type: ignore[call-overload]

bare("1")  # type: ignore[arg-type]


async def wrong() -> None:
    with tools.open_session():  # type: ignore[attr-defined]
        pass
    with Conversation(tools):  # type: ignore[attr-defined]
        pass
    async with BlockingConversation(Conversation(tools)):  # type: ignore[attr-defined]
        pass
    async with tools.open_session() as session:
        await session.call("plain", "text")  # type: ignore[arg-type]
        await session.get_prompt("asked", ["text"])  # type: ignore[arg-type]
