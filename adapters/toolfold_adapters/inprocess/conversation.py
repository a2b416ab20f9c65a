"""`Conversation`: the tools of one conversation of an agent's own loop (SPEC 19, GRP-6).

It finds the session, calls the core, and renders the answers in the shape of a model's provider, in an order that
keeps the provider's cache valid. With `native`, the list does not change at all, and answers announce new
tools (late.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Self, Unpack

import anyio

from toolfold import (
    Component,
    ConfigError,
    HandleInvalid,
    Profile,
    Session,
    SessionClosed,
    Snapshot,
    ToolResult,
    ToolSet,
    TransitionRequest,
    events,
    prompt_section,
    system_prompt,
)
from toolfold.machine import paths_of
from toolfold.spi import Saved

from ..names import WIRE_LENGTH, WIRE_SEPARATOR
from ..tokens import approximate_tokens, measure
from . import formats
from .formats import Format, ProviderDefinition, turns_of
from .history import FailureCheck, Replay
from .late import LateTools, Native, strings
from .turn import Barrier, QueuePosition, run_call, run_turn, written_call
from .wire_names import NameOptions, ToolOrder, WireNameCodec


class Tokens(NamedTuple):
    """About how many tokens a model is sent for its tools, and how many all tools would be without groups."""

    sent: int
    everything: int


class Conversation:
    """The tools of one conversation with a model, and its calls of them.

    Use it with `async with`, or call `execute` and, in the end, `close`. Before it is started it has the tools that it
    will start with; the first `execute` starts it and runs hooks.

    Args:
        tools: The tool set.
        profile: The profile of its session.
        active: Groups to start with, or one.
        separator: Replaces the dot in names: providers accept letters, digits, `_` and `-` only (SPEC AGT-3).
        max_length: How many characters a name may have.
        native: The provider that loads tools late: `"anthropic"` for the Messages API, `"openai"` for the Responses
            API, `"kimi"` for Kimi's Chat Completions API. What `tools` and `system_prompt` return then stays the same
            while groups open and close, so it stays in the provider's cache; `answers` announces the tools of groups
            that were opened (SPEC INT-3). The name of Anthropic's beta `"mid-conversation-tool-changes-2026-07-01"`,
            with which requests have to be made, has those of closed groups withdrawn, too.

    Raises:
        ConfigError: There is no such profile, a name has no wire name (SPEC NAM-6), or the provider can't load the
            tools late.
        ToolfoldError: A group can't be active at the start.
    """

    def __init__(
        self,
        tools: ToolSet,
        *,
        profile: str | Profile | None = None,
        active: Iterable[str] = (),
        separator: str = WIRE_SEPARATOR,
        max_length: int = WIRE_LENGTH,
        native: Native | None = None,
    ) -> None:
        given = paths_of(active)
        session = tools.open_session(profile, given)
        wanted = (*(session.profile.active if session.profile else ()), *given)
        start = session.snapshot.after(TransitionRequest(activate=wanted))
        self._begin(session, start, wanted, native, WireNameCodec(separator, max_length))
        self._begun: tuple[str, ...] = tuple(path for path in start.active if not start.catalog.group(path).pinned)

    def _begin(
        self,
        session: Session,
        start: Snapshot | None,
        loaded: Iterable[str],
        native: Native | None,
        names: WireNameCodec,
    ) -> None:
        """Begin over a session, in the state `start` if the session is still to be opened."""
        names.update(session.catalog, strict=True)
        self._names = names
        self._begun = ()
        self._order = ToolOrder(names, session.snapshot if start is None else start, loaded)
        self._tools: ToolSet = session.tools
        self._set_session(session, start)
        self._owns_session = start is not None
        self._starting = anyio.Lock()
        self._barrier = Barrier()
        self._answered = 0
        self._native: Native | None = native
        self._late = None if native is None else LateTools(native, names, session.catalog, self._listed())

    def _set_session(self, session: Session, start: Snapshot | None) -> None:
        self._session, self._start = session, start
        session.on_list_changed(lambda kinds: self._order.update(self._snapshot))

    @classmethod
    def of_session(cls, session: Session, *, native: Native | None = None, **name_options: Unpack[NameOptions]) -> Self:
        """Return a conversation over an open session: a fork for a sub-agent, or one in a store.

        Whoever opened the session closes it: `close` leaves it open. With `native`, the tools that are listed now are
        declared in full. Raises `SessionClosed` if the session is not open, and `ConfigError` as a new conversation.

        SPEC SES-7, STO-1.
        """
        if not session.is_open:
            raise SessionClosed(session.id, "is not open; open it with `async with`, for as long as it is used")
        made = cls.__new__(cls)
        made._begin(session, None, session.oldest_first, native, WireNameCodec(**name_options))
        return made

    # -- restoring ----------------------------------------------------------------------------------------------------

    @classmethod
    def restore(
        cls,
        tools: ToolSet,
        data: Any,
        profile: str | Profile | None = None,
        *,
        native: Native | None = None,
        **name_options: Unpack[NameOptions],
    ) -> Self:
        """Return a dumped conversation, with the same groups loaded in the same order.

        What a changed catalog does not allow is in `discarded` (SPEC PER-2). The result of `Session.dump` is accepted
        too.

        SPEC GRP-6.

        Args:
            tools: The tool set.
            data: The result of `dump`, perhaps after a round trip through JSON.
            profile: A profile that replaces that of the conversation.
            native: The provider that loads tools late.
            name_options: `separator` and `max_length`.

        Raises:
            HandleInvalid: The data is damaged, or belongs to another tool set.
            ConfigError: There is no such profile, or the provider can't load the tools late.
        """
        session, start = _restored(tools, data, profile)
        loaded = strings(data.get("loaded", data["active"]), "loaded groups are not a list of paths")
        answered = data.get("answered", 0)
        if type(answered) is not int or answered < 0:
            raise HandleInvalid("The conversation can't be restored: its number of answers is not a number.")
        made = cls.__new__(cls)
        made._begin(session, start, loaded, native, WireNameCodec(**name_options))
        made._answered = answered
        made._begun = tuple(strings(data.get("begun", ()), "groups that it began with are not a list of paths"))
        if made._late is not None and "native" in data:
            made._late.restore(data["native"])
        return made

    @classmethod
    def from_history(
        cls,
        tools: ToolSet,
        messages: Iterable[Any],
        profile: str | Profile | None = None,
        *,
        active: Iterable[str] = (),
        failed: FailureCheck | None = None,
        native: Native | None = None,
        **name_options: Unpack[NameOptions],
    ) -> Self:
        """Return a conversation with the groups that its messages have loaded.

        An answer whose metadata has the result of `dump`, as the integrations with frameworks store it, sets that
        state, facts included. Other turns are replayed in the current catalog, the calls of each in the order in which
        `execute` runs them; calls that would now be refused are skipped. A call has failed if its answer is marked as
        an error or, in messages without such marks, reads as one of the library's refusals.

        Whoever can alter the messages decides what is open, so take them from a store of the application, not from its
        clients. They lack facts, and the groups that handlers or code opened and closed. A group that opens on the
        success of a tool is taken to have opened, though its hook may have failed; and OpenAI's messages, which mark no
        errors, do not show that such a tool failed with a message of its own.

        SPEC GRP-6.

        Args:
            tools: The tool set.
            messages: Of Anthropic's Messages API, of OpenAI's Chat Completions API, or items of its Responses API; the
                messages of pydantic-ai or LangChain, or items of a run of the OpenAI Agents SDK.
            profile: The profile of the conversation.
            active: The groups that the conversation started with.
            failed: Returns whether a `PastCall` failed, for answers that were altered before they were stored; `None`
                to decide by the answer.
            native: The provider that loads tools late; the messages are taken to announce them.
            name_options: `separator` and `max_length`.

        Raises:
            ToolfoldError: As for a new conversation.
        """
        made = cls(tools, profile=profile, active=active, native=native, **name_options)
        given = list(messages)
        if turns := turns_of(given):
            replay = Replay(made._snapshot, tools, made._order, failed)
            made._start = replay.after(turns)
            made._set_session(*_restored(tools, made.dump(), made._session.profile))
        if made._late is not None:
            made._late.assume_announced(given, made._listed())
        return made

    def child(self, groups: Literal["inherit", "fresh"] | Iterable[str] = "inherit") -> Conversation:
        """Return a conversation for a sub-agent: under the same profile and wire names, with a state of its own.

        Args:
            groups: `"inherit"` to start with the facts and the groups of this one, except transient ones; `"fresh"` to
                start like a new conversation; or the groups to start with.

        Raises:
            ToolfoldError: A group can't be active at the start.
        """
        name_options: NameOptions = {"separator": self._names.separator, "max_length": self._names.max_length}
        profile = self._session.profile
        if groups == "inherit":
            data = {key: value for key, value in self.dump().items() if key != "native"}
            return Conversation.restore(self._tools, data, profile, native=self._native, **name_options)
        wanted = () if groups == "fresh" else groups
        return Conversation(self._tools, profile=profile, active=wanted, native=self._native, **name_options)

    def dump(self) -> dict[str, Any]:
        """Return the state as a small JSON value, for `restore`; see `Session.dump`. Raises `SessionClosed`."""
        session, start = self._session, self._start
        state = session.dump() if start is None else Saved.dumped(self._tools.name, session.profile, start)
        native = {} if self._late is None else {"native": self._late.dump()}
        begun = {"begun": list(self._begun)} if self._begun else {}
        answered = {"answered": self._answered} if self._answered else {}
        return {**state, "loaded": list(self.loaded), **begun, **answered, **native}

    # -- opening and closing ----------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the session, unless it was opened, and return the conversation.

        Raises:
            HookFailed: An initial group could not be set up; the conversation is over.
            QuotaExceeded: Too many sessions are open (SPEC SES-4).
        """
        async with self._starting:
            if self._start is not None:
                await self._session.start()
                self._start = None
        return self

    async def close(self) -> None:
        """End the session and tear down its groups, unless it is that of `of_session`. Raises as `Session.close`."""
        if self._owns_session:
            await self._session.close()

    if not TYPE_CHECKING:  # a type checker refuses `with` because there is no such method

        def __enter__(self) -> NoReturn:
            problem = "was not opened; use `async with conversation`, or `with BlockingConversation(conversation)`"
            raise SessionClosed(self._session.id, problem)

        def __exit__(self, *_: object) -> None:
            """Exist, so that `with` reaches the message above."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- the tools of the model ---------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session of the conversation, open once this is started."""
        return self._session

    @property
    def loaded(self) -> tuple[str, ...]:
        """The loaded groups, in the order in which they were loaded."""
        self._order.update(self._snapshot)
        return self._order.loaded

    @property
    def discarded(self) -> tuple[str, ...]:
        """The groups that were discarded when it was restored.

        SPEC PER-2.
        """
        return self._session.discarded

    def tools(self, format: Format | None = None) -> list[ProviderDefinition]:
        """Return the definitions of the tools for the next turn of the model.

        Tools of no group come first, then those of each group in the order of loading. A tool keeps its place for as
        long as it is listed, so the definitions that a provider has cached stay the beginning of the list.

        SPEC AGT-1, AGT-3.

        Args:
            format: `None` for the shape of the MCP specification or, with `native`, for the provider's declarations of
                all tools, most of them deferred; `"anthropic"`, `"openai"` (Chat Completions) or `"openai_responses"`
                for the tools that can be called now.

        Raises:
            ConfigError: There is no such format.
        """
        components = self._listed()
        late = format is None and self._late is not None
        self._tools.observers.notify(events.Listed(self._session.id, "tool", tuple(components), leads=not late))
        if late and self._late is not None:
            return self._late.declarations(self._session.catalog)
        return [formats.definition(component, format, self._names.to_wire) for component in components]

    def system_prompt(self, base: str = "") -> str:
        """Return a system prompt that ends with the section on groups.

        SPEC GRP-5, AGT-1.
        """
        return system_prompt(base, self._session, to_wire=self._names.to_wire, active=self._begun)

    def tokens(self) -> Tokens:
        """Return the approximate cost of the next turn's tools and prompt section, and of all tools.

        SPEC AGT-4.
        """
        costs = measure(self._tools.runtime.view_of(self._snapshot, self._names.to_wire))
        section = prompt_section(self._session, to_wire=self._names.to_wire, active=self._begun)
        return Tokens(costs.after + approximate_tokens(section), costs.before)

    # -- the calls of the model ---------------------------------------------------------------------------------------

    async def execute(self, calls: Iterable[tuple[str, Any]]) -> list[ToolResult]:
        """Return the results of the calls of one turn, in the order of the calls.

        Calls of control tools run in the order in which the model wrote them, and all others concurrently after them,
        so that a tool can be called in the turn in which its group is loaded. But calls that were written before one
        that closes a group run before it, and so does a call whose success opens groups. Each call has its own result;
        that of a tool that can't be called is an error, which with `ToolSet(on_hidden="hint")` names the group to load.

        SPEC AGT-1, AGT-2.

        Args:
            calls: Names, as the model knows them, with arguments: a mapping or JSON text.

        Raises:
            SessionClosed: The conversation is over.
            HookFailed, QuotaExceeded: As `start`, which the first turn calls.
        """
        await self._ready()
        return await run_turn(self._session, self._names, calls, lambda: self._order.update(self._session.snapshot))

    def line_up(self, name: str) -> QueuePosition:
        """Return the place, behind earlier calls, of one that is about to be made: pass it to `call`, or leave it."""
        return self._barrier.line_up(exclusively=written_call(self._names, name, {}).is_control(self._session.catalog))

    async def call(
        self, name: str, arguments: Any, *, request: Any = None, place: QueuePosition | None = None
    ) -> ToolResult:
        """Return the result of one call, for a framework that makes the calls of a turn itself.

        Calls may be made at the same time. That of a control tool waits for earlier calls, and later ones wait for it;
        so start them, or have them line up, in the order in which the model wrote them.

        SPEC AGT-2.

        Args:
            name: The tool, as the model knows it.
            arguments: A mapping or JSON text.
            request: What the framework has for a call, such as a run's context: the handler's `context.request`.
            place: The result of `line_up`, where a framework may do other things first.

        Raises:
            SessionClosed, HookFailed, QuotaExceeded: As `execute`.
        """
        await self._ready()
        call = written_call(self._names, name, arguments)
        async with (place or self.line_up(name)).passing():
            result = await run_call(self._session, self._names, call, request)
            self._answered += 1
            self._order.update(self._session.snapshot)
            return result

    def component(self, name: str) -> Component | None:
        """Return the tool that the model knows by a name, listed or not; `None` if there is none."""
        self._names.update(self._session.catalog)
        return self._session.catalog.tools.get(self._names.from_wire(name))

    def definition(self, name: str) -> ProviderDefinition | None:
        """Return the definition of a tool that the model knows by a name, listed or not, or `None`."""
        component = self.component(name)
        return None if component is None else formats.definition(component, None, self._names.to_wire)

    def calls(self, output: Iterable[Any]) -> list[tuple[str, Any]]:
        """Return the calls in what the model wrote, for `call`: names and arguments. Raises as `answers` does."""
        if self._late is None:
            raise ConfigError('Answers are for a provider: make the conversation with native=, such as "anthropic".')
        return self._late.calls(output)

    def answer(self, written: Any, result: ToolResult) -> list[ProviderDefinition]:
        """Return what answers a call as the model wrote it, with the result of `call`; see `answers`.

        SPEC INT-3.

        Raises:
            ConfigError: The conversation was made without a provider whose answers announce tools.
        """
        if self._late is None or self._native not in ("anthropic", "openai"):
            raise ConfigError('An answer can announce tools with native="anthropic" or "openai" only.')
        return self._late.answers([written], [result], self._listed())

    async def answers(self, output: Iterable[Any]) -> list[ProviderDefinition]:
        """Execute the calls in what the model wrote, and return their answers in the provider's shape.

        They announce the tools that have become available. For `"anthropic"` they are the content of the next user
        message, for `"openai"` items for the input of the next request; without calls there are none. Otherwise they
        are messages, to be appended as they are; without calls, where code has opened or closed groups, after a message
        of the user.

        SPEC INT-3.

        Args:
            output: `message.content` of the Messages API, `response.output` of the Responses API, or the message or
                its `tool_calls` of Chat Completions.

        Raises:
            ConfigError: The conversation was made without `native`.
            SessionClosed, HookFailed, QuotaExceeded: As `execute`.
        """
        written = list(output)
        results = await self.execute(self.calls(written))
        assert self._late is not None
        return self._late.answers(written, results, self._listed())

    # -- internals ----------------------------------------------------------------------------------------------------

    async def _ready(self) -> None:
        await self.start()
        if not self._session.is_open:
            raise SessionClosed(self._session.id)
        self._names.update(self._session.catalog)

    @property
    def _snapshot(self) -> Snapshot:
        session = self._session.snapshot
        return session if self._start is None else self._start.moved_to(session.catalog)

    def _listed(self) -> list[Component]:
        return self._order.listed(self._tools.runtime.view_of(self._snapshot))


def _restored(tools: ToolSet, data: Any, profile: str | Profile | None) -> tuple[Session, Snapshot]:
    """Return the session of a dumped conversation, still to be opened, and the state in which it will be."""
    session = tools.restore_session(data, profile)
    return session, Saved.read(tools.name, data).snapshot(session.catalog)
