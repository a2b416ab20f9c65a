"""Mutants that only the protocol shows: the right engine behind a server that speaks MCP wrongly (SPEC 8, 9, 18)."""
# ruff: noqa: D101, D102, D103 - the table below says what is wrong with each

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

import mcp_types as types
from attrs import evolve, frozen
from mcp.server import NotificationOptions
from mcp.shared.exceptions import MCPError

from toolfold_specs.drivers.protocol import CHANGE_META, HANDLE, TOOL, Era

from . import isolation
from .engine import Engine, Refused, Session
from .mutant import Right, overriding
from .server import CALL_TOOL, Fixture, Json, handle_in, result
from .tags import NeverOfOpening

P = ParamSpec("P")
T = TypeVar("T")

Page = types.ListToolsResult
Result = types.CallToolResult


@frozen
class WireMutant:
    """The server with one decision made wrongly; see `mutant.Mutant`, which is written in the same way."""

    name: str
    clause: str
    era: Era
    """The era in which it shows."""
    also: tuple[str, ...] = ()
    fixture: type[Fixture] = Fixture

    def __call__(self, method: Callable[P, T], wrong: Callable[Concatenate[Right[T], P], T]) -> WireMutant:
        """Return the mutant that decides wrongly in one method."""
        return evolve(self, fixture=overriding(Fixture, method, wrong))


legacy = partial(WireMutant, era="legacy")
modern = partial(WireMutant, era="modern")


def protocol_error(code: int, refused: Refused) -> Result:
    raise MCPError(code, str(refused))


async def notifies_twice(right: Right[Awaitable[None]], self: Fixture, ctx: Any, session: Session) -> None:
    session.notifications *= 2
    await right()


async def notifies_of_calls(
    right: Right[Awaitable[Result]], self: Fixture, ctx: Any, name: str, arguments: Mapping[str, Any]
) -> Result:
    await ctx.session.send_tool_list_changed()
    return await right()


async def never_notifies(right: Right[Awaitable[None]], self: Fixture, ctx: Any, session: Session) -> None:
    session.notifications = 0


async def notifies_of_prompts(right: Right[Awaitable[None]], self: Fixture, ctx: Any, session: Session) -> None:
    if session.notifications:
        await ctx.session.send_prompt_list_changed()
    await right()


async def loses_what_is_cancelled(right: Right[Awaitable[None]], self: Fixture, session: Session) -> None:
    session.notifications = 0
    await right()


async def bad_cursor_is_internal(
    right: Right[Awaitable[Page]], self: Fixture, ctx: Any, params: types.PaginatedRequestParams | None
) -> Page:
    try:
        return await right()
    except MCPError as error:
        raise MCPError(types.INTERNAL_ERROR, error.message) from None


async def ignores_cursors(
    right: Right[Awaitable[Page]], self: Fixture, ctx: Any, params: types.PaginatedRequestParams | None
) -> Page:
    return await Fixture.list_tools(self, ctx, None)


class Silent(Fixture):
    """A server that shows nothing of what it does: it lists no tool of the system, and refuses every call alike."""

    async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> Page:
        page = await super().list_tools(ctx, params)
        return page.model_copy(update={"tools": [tool for tool in page.tools if tool.name in (CALL_TOOL, TOOL)]})

    async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Result:
        raise MCPError(types.INVALID_PARAMS, "")

    async def list_groups(self, ctx: Any, params: types.PaginatedRequestParams) -> dict[str, Any]:
        return {}


class ReadableHandles(Fixture):
    def handle_of(self, session: Session) -> str:
        return "state " + " ".join(session.active)

    def open(self, session: Session, handle: str) -> None:
        session.active = [path for path in handle.split() if path in self.engine.groups]


class CountedPages(Fixture):
    def after(self, groups: list[Json], cursor: str | None) -> list[Json]:
        return groups[int(cursor or 0) :]

    def cursor(self, groups: list[Json], last: Json) -> str:
        return str(groups.index(last) + 1)


class OldGroups(Fixture):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.listed: dict[object, Json] = {}

    async def list_groups(self, ctx: Any, params: types.PaginatedRequestParams) -> Json:
        key = params.cursor, *self.at_root()[:1]
        return self.listed.setdefault(key, await super().list_groups(ctx, params))


class Remembering(Fixture):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.fetched: set[Any] = set()

    async def get_group(self, ctx: Any, params: Any) -> Json:
        known = (ctx.lifespan_context, params.name)
        answer = await super().get_group(ctx, params)
        if known in self.fetched:
            return {**answer, "contents": {**answer["contents"], "tools": []}}
        self.fetched.add(known)
        return answer


def without_schemas(contents: Json) -> Json:
    return {**contents, "tools": [{"name": tool["name"]} for tool in contents["tools"]]}


class KeepsHandles(Fixture):
    def install(self, engine: Engine) -> None:
        known = getattr(self, "states", {})
        super().install(engine)
        self.states = known


def one_handle(right: Right[str | None], self: Fixture, session: Session) -> str:
    self.states["the one and only handle"] = self.engine.dump(session)
    return "the one and only handle"


def lists_the_last_state(right: Right[Session], self: Fixture, ctx: Any) -> Session:
    session = right()
    if self.states and not handle_in(ctx):
        self.engine.load(session, list(self.states.values())[-1])
    return session


async def lists_in_turns(
    right: Right[Awaitable[Page]], self: Fixture, ctx: Any, params: types.PaginatedRequestParams | None
) -> Page:
    page = await right()
    return page.model_copy(update={"tools": page.tools[:: 1 if next(self.connections) % 2 else -1]})


async def lists_for_everybody(
    right: Right[Awaitable[Page]], self: Fixture, ctx: Any, params: types.PaginatedRequestParams | None
) -> Page:
    return (await right()).model_copy(update={"cache_scope": "public"})


async def counts_in_texts(
    right: Right[Awaitable[Page]], self: Fixture, ctx: Any, params: types.PaginatedRequestParams | None
) -> Page:
    page = await right()
    said = f"Opens or closes a group of {len(page.tools)}."
    tools = [tool.model_copy(update={"description": said} if tool.annotations else {}) for tool in page.tools]
    return page.model_copy(update={"tools": tools})


async def lists_backwards(
    right: Right[Awaitable[Page]], self: Fixture, ctx: Any, params: types.PaginatedRequestParams | None
) -> Page:
    page = await right()
    is_open = bool(self.session(ctx).active)
    return page.model_copy(update={"tools": page.tools[:: -1 if is_open else 1]})


def answers_without(name: str, right: Right[Result], change: dict[str, Any]) -> Result:
    answer = right()
    return answer.model_copy(update={"meta": {**(answer.meta or {}), CHANGE_META: {**change, name: []}}})


def takes_unknown_groups(right: Right[Awaitable[Any]], self: Fixture, ctx: Any, params: Any) -> Awaitable[Any]:
    return right() if params.name in self.engine.groups else self.list_groups(ctx, types.PaginatedRequestParams())


async def calls_without_a_handle(
    right: Right[Awaitable[Result]], self: Fixture, ctx: Any, name: str, arguments: Mapping[str, Any]
) -> Result:
    if name == CALL_TOOL and HANDLE not in arguments and self.states:
        return await Fixture.call(self, ctx, name, {**arguments, HANDLE: list(self.states)[-1]})
    return await right()


async def calls_under_the_request(
    right: Right[Awaitable[Result]], self: Fixture, ctx: Any, name: str, arguments: Mapping[str, Any]
) -> Result:
    if name == CALL_TOOL and (handle := handle_in(ctx)) is not None:
        return await Fixture.call(self, ctx, name, {**arguments, HANDLE: handle})
    return await right()


async def calls_unknown_tools(
    right: Right[Awaitable[Result]], self: Fixture, ctx: Any, name: str, arguments: Mapping[str, Any]
) -> Result:
    answer = await right()
    return result("") if name == CALL_TOOL and answer.is_error else answer


ROWS = (
    modern("does not say that opening a group makes a tag stale", "NXT-1", fixture=NeverOfOpening),
    legacy("does not advertise that its list changes", "NTF-4")(
        Fixture.capabilities, lambda right, self: NotificationOptions()
    ),
    legacy("notifies twice of a changed list", "DEL-1")(Fixture.notify, notifies_twice),
    legacy("notifies of a changed list with every call", "DEL-1")(Fixture.call, notifies_of_calls),
    legacy("never notifies of a changed list", "DEL-1")(Fixture.notify, never_notifies),
    legacy("does not notify of a fact whose request is cancelled", "NTF-3")(Fixture.wait, loses_what_is_cancelled),
    legacy("notifies of changed prompts with a changed list", "DEL-1")(Fixture.notify, notifies_of_prompts),
    legacy("answers calls of unknown tools with an internal error", "DEL-9")(
        Fixture.unknown_tool, lambda right, self, refused: protocol_error(types.INTERNAL_ERROR, refused)
    ),
    legacy("answers calls of unknown tools with 'method not found'", "DEL-9")(
        Fixture.unknown_tool, lambda right, self, refused: protocol_error(types.METHOD_NOT_FOUND, refused)
    ),
    legacy("answers calls of unknown tools with an error result", "DEL-9")(
        Fixture.unknown_tool, lambda right, self, refused: result(str(refused), is_error=True)
    ),
    legacy("answers invalid cursors with an internal error", "LST-3")(Fixture.list_tools, bad_cursor_is_internal),
    modern("ignores cursors", "LST-3")(Fixture.list_tools, ignores_cursors),
    legacy("answers refusals with a success", "CTL-5", also=("DEL-8",))(
        Fixture.refusal, lambda right, self, refused: result(str(refused))
    ),
    legacy("answers refusals with an error of the protocol", "CTL-5", also=("DEL-8",))(
        Fixture.refusal, lambda right, self, refused: protocol_error(types.INVALID_REQUEST, refused)
    ),
    legacy("refuses activations without a word", "CTL-5")(
        Fixture.change_refused, lambda right, self, refused: right().model_copy(update={"content": []})
    ),
    legacy("returns no definitions in the text of an activation", "CTL-4")(
        Fixture.changed, lambda right, self, change, definitions, handle: Fixture.changed(self, change, [], handle)
    ),
    legacy("omits new tools from the change data", "CTL-4")(
        Fixture.changed, lambda right, self, change, definitions, handle: answers_without("tools", right, change)
    ),
    legacy("omits displaced groups from the change data", "CTL-4")(
        Fixture.changed, lambda right, self, change, definitions, handle: answers_without("displaced", right, change)
    ),
    modern("returns definitions without schemas", "CTL-4", also=("DEL-2",))(
        Fixture.changed,
        lambda right, self, change, definitions, handle: Fixture.changed(
            self, change, [types.Tool(name=tool.name, input_schema={}) for tool in definitions], handle
        ),
    ),
    legacy("gives control tools no description", "CTL-6")(
        Fixture.definition, lambda right, self, name: types.Tool(name=name, input_schema={"type": "object"})
    ),
    modern("gives control tools no annotations", "CTL-6")(
        Fixture.definition, lambda right, self, name: right().model_copy(update={"annotations": None})
    ),
    legacy("answers every failed `call_tool` with a success", "DEL-8")(Fixture.call, calls_unknown_tools),
    modern("returns no handle from an activation", "DEL-2", also=("CTL-4", "CTL-5"))(
        Fixture.handle_of, lambda right, self, session: None
    ),
    modern("calls tools without a handle once there was one", "DEL-2")(Fixture.call, calls_without_a_handle),
    modern("returns handles that anybody can make up", "DEL-3", fixture=ReadableHandles),
    modern("ignores invalid handles", "DEL-3")(
        Fixture.open, lambda right, self, session, handle: right() if handle in self.states else None
    ),
    modern("takes handles in another encoding", "DEL-3")(
        Fixture.open, lambda right, self, session, handle: Fixture.open(self, session, handle.rstrip("="))
    ),
    modern("lets no handle expire", "DEL-3")(Fixture.expire, lambda right, self, ctx, session: result("ok", {})),
    modern("takes handles of another tool set", "DEL-3", fixture=KeepsHandles),
    modern("calls under the handle that a request carries besides", "DEL-2")(Fixture.call, calls_under_the_request),
    modern("leaves the groups in a group out of its contents", "DEL-5")(
        Fixture.contents, lambda right, self, path: {"tools": right()["tools"]}
    ),
    modern("returns the same handle for every state", "DEL-3")(Fixture.handle_of, one_handle),
    modern("discloses no groups", "DEL-5")(
        Fixture.list_groups, lambda right, self, ctx, params: Fixture(self.make).list_groups(ctx, params)
    ),
    modern("answers groups/get for unknown groups", "DEL-5")(Fixture.get_group, takes_unknown_groups),
    modern("lists grouped tools to clients with the extension", "DEL-5")(
        Fixture.is_disclosed, lambda right, self, ctx, name: False
    ),
    modern("lists nested groups at root too", "DEL-5")(
        Fixture.at_root, lambda right, self: sorted(self.engine.groups, key=self.order)
    ),
    modern("has names of groups that are paths", "DEL-5")(
        Fixture.entry, lambda right, self, path: {**right(), "name": path}
    ),
    modern("returns the tools of groups without their schemas", "DEL-5")(
        Fixture.contents, lambda right, self, path: without_schemas(right())
    ),
    modern("returns the tools of a group to each connection only once", "DEL-5", fixture=Remembering),
    modern("lists groups in the order of a dictionary", "DEL-5")(
        Fixture.order, lambda right, self, path: right().replace("-", "")
    ),
    modern("spells out what is beyond ASCII", "DEL-5")(
        Fixture.entry,
        lambda right, self, path: {
            **right(),
            "description": right()["description"].encode("ascii", "replace").decode(),
        },
    ),
    modern("counts the groups on the pages before", "DEL-5", fixture=CountedPages),
    modern(
        "keeps a list of groups that holds for no time while the first of them is there", "DEL-5", fixture=OldGroups
    ),
    modern("never notifies of changed groups", "DEL-5")(Fixture.announce, lambda right, self: None),
    modern("lists the state that the last call has left", "DEL-7", also=("DEL-2", "DEL-11"))(
        Fixture.listed_session, lists_the_last_state
    ),
    modern("lists in a different order every time", "DEL-7")(Fixture.list_tools, lists_in_turns),
    modern("marks lists under a handle as public", "DEL-11")(Fixture.list_tools, lists_for_everybody),
    legacy("says in the texts of control tools how many tools there are", "PFX-1")(Fixture.list_tools, counts_in_texts),
    legacy("lists what has opened last first", "PFX-1")(Fixture.list_tools, lists_backwards),
    modern("says under a handle how many tools there are", "PFX-1")(Fixture.list_tools, counts_in_texts),
    legacy("notifies others of a call", "ISO-1", fixture=isolation.NotifiesOthersOfCalls),
    legacy("logs a call to other clients", "ISO-1", fixture=isolation.LogsToOthers),
    legacy("counts the groups of all clients together", "ISO-1", fixture=isolation.LimitsTogether),
    legacy("answers a call with what another was answered", "ISO-1", fixture=isolation.CachesCalls),
    legacy("refuses a call with what others have open", "ISO-1", fixture=isolation.ExplainsByOthers),
    legacy("lists first what another has called", "ISO-1", fixture=isolation.OrdersByUse),
    modern("counts what has handles of all clients together", "ISO-1", fixture=isolation.LimitsTogether),
    modern("answers a call with what another was answered under its handle", "ISO-1", fixture=isolation.CachesCalls),
    modern("refuses a call with what others have handles for", "ISO-1", fixture=isolation.ExplainsByOthers),
)

MUTANTS: dict[str, WireMutant] = {mutant.name: mutant for mutant in ROWS}
"""All mutants of the server, by name."""
