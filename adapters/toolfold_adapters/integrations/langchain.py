"""`ToolfoldToolset`: the tools of a tool set in an agent of LangChain, as middleware (SPEC INT-2).

Each call of the model is given the tools that are open by then. The state after each call is in the state of the graph,
so a checkpoint has it: a thread that goes on, in whatever process or from whatever checkpoint, has its groups. It is in
the artifact of the answer, too, for agents without a checkpointer, whose callers pass all messages on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from threading import Lock, Thread, main_thread
from typing import Annotated, Any, Literal, NotRequired, Self, TypedDict, TypeVar, cast
from uuid import uuid4

import anyio
from anyio.from_thread import BlockingPortal
from attrs import define, field

from toolfold import Profile, Session, ToolResult, ToolSet
from toolfold.spi import extras_named

from ..inprocess import Conversation
from ..inprocess.formats import STATE
from ..inprocess.turn import QueuePosition
from .frameworks import ConversationSource, Media, failure, metadata, parts, require

with extras_named():
    import langchain

    require("langchain", langchain.__version__, "1.4", "langchain")
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
    from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
    from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
    from langchain_core.messages.content import create_audio_block, create_file_block, create_image_block
    from langchain_core.tools import BaseTool
    from langgraph.runtime import Runtime
    from langgraph.types import Command

__all__ = ["ToolfoldState", "ToolfoldToolset"]

LIMIT = 1_000
"""How many conversations of runs that have not ended stay open: an older one is restored when it continues."""

PATIENCE = 0.1
"""Seconds that a call waits for those that were written before it in the same message, if these are never made."""

POLLING = 0.1
"""Seconds between two looks whether the program has ended."""

ModelHandler = Callable[[ModelRequest[Any]], ModelResponse[Any]]
AsyncModelHandler = Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
ToolAnswer = ToolMessage | Command[Any]
T = TypeVar("T")


class Stored(TypedDict):
    """What the state of a graph has for a tool set: which conversation it is, and its state after the latest call."""

    run: str
    state: dict[str, Any]


def _latest(old: dict[str, Stored], new: dict[str, Stored]) -> dict[str, Stored]:
    """Return both, and of two states of one conversation the later one: calls of one step may end in any order."""
    return {**old, **{name: _later(old.get(name), one) for name, one in new.items()}}


def _later(one: Stored | None, other: Stored) -> Stored:
    if one is None or one["run"] != other["run"]:
        return other
    return max(other, one, key=lambda stored: stored["state"].get("answered", 0))


class ToolfoldState(AgentState[Any]):
    """The state of an agent with this middleware."""

    toolfold: NotRequired[Annotated[dict[str, Stored], PrivateStateAttr, _latest]]


@define
class _AgentRun:
    """The conversation of a run that has not ended.

    Attributes:
        conversation: The conversation.
        step: What the state of the graph had for it when the model was called, or the run was resumed.
        latest: What it has after the latest call.
        arrivals: The order of its calls.
    """

    conversation: Conversation
    step: Stored
    latest: Stored
    arrivals: _Arrivals = field(factory=lambda: _Arrivals())


class ToolfoldToolset(AgentMiddleware[ToolfoldState, Any, Any]):
    """A tool set as middleware: `create_agent(model, middleware=[ToolfoldToolset(tools)])`.

    Each run has a session of its own, opened by its first call of a tool and closed at its end; an interrupted run that
    is resumed continues with it. With a checkpointer, the groups that are open at the end of a run are open in the next
    one of the same thread; without one, pass all messages on. Agents may be invoked with and without `await`. A handler
    finds LangGraph's `ToolRuntime` in `context.request`. A call that fails is a `ToolMessage` with the status "error".

    A run that fails, or is never resumed, leaves its session open. Where hooks hold what must be released, use the
    middleware with `async with`, or `with` if agents are invoked without `await`; that closes them. Sessions of agents
    that are invoked without `await` are closed at the end of the program at the latest.

    SPEC INT-2.

    Args:
        tools: The tool set, or an open session for a run to use, such as one in a store, or a fork for a sub-agent:
            `async with context.session.fork() as session: create_agent(model, middleware=[ToolfoldToolset(session)])`.
        profile: The profile of the sessions.
        active: The groups that a conversation starts with, or one.
        include_instructions: Whether the system message ends with the list of groups (SPEC GRP-5).
        native: `"anthropic"` for models of `langchain-anthropic`: all tools are declared once, most of them deferred,
            and answers announce those of groups that open, so a provider's cache outlives every step (SPEC INT-3).

    Raises:
        ConfigError: There is no such profile, or a name has no wire name (SPEC NAM-6).
        ToolfoldError: A group can't be active at the start.
    """

    state_schema = ToolfoldState

    def __init__(
        self,
        tools: ToolSet | Session,
        *,
        profile: str | Profile | None = None,
        active: str | Iterable[str] = (),
        include_instructions: bool = False,
        native: Literal["anthropic"] | None = None,
    ) -> None:
        super().__init__()
        self._source = ConversationSource.of(tools, profile, active, native)
        self._include_instructions = include_instructions
        self._runs: dict[str, _AgentRun] = {}
        self._starting = Lock()
        self._loop: tuple[Thread, BlockingPortal] | None = None

    @property
    def name(self) -> str:
        """What the nodes of the graph are called by; an agent may have several tool sets."""
        return f"{type(self).__name__}[{self._source.name}]"

    # -- the life of a run --------------------------------------------------------------------------------------------

    async def abefore_agent(self, state: ToolfoldState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Begin a conversation: in the state of the thread, or with the groups that the messages have opened."""
        before = state.get("toolfold", {}).get(self._source.name)
        if before is None:
            conversation = self._source.conversation(state["messages"])
        else:
            await self._abandon(before)  # if the run before has not ended
            conversation = self._source.restored(before["state"])
        stored = Stored(run=uuid4().hex, state=conversation.dump())
        await self._add(_AgentRun(conversation, stored, stored))
        return {"toolfold": {self._source.name: stored}}

    def before_agent(self, state: ToolfoldState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Do as `abefore_agent`."""
        return self._wait(self.abefore_agent, state, runtime)

    async def aafter_agent(self, state: ToolfoldState, runtime: Runtime[Any]) -> None:
        """End the conversation of the run; the state of the graph has its state. Raises as `Session.close` does."""
        if (run := self._runs.pop(self._stored(state)["run"], None)) is not None:
            await run.conversation.close()

    def after_agent(self, state: ToolfoldState, runtime: Runtime[Any]) -> None:
        """Do as `aafter_agent`."""
        self._wait(self.aafter_agent, state, runtime)

    async def aclose(self) -> None:
        """End the conversations of runs that have not ended; hooks that fail are logged."""
        for run in list(self._runs.values()):
            await self._abandon(run.step)

    def close(self) -> None:
        """Do as `aclose`, for runs without `await`, and end the thread of their event loop."""
        if self._loop is not None:
            (thread, portal), self._loop = self._loop, None
            portal.call(portal.stop)
            thread.join()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- the tools of the model ---------------------------------------------------------------------------------------

    async def awrap_model_call(self, request: ModelRequest[Any], handler: AsyncModelHandler) -> ModelResponse[Any]:
        """Give the model the tools that are open now."""
        return await handler(await self._with_tools(request))

    def wrap_model_call(self, request: ModelRequest[Any], handler: ModelHandler) -> ModelResponse[Any]:
        """Do as `awrap_model_call`."""
        return handler(self._wait(self._with_tools, request))

    async def _with_tools(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        run = await self._run_of(request.state, at_model_call=True)
        conversation = run.conversation
        self._source.check_names(map(_name, request.tools), conversation)
        tools = [*request.tools, *(_tool(definition) for definition in conversation.tools())]
        section = conversation.system_prompt() if self._include_instructions else ""
        if not section:
            return request.override(tools=tools)
        blocks = request.system_message.content_blocks if request.system_message else []
        text = {"type": "text", "text": f"\n\n{section}" if blocks else section}
        return request.override(tools=tools, system_message=SystemMessage(content=cast("Any", [*blocks, text])))

    # -- the calls of the model ---------------------------------------------------------------------------------------

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolAnswer]]
    ) -> ToolAnswer:
        """Make a call of one of these tools."""
        if (called := await self._called(request)) is None:
            return await handler(request)
        tool, place = called
        try:
            return await handler(request.override(tool=tool))
        finally:
            place.leave()

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolAnswer]) -> ToolAnswer:
        """Do as `awrap_tool_call`."""
        if (called := self._wait(self._called, request)) is None:
            return handler(request)
        tool, place = called
        try:
            return handler(request.override(tool=tool))
        finally:
            self._wait(_left, place)

    async def _called(self, request: ToolCallRequest) -> tuple[_Tool, QueuePosition] | None:
        """Return the tool that a call is of, to make the call, and its place; `None` if it is not one of these.

        LangChain does many things before the tool runs, and not always in the order of the calls.
        """
        run = await self._run_of(request.state, at_model_call=False)
        await run.arrivals.come(str(request.tool_call["id"]), _ids_before(request))
        name = request.tool_call["name"]
        if run.conversation.component(name) is None:
            return None
        place = run.conversation.line_up(name)
        call = partial(self._call, run, request, place)
        return _Tool(name=name, description=name, args_schema={"type": "object"}, call=call, wait=self._wait), place

    async def _call(
        self, run: _AgentRun, request: ToolCallRequest, place: QueuePosition, arguments: Mapping[str, Any]
    ) -> Command[Any]:
        name, conversation = request.tool_call["name"], run.conversation
        runtime = cast("Any", request).runtime
        result = await conversation.call(name, arguments, request=runtime, place=place)
        identity = str(request.tool_call["id"])
        written: dict[str, Any] = {"type": "tool_use", "id": identity, "name": name, "input": {}}
        answer = None if self._source.native is None else conversation.answer(written, result)[0]
        artifact = {**metadata(conversation, result), "structured_content": result.structured}
        run.latest = Stored(run=run.step["run"], state=artifact[STATE])
        message = _message(name, identity, result, artifact)
        if answer is not None and not result.is_error:
            message = message.model_copy(update={"content": answer["content"]})
        return Command(update={"messages": [message], "toolfold": {self._source.name: run.latest}})

    # -- internals ----------------------------------------------------------------------------------------------------

    def _stored(self, state: Mapping[str, Any]) -> Stored:
        stored: Stored = state["toolfold"][self._source.name]
        return stored

    async def _run_of(self, state: Mapping[str, Any], *, at_model_call: bool) -> _AgentRun:
        """Return the conversation of a run, in the state that the graph has for it.

        It is restored if the run was begun elsewhere, or goes on from an earlier checkpoint.
        """
        stored = self._stored(state)
        run = self._runs.get(stored["run"])
        if run is None or (run.latest if at_model_call else run.step) != stored:
            run = _AgentRun(self._source.restored(stored["state"]), stored, stored)
            await self._add(run)
        if at_model_call:
            run.step = stored
        return run

    async def _add(self, run: _AgentRun) -> None:
        await self._abandon(run.step)
        self._runs[run.step["run"]] = run
        if len(self._runs) > LIMIT:
            await self._abandon(next(iter(self._runs.values())).step)

    async def _abandon(self, stored: Stored) -> None:
        if (run := self._runs.pop(stored["run"], None)) is not None:
            with suppress(ExceptionGroup):  # logged, and observers were notified, for each hook
                await run.conversation.close()

    def _wait(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Return the result of an async function, which runs in an event loop in a thread of its own."""
        with self._starting:
            if self._loop is None:
                started = Future[BlockingPortal]()
                thread = Thread(target=anyio.run, args=(self._run_loop, started), name=self.name)
                thread.start()
                self._loop = thread, started.result()
            _, portal = self._loop
        return portal.call(function, *arguments)

    async def _run_loop(self, started: Future[BlockingPortal]) -> None:
        """Run what `_wait` is given until `close`, or until the program ends, which waits for this thread."""
        async with BlockingPortal() as portal:
            started.set_result(portal)
            while main_thread().is_alive():
                with anyio.move_on_after(POLLING):
                    await portal.sleep_until_stopped()
                    break
            await self.aclose()


class _Arrivals:
    """The calls of a run that have arrived: LangGraph starts those of a step in no fixed order."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._next = anyio.Event()

    async def come(self, call: str, before: frozenset[str]) -> None:
        """Arrive behind the calls that were written before; one that is never made is not waited for long."""
        with anyio.move_on_after(PATIENCE):
            while not self._ids.issuperset(before):
                await self._next.wait()
        self._ids.add(call)
        self._next.set()
        self._next = anyio.Event()


def _ids_before(request: ToolCallRequest) -> frozenset[str]:
    """Return the ids of the calls that the model wrote before this one in the same message."""
    messages: list[Any] = request.state["messages"]
    written = [message for message in messages if isinstance(message, AIMessage)][-1:]
    ids = [str(call["id"]) for message in written for call in message.tool_calls]
    own = str(request.tool_call["id"])
    answered = {message.tool_call_id for message in messages if isinstance(message, ToolMessage)}
    return frozenset(ids[: ids.index(own)]) - answered if own in ids else frozenset()


async def _left(place: QueuePosition) -> None:
    place.leave()


class _Tool(BaseTool):
    """A tool for one call, or only for its definition; LangChain traces the call."""

    call: Callable[[Mapping[str, Any]], Awaitable[Any]] | None = None
    wait: Callable[..., Any] | None = None

    def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (tool_input,), {}  # unchanged: the names of arguments may be those of LangChain's own parameters

    def _run(self, arguments: Mapping[str, Any]) -> Any:
        assert self.call is not None
        assert self.wait is not None
        return self.wait(self.call, arguments)

    async def _arun(self, arguments: Mapping[str, Any]) -> Any:
        assert self.call is not None
        return await self.call(arguments)


def _tool(definition: Mapping[str, Any]) -> _Tool:
    """Return a tool as a model is given it."""
    description, deferred = definition.get("description", ""), {"defer_loading": True}
    schema = definition.get("inputSchema") or definition["input_schema"]  # that of Anthropic's declarations
    extras = deferred if "defer_loading" in definition else None
    return _Tool(name=definition["name"], description=description, args_schema=dict(schema), extras=extras)


def _name(tool: BaseTool | dict[str, Any]) -> str:
    return str(tool.get("name", "")) if isinstance(tool, dict) else tool.name


def _message(name: str, call: str, result: ToolResult, artifact: Mapping[str, Any]) -> ToolMessage:
    """Return the answer to a call."""
    message = partial(ToolMessage, name=name, tool_call_id=call, artifact=artifact)
    if (problem := failure(name, result)) is not None:
        return message(content=problem, status="error")
    made = [_content(part) for part in parts(result)]
    content = made[0] if len(made) == 1 and isinstance(made[0], str) else [_block(part) for part in made]
    return message(content=cast("Any", content))


def _block(part: str | Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _content(part: str | Media) -> str | Mapping[str, Any]:
    if isinstance(part, str):
        return part
    kind = part.mime_type.partition("/")[0]
    makes: Mapping[str, Callable[..., Any]] = {"image": create_image_block, "audio": create_audio_block}
    make: Callable[..., Any] = makes.get(kind, create_file_block)
    return cast("Mapping[str, Any]", make(base64=part.data, mime_type=part.mime_type))
