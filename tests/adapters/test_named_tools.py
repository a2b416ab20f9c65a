"""Whatever a reader is told, it can do: an answer names no tool of the library's that the reader does not have.

The readers are those of all deliveries, with all ways to open groups, to search and to call what the list lacks, as
hosts pass them on. What they are told is all that they can be: instructions, definitions, results and refusals.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from attrs import frozen
from mcp import Client, MCPError
from mcp.types import Implementation

from tests.adapters.gateway.inprocess import House, gateway_of
from toolfold import Loader, ToolSet
from toolfold_adapters.gateway import GatewayConfig
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server
from toolfold_adapters.search import bm25

pytestmark = pytest.mark.spec("CALL-1", "ERR-2", "FND-1", "CTL-3")

RENAMED = Loader(name="expose", argument="which", closer="conceal")
HIDDEN = Loader(name="open_group", closer="close_group", hidden=True)
CONTROLS: Mapping[str, Any] = {
    "per_group": "per_group",
    "open_group": "open_group",
    "load_tool_group": "load_tool_group",
    "expand_tools": "expand_tools",
    "renamed": RENAMED,
    "hidden": HIDDEN,
    "none": "none",
}
OWN = (
    *("open_group", "close_group", "load_tool_group", "expand_tools", "expose", "conceal", "find_tools"),
    *("call_tool", "call_tools", "read_tool", "read_result", "call_any"),
)
"""The names that the library's own tools have in some of the settings, beside those of each group."""
NAMED = re.compile(rf"(?<![\w.-])({'|'.join(OWN)}|\w+(?:__|\.)(?:open|close|activate|deactivate))(?![\w-])")


def desk(control: str, *, search: bool, hint: bool, visibility: Literal["always", "relevant"]) -> ToolSet:
    """Groups in one another, that exclude each other, that only an event opens, and with too many tools to describe."""
    tools = ToolSet(
        "desk",
        control=CONTROLS[control],
        control_visibility=visibility,
        on_hidden="hint" if hint else "opaque",
        search=bm25 if search else None,
    )
    tools.register_group("mail", "Read and write mail")
    tools.register_group("drafts", "Mail that is not sent", parent="mail")
    tools.register_group("files", "Files and folders")
    tools.register_group("audit", "What was done", opens_on="files.list")
    tools.register_exclusion("mail", "files")

    async def done(arguments: dict[str, Any]) -> str:
        return "Done."

    schema = {"type": "object", "properties": {"name": {"type": "string", "description": "x" * 300}}}
    for group, verbs in {"mail": "send read", "mail.drafts": "write", "files": "list copy", "audit": "show"}.items():
        for verb in verbs.split():
            tools.register(verb, done, description=f"{verb} {group}", input_schema=schema, group=group)
    for number in range(25):
        tools.register(f"step{number}", done, description="A step. " * 20, input_schema=schema, group="files")
    tools.register("hours", done, description="When it is open", input_schema={"type": "object"})
    return tools


@frozen
class Reader:
    """What reads and calls: `listed` returns the definitions that it has now."""

    instructions: str
    listed: Callable[[], Any]
    call: Callable[[str, dict[str, Any]], Any]


@asynccontextmanager
async def over_mcp(tools: ToolSet, era: Any, client: str, **options: Any) -> AsyncGenerator[Reader]:
    server = build_server(tools, **options)
    info = Implementation(name=client, version="1")
    async with Client(server, mode=era, cache=None, client_info=info) as connected:

        async def listed() -> list[dict[str, Any]]:
            return [tool.model_dump(by_alias=True) for tool in (await connected.list_tools()).tools]

        async def call(name: str, arguments: dict[str, Any]) -> str:
            try:
                result = await connected.call_tool(name, arguments)
            except MCPError as error:
                return error.message
            return "\n".join(getattr(block, "text", "") for block in result.content)

        yield Reader(connected.instructions or "", listed, call)


@asynccontextmanager
async def in_process(tools: ToolSet) -> AsyncGenerator[Reader]:
    async with Conversation(tools) as conversation:

        async def listed() -> list[dict[str, Any]]:
            return [dict(one) for one in conversation.tools()]

        async def call(name: str, arguments: dict[str, Any]) -> str:
            (result,) = await conversation.execute([(name, arguments)])
            return result.text

        yield Reader(conversation.system_prompt("Be brief."), listed, call)


def attempts(names: Iterable[str], handle: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Calls of every kind of what a reader has: right ones, wrong ones, and of what is closed."""
    has, given = set(names), {} if handle is None else {"handle": handle}
    made: list[tuple[str, dict[str, Any]]] = []
    for opener, argument in (
        ("open_group", "group"),
        ("load_tool_group", "group_name"),
        ("expand_tools", "group"),
        ("expose", "which"),
    ):
        made += [(opener, {argument: path}) for path in ("mail.drafts", "nosuch", "mail", "mail", "files", "audit")]
        made.append((opener, {}))
    made += [(name, {}) for name in sorted(has) if re.search(r"__(open|close)$", name)]
    for query in ("send mail", "copy", "files__copy", "show what was done", "nothing of the kind", "write", "audit"):
        made += [("find_tools", {"query": query, "limit": 50}), ("find_tools", {"query": query, "open": True})]
    made.append(("find_tools", {"wrong": 1}))
    closed = ("mail__send", "mail__drafts__write", "files__copy", "audit__show", "snd", "mail__sned")
    for proxy in ("call_tool", "read_tool", "call_any"):
        made += [(proxy, {"name": name, "arguments": {"name": "a"}, **given}) for name in closed]
        made += [(proxy, {"name": name, "arguments": {}}) for name in ("mail__send", "open_group", "find_tools")]
    made.append(("call_tools", {"calls": [{"name": name, "arguments": {}} for name in closed], **given}))
    made += [(closer, {argument: path}) for closer, argument in (("close_group", "group"), ("conceal", "which"))
             for path in ("mail", "mail.drafts", "audit")]  # fmt: skip
    return [(name, arguments) for name, arguments in made if name in has]


async def untrue(reader: Reader) -> list[str]:
    """Return what a reader is told to use that it does not have, each with where it stands.

    It has what it is listed, and, if something calls what the list lacks, what an answer has described.
    """
    found: list[str] = []
    handle: str | None = None
    described = set[str]()

    def check(text: str, has: set[str], where: str) -> None:
        found.extend(f"{name}: {where}: {text[:300]}" for name in set(NAMED.findall(text)) - has)

    first = await reader.listed()
    names = {str(one["name"]) for one in first}
    check(reader.instructions, names, "instructions")
    for one in first:
        check(
            str(one.get("description")) + json.dumps(one.get("inputSchema", {})), names, f"definition of {one['name']}"
        )
    closed: list[tuple[str, dict[str, Any]]] = [
        (name, {}) for name in ("mail__send", "files__copy", "audit__show", "mail__drafts__write")
    ]
    for name, arguments in [*closed, *attempts(names, None), *closed, *attempts(names, "given")]:
        if "handle" in arguments:
            arguments = {**arguments, "handle": handle or "none"}
        said = await reader.call(name, arguments)
        if match := re.search(r"^Handle: (\S+)", said, re.MULTILINE):
            handle = match[1]
        now = {str(one["name"]) for one in await reader.listed()}
        if names & {"call_tool", "call_any"}:
            described |= set(re.findall(r"^- (\w+)(?=[:(])", said, re.MULTILINE))
        asked = {name, str(arguments.get("name"))}  # that a name is repeated is no advice
        check(said, now | asked | names | described, f"answer to {name} {arguments}")
    return found


MATRIX = [
    (control, search, hint, visibility)
    for control, search, hint in itertools.product(CONTROLS, (True, False), (True, False))
    for visibility in (("always", "relevant") if control == "per_group" else ("always",))
]


READERS: tuple[tuple[Any, str, dict[str, Any]], ...] = (
    ("legacy", "claude-code", {"read_tool": True, "call_tools": True}),
    ("legacy", "opencode", {"legacy_call_tool": False}),
    ("legacy", "opencode", {"call_tool": "call_any"}),
    ("auto", "test", {}),
    ("auto", "test", {"call_tool": "call_any", "call_tools": True}),
)


@pytest.mark.parametrize(("control", "search", "hint", "visibility"), MATRIX)
async def test_no_reader_is_told_of_a_tool_that_it_lacks(
    control: str, search: bool, hint: bool, visibility: Literal["always", "relevant"]
) -> None:
    def made() -> ToolSet:
        return desk(control, search=search, hint=hint, visibility=visibility)

    found: list[str] = []
    async with in_process(made()) as reader:
        found += [f"in process: {one}" for one in await untrue(reader)]
    for era, client, options in READERS:
        async with over_mcp(made(), era, client, **options) as reader:
            found += [f"{era} {client} {options}: {one}" for one in await untrue(reader)]
    assert found == []


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_where_searches_alone_open_groups_what_an_answer_says_is_enough_to_call_what_it_found(era: Any) -> None:
    tools = desk("hidden", search=True, hint=True, visibility="always")
    async with over_mcp(tools, era, "test", handles="stored") as reader:
        found = await reader.call("find_tools", {"query": "write what is not sent"})
        advice = re.search(
            r"^In group mail\.drafts, not open; call (\w+) (\{.*?\}) first: .*mail__drafts__write", found, re.MULTILINE
        )
        assert advice is not None
        assert advice[1] in {one["name"] for one in await reader.listed()}
        opened = await reader.call(advice[1], json.loads(advice[2]))
        assert "Opened: mail, mail.drafts." in opened.splitlines()
        handle = re.search(r"^Handle: (\S+)", opened, re.MULTILINE)
        given = {"handle": handle[1]} if handle else {}
        asked = {"name": "mail__drafts__write", "arguments": {"name": "a"}, **given}
        assert await reader.call("call_tool", asked) == "Done."


def test_a_hidden_loader_is_in_no_list_and_can_be_called() -> None:
    tools = desk("hidden", search=True, hint=True, visibility="always")
    names = {component.name for component in tools.list_tools().tools}
    assert names == {"find_tools", "hours"}
    assert tools.catalog.loader is not None


@pytest.mark.parametrize("control", ["open_group", "per_group", "none"])
@pytest.mark.parametrize("search", ["bm25", "none"])
async def test_no_reader_of_a_gateway_is_told_of_a_tool_that_it_lacks(control: str, search: str) -> None:
    options = {"control": control, "search": search, "on_hidden": "hint"}
    config = GatewayConfig.model_validate(
        {"upstreams": {"mail": {"command": ["mail"]}, "files": {"command": ["files"]}}, "options": options}
    )
    found: list[str] = []
    for era, client in (("legacy", "claude-code"), ("auto", "test")):
        async with gateway_of(House(), config) as tools, over_mcp(tools, era, client) as reader:
            found += [f"{era}: {one}" for one in await untrue(reader)]
    assert found == []
