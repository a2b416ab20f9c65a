"""Faults that only the wire shows: a sound engine behind a server that speaks MCP wrongly (SPEC CNF-5)."""
# ruff: noqa: D102 - what each replaced method is to do stands where it is replaced from

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions
from mcp.shared.exceptions import MCPError

from .engine import Engine
from .rules import Refused, Session
from .server import Fixture
from .variants import named, sentence


class WireFault(Fixture):
    """A server with one fault; the first sentence of its docstring says what is wrong with it."""

    clauses: ClassVar[tuple[str, ...]] = ()
    """The clause that it breaks; none where it answers nothing that could be judged."""
    also: ClassVar[tuple[str, ...]] = ()
    """Clauses that are broken besides, as a consequence."""
    era: ClassVar[Literal["legacy", "modern"]] = "legacy"
    """The era in which it shows."""


class ChangesUnannounced(WireFault):
    """Does not advertise that its list changes, though it does."""

    clauses = ("NTF-4",)

    def capabilities(self) -> NotificationOptions:
        return NotificationOptions(tools_changed=False)


class NoticesTwice(WireFault):
    """Sends each notice of a changed list twice."""

    clauses = ("DEL-1",)

    async def notify(self, ctx: Any, session: Session) -> None:
        session.notices *= 2
        await super().notify(ctx, session)


class KeepsNotices(WireFault):
    """Never sends a notice of a changed list."""

    clauses = ("DEL-1",)

    async def notify(self, ctx: Any, session: Session) -> None:
        session.notices = 0


class UnknownIsInternal(WireFault):
    """Answers the call of an unknown tool as an error of its own."""

    clauses = ("DEL-9",)

    def unknown_tool(self, refused: Refused) -> MCPError:
        return MCPError(types.INTERNAL_ERROR, refused.text)


class UnknownIsAMethod(WireFault):
    """Answers the call of an unknown tool as if there were no such method."""

    clauses = ("DEL-9",)

    def unknown_tool(self, refused: Refused) -> MCPError:
        return MCPError(types.METHOD_NOT_FOUND, refused.text)


class BadCursorIsInternal(WireFault):
    """Answers a bad cursor as an error of its own."""

    clauses = ("LST-3",)

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        try:
            return await super().list_tools(ctx, params)
        except MCPError as error:
            raise MCPError(types.INTERNAL_ERROR, error.message) from None


class RefusalIsNoError(WireFault):
    """Tells the model of a refusal in a result that is not marked as an error."""

    clauses = ("CTL-5",)

    def refusal(self, refused: Refused) -> types.CallToolResult:
        return self.result(refused.text)


class RefusalIsOfTheProtocol(WireFault):
    """Answers a refusal with an error of the protocol, which the model never sees."""

    clauses = ("CTL-5",)

    def refusal(self, refused: Refused) -> types.CallToolResult:
        raise MCPError(types.INVALID_REQUEST, refused.text)


class Modern(WireFault):
    """What is wrong here shows in the era without sessions."""

    era: ClassVar[Literal["legacy", "modern"]] = "modern"


class ReadableHandles(Modern):
    """Gives handles that anybody can make up."""

    clauses = ("DEL-3",)

    def handle_of(self, session: Session) -> str:
        return "state " + " ".join(session.active)

    def open(self, session: Session, handle: str) -> None:
        groups = handle.removeprefix("state ").split(" ")
        session.active = [path for path in groups if path in self.engine.groups]


class AnyHandle(Modern):
    """Takes a handle that it did not give for none."""

    clauses = ("DEL-3",)

    def open(self, session: Session, handle: str) -> None:
        if handle in self.states:
            super().open(session, handle)


class OneHandle(Modern):
    """Gives the same handle to every state, so that an old one follows what comes later."""

    clauses = ("DEL-3",)

    def handle_of(self, session: Session) -> str:
        self.states["the one and only handle"] = self.engine.dump(session)
        return "the one and only handle"


class ListsFollowCalls(Modern):
    """Lists, where no handle is given, what the last call has left."""

    clauses = ("DEL-7",)
    also = ("DEL-2", "DEL-11")

    def listing_session(self, ctx: Any) -> Session:
        session = self.session(ctx)
        if self.states and not session.active and self.is_modern(ctx):
            self.engine.load(session, list(self.states.values())[-1])
        return session


class ListsTakeTurns(Modern):
    """Lists its tools in another order every time."""

    clauses = ("DEL-7",)
    also = ("DEL-2",)
    listings = 0

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        self.listings += 1
        page = await super().list_tools(ctx, params)
        return page.model_copy(update={"tools": page.tools[:: 1 if self.listings % 2 else -1]})


class SilentActivators(WireFault):
    """Does not tell what an activation has made available."""

    clauses = ("CTL-4",)

    def result(self, text: str, *rest: Any, change: dict[str, Any] | None = None, **more: Any) -> types.CallToolResult:
        nothing: list[str] = []
        told = None if change is None else {**change, "tools": nothing}
        return super().result(text.partition("\n")[0], *rest, change=told, **more)


class BareDefinitions(WireFault):
    """Describes its control tools by their names alone."""

    clauses = ("CTL-6",)

    def definition(self, name: str) -> types.Tool:
        return types.Tool(name=name, input_schema={"type": "object"})


class NoHandles(Modern):
    """Gives no handle for what an activation has opened."""

    clauses = ("DEL-2",)
    also = ("CTL-4", "CTL-5")

    def new_handle(self, ctx: Any, session: Session) -> str | None:
        return None


class ListsForEverybody(Modern):
    """Lists what a handle stands for as if it were for everybody."""

    clauses = ("DEL-11",)

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        page = await super().list_tools(ctx, params)
        return page.model_copy(update={"cache_scope": "public"})


class Ill(WireFault):
    """What is wrong here ends all talk after a few calls."""

    calls = 0

    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
        self.calls += 1
        if self.calls == 5:
            await self.fall_ill()
        return await super().call(ctx, name, arguments)

    async def fall_ill(self) -> None:
        """Do something that a server must not do."""


class Crashes(Ill):
    """Ends at the fifth call, with a last word."""

    async def fall_ill(self) -> None:
        print("out of memory", file=sys.stderr, flush=True)
        os._exit(70)


class Hangs(Ill):
    """Does not answer the fifth call."""

    async def fall_ill(self) -> None:
        await anyio.sleep_forever()


class Chatters(Ill):
    """Writes what is no message where messages go, at the fifth call."""

    def __init__(self, engine: type[Engine] = Engine) -> None:
        super().__init__(engine)
        self.line = os.dup(1)  # later the SDK keeps the line for itself

    async def fall_ill(self) -> None:
        os.write(self.line, b"Now calling the fifth tool!\n")


WIRE_FAULTS: tuple[type[WireFault], ...] = tuple(
    value
    for value in list(vars().values())
    if isinstance(value, type) and issubclass(value, WireFault) and not sentence(value).startswith("What is wrong here")
)[1:]
"""All of them; those without clauses end all talk, and the run must say so (SPEC CNF-8)."""

WIRES_BY_NAME = {named(fault): fault for fault in WIRE_FAULTS}
