"""How a client sees an example, in three ways: a session in this process, and real MCP clients of both eras."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Literal, NamedTuple

from mcp import Client
from mcp.client import IncomingMessage
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import build_server
from toolfold import Session, ToolNotFound, ToolSet
from toolfold._toolset.control import ERROR_META
from toolfold_adapters.names import CHANGE_META, HANDLE_META

CHANGED = "notifications/tools/list_changed"
UNKNOWN = "unknown tool"
DELIVERY = ("Handle: ", "Give it as 'handle' to ", "Call the tools below by ")
"""The beginnings of lines that a delivery adds to what a control tool answers."""


class Answer(NamedTuple):
    """The answer to a call; `structured` is its data for programs, also if that is in `_meta`."""

    is_error: bool
    text: str
    structured: Any = None


class Caller:
    """A client's view of the server: the list, and the answers to calls."""

    notified: list[str]

    async def listed(self) -> dict[str, dict[str, Any]]:
        """Return the definitions in the list, by name."""
        raise NotImplementedError

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Return the answer to a call; for an unknown tool, an error with the text `UNKNOWN`."""
        raise NotImplementedError

    async def call(self, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Return whether a call was an error, and its text; for an unknown tool, `UNKNOWN`."""
        return (await self.answer(name, arguments))[:2]

    async def names(self) -> list[str]:
        """Return the names in the list, without the tool that the library adds."""
        return [name for name in await self.listed() if name != "call_tool"]


class InProcess(Caller):
    def __init__(self, session: Session) -> None:
        self.session = session
        self.notified = []
        session.on_list_changed(lambda kinds: self.notified.append(CHANGED))

    async def listed(self) -> dict[str, dict[str, Any]]:
        return {spec.name: dict(spec.definition) for spec in self.session.list_tools().tools}

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        try:
            result = await self.session.call(name, arguments)
        except ToolNotFound:
            return Answer(True, UNKNOWN)
        return Answer(result.is_error, result.text, result.structured)


class OverMcp(Caller):
    """A client of either era; one of the modern era passes the handle that it received last."""

    def __init__(self, client: Client, notified: list[str]) -> None:
        self.client = client
        self.notified = notified
        self.handle: str | None = None

    @property
    def meta(self) -> Any:
        return {} if self.handle is None else {HANDLE_META: self.handle}

    async def listed(self) -> dict[str, dict[str, Any]]:
        tools = (await self.client.list_tools(cache_mode="bypass", meta=self.meta)).tools
        return {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in tools}

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        try:
            result = await self.client.call_tool(name, dict(arguments), meta=self.meta)
        except MCPError as error:
            if str(error).partition(" (")[0] != f"Unknown tool: {name}":  # a hint may follow
                raise
            return Answer(True, UNKNOWN)
        self.handle = (result.meta or {}).get(HANDLE_META, self.handle)
        lines = "\n".join(getattr(block, "text", "") for block in result.content).split("\n")
        text = "\n".join(line for line in lines if not line.startswith(DELIVERY))
        received = (result.meta or {}).get(ERROR_META if result.is_error else CHANGE_META)
        return Answer(bool(result.is_error), text, received if received is not None else result.structured_content)


Connect = Callable[..., AbstractAsyncContextManager[Caller]]
"""Takes a tool set, and what every way of beginning has: `profile` and `active`."""


@asynccontextmanager
async def in_process(tools: ToolSet, **options: Any) -> AsyncGenerator[InProcess]:
    async with tools.open_session(**options) as session:
        yield InProcess(session)


def over_mcp(era: Literal["legacy", "auto"]) -> Connect:
    @asynccontextmanager
    async def connect(tools: ToolSet, **options: Any) -> AsyncGenerator[Caller]:
        async with connected(build_server(tools, **options), era) as caller:
            yield caller

    return connect


@asynccontextmanager
async def connected(target: Any, era: Literal["legacy", "auto"]) -> AsyncGenerator[OverMcp]:
    notified: list[str] = []

    async def receive(message: IncomingMessage) -> None:
        notified.append(getattr(message, "method", ""))

    async with Client(target, mode=era, message_handler=receive) as client:
        yield OverMcp(client, notified)


WAYS: dict[str, Connect] = {"in process": in_process, "legacy": over_mcp("legacy"), "modern": over_mcp("auto")}
