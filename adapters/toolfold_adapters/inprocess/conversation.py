"""`Conversation`: the tools of one conversation of an agent's own loop (SPEC 19, GRP-6).

It finds the session, calls the core, and renders the answers in the shape of a model's provider. What it adds is an
order: tools that a model was given before keep their positions, and new ones come at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Self, Unpack, cast

import anyio

from toolfold import (
    Component,
    HandleInvalid,
    Profile,
    Session,
    SessionClosed,
    Snapshot,
    ToolResult,
    ToolSet,
    TransitionRequest,
    prompt_section,
    system_prompt,
)
from toolfold.machine import paths_of
from toolfold.spi import RequestView, Saved, dumped, listed, never_listed, read, required_groups, table

from ..names import WIRE_LENGTH, WIRE_SEPARATOR
from ..tokens import approximate_tokens, measure
from . import formats
from .execution import run_turn
from .formats import Definition, Format
from .history import FailureCheck, Replay
from .messages import turns_of
from .wire_names import NameOptions, WireNameCodec


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

    Raises:
        ConfigError: There is no such profile, or a name has no wire name (SPEC NAM-6).
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
    ) -> None:
        self._tools = tools
        self._profile = tools.profile(profile)
        self._names = WireNameCodec(separator, max_length)
        self._starting = anyio.Lock()
        self._started = False
        self._order: list[str] = []
        wanted = (*(self._profile.active if self._profile else ()), *paths_of(active))
        session = tools.open_session(self._profile, wanted)
        self._set_session(session, session.snapshot.after(TransitionRequest(activate=wanted)), wanted)
        self._initial_groups = self._loaded
        self._names.update(session.catalog, strict=True)

    def _set_session(self, session: Session, beginning: Snapshot, loaded: Iterable[str]) -> None:
        self._session = session
        self._start_snapshot = beginning
        self._loaded = _in_order(loaded, beginning)
        session.on_list_changed(lambda kinds: self._update_loaded())

    # -- restoring ----------------------------------------------------------------------------------------------------

    @classmethod
    def restore(
        cls, tools: ToolSet, data: Any, profile: str | Profile | None = None, **name_options: Unpack[NameOptions]
    ) -> Self:
        """Return a dumped conversation, with the same groups loaded in the same order (SPEC GRP-6).

        Against a changed catalog it is normalised, and `discarded` has the groups that it lost (SPEC PER-2). The result
        of `Session.dump` is accepted too.

        Args:
            tools: The tool set.
            data: The result of `dump`, perhaps after a round trip through JSON.
            profile: A profile that replaces that of the conversation.
            name_options: `separator` and `max_length`.

        Raises:
            HandleInvalid: The data is damaged, or belongs to another tool set.
            ConfigError: There is no such profile.
        """
        saved = read(tools.name, data)
        made = cls(tools, profile=saved.profile if profile is None else profile, **name_options)
        made._initial_groups = _paths(data.get("first", made._initial_groups))
        made._restore(data)
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
        **name_options: Unpack[NameOptions],
    ) -> Self:
        """Return a conversation with the groups that its messages have loaded (SPEC GRP-6).

        The turns are replayed in the current catalog, the calls of each in the order in which `execute` runs them. A
        call is taken to have failed if its answer is marked as an error or, in messages that have no such mark, reads
        as one of the library's refusals; otherwise to have succeeded. Calls that would now be refused are skipped.

        Messages do not contain everything. Facts are not restored, nor groups that handlers or code opened and closed.
        A group that opens on the success of a tool is taken to have opened, though its hook may have failed; and
        OpenAI's messages, which mark no errors, do not show that such a tool failed with a message of its own.

        Args:
            tools: The tool set.
            messages: Of Anthropic's Messages API, of OpenAI's Chat Completions API, or items of its Responses API.
            profile: The profile of the conversation.
            active: The groups that the conversation started with.
            failed: Returns whether a `PastCall` failed, for answers that were altered before they were stored; if it
                returns `None`, the answer decides.
            name_options: `separator` and `max_length`.

        Raises:
            ToolfoldError: As for a new conversation.
        """
        made = cls(tools, profile=profile, active=active, **name_options)
        replay = Replay(made._start_snapshot, tools.view_of, made._names, failed)
        made._listed()
        for turn in turns_of(messages):
            before = made._start_snapshot
            for state in replay.states(turn):
                made._start_snapshot = state
                made._update_loaded()
            if made._start_snapshot is not before:
                made._listed()  # tools that the model was given next keep their positions
        made._restore(made.dump())
        return made

    def _restore(self, data: Any) -> None:
        saved = read(self._tools.name, data)
        loaded = _paths(data.get("loaded", saved.active))
        beginning = saved.snapshot(self._tools.catalog_under(self._profile))
        self._set_session(self._tools.restore_session(data, self._profile), beginning, loaded)

    def child(self, groups: Literal["inherit", "fresh"] | Iterable[str] = "inherit") -> Conversation:
        """Return a conversation for a sub-agent: under the same profile and wire names, with a state of its own.

        Args:
            groups: `"inherit"` to start with the facts and the groups of this one, except transient ones; `"fresh"` to
                start like a new conversation; or the groups to start with.

        Raises:
            ToolfoldError: A group can't be active at the start.
        """
        name_options: NameOptions = {"separator": self._names.separator, "max_length": self._names.max_length}
        if groups == "inherit":
            data = {**self.dump(), "first": self.loaded}
            return Conversation.restore(self._tools, data, self._profile, **name_options)
        wanted = () if groups == "fresh" else groups
        return Conversation(self._tools, profile=self._profile, active=wanted, **name_options)

    def dump(self) -> dict[str, Any]:
        """Return the state as a small JSON value, for `restore`; see `Session.dump`. Raises `SessionClosed`."""
        profile = self._profile.name if self._profile else None
        state = self._session.dump() if self._started else dumped(self._tools.name, profile, self._start_snapshot)
        return {**state, "loaded": list(self.loaded), "first": list(self._initial_groups)}

    # -- opening and closing ----------------------------------------------------------------------------------------

    async def start(self) -> Self:
        """Open the session, unless it was opened, and return the conversation.

        Raises:
            HookFailed: An initial group could not be set up; the conversation is over.
            QuotaExceeded: Too many sessions are open (SPEC SES-4).
        """
        async with self._starting:
            if not self._started:
                await self._session.start()
                self._started = True
        return self

    async def close(self) -> None:
        """End the session and tear down its groups. Raises as `Session.close` does."""
        await self._session.close()

    if not TYPE_CHECKING:  # a type checker refuses `with` because there is no such method

        def __enter__(self) -> NoReturn:
            problem = "was not opened; use `async with conversation`, or `with BlockingConversation(conversation)`"
            raise SessionClosed(self._session.id, problem)

        def __exit__(self, *_: object) -> None:
            """Exist, so that `with` reaches the message above."""

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # -- the tools of the model ---------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session of the conversation, open once this is started."""
        return self._session

    @property
    def loaded(self) -> tuple[str, ...]:
        """The loaded groups, in the order in which they were loaded."""
        self._update_loaded()
        return self._loaded

    @property
    def discarded(self) -> tuple[str, ...]:
        """The groups that were discarded when it was restored (SPEC PER-2)."""
        return self._session.discarded

    def tools(self, format: Format | None = None, *, deferred: bool = False) -> list[Definition]:
        """Return the definitions of the tools for the next turn of the model (SPEC AGT-1, AGT-3).

        Tools of no group come first, then those of each group in the order of loading. A tool keeps its place for as
        long as it is listed, so the definitions that a provider has cached stay the beginning of the list.

        Args:
            format: `None` for the shape of the MCP specification, `"anthropic"`, `"openai"` (Chat Completions) or
                `"openai_responses"`.
            deferred: Use the provider's mechanism for late tools, so that a load does not change the list: groups that
                the conversation did not start with are announced by the result of `late` after a load. For
                `"anthropic"` their tools are in the list, withheld from the model until they are referred to; for
                `"openai_responses"` the loader is given as a tool search, which the caller performs by calling it.

        Raises:
            ConfigError: There is no such format, or it has no late tools.
        """
        if deferred:
            formats.check_late(format)
            return self._deferred(format)
        return [formats.definition(component, format, self._names.to_wire) for component in self._listed()]

    def late(self, result: ToolResult, format: Format) -> list[Definition]:
        """Return what announces the tools that a result made available to a provider, for `tools(deferred=True)`.

        For `"anthropic"` they are blocks for the content of the tool result; for `"openai_responses"`, the tools of a
        `tool_search_output` item.
        """
        formats.check_late(format)
        names: list[str] = [] if result.is_error else (table(result.structured) or {}).get("tools", [])
        known = self._snapshot.catalog.tools
        components = [known[name] for name in map(self._names.from_wire, names) if name in known]
        return formats.late(components, format, self._names.to_wire)

    def system_prompt(self, base: str = "") -> str:
        """Return a system prompt that ends with the section on groups (SPEC GRP-5, AGT-1)."""
        return system_prompt(base, self._session, to_wire=self._names.to_wire)

    def tokens(self) -> Tokens:
        """Return the approximate cost of the next turn's tools and prompt section, and of all tools (SPEC AGT-4)."""
        costs = measure(self._view(), to_wire=self._names.to_wire)
        section = prompt_section(self._session, to_wire=self._names.to_wire)
        return Tokens(costs.after + approximate_tokens(section), costs.before)

    # -- the calls of the model ---------------------------------------------------------------------------------------

    async def execute(self, calls: Iterable[tuple[str, Any]]) -> list[ToolResult]:
        """Return the results of the calls of one turn, in the order of the calls (SPEC AGT-1, AGT-2).

        Calls of control tools run in the order in which the model wrote them. All others run concurrently after them,
        so that a tool can be called in the turn in which its group is loaded; but calls that were written before one
        that closes a group run before it, and so does a call whose success opens groups. A tool that can't be called
        has an error result; with `ToolSet(on_hidden="hint")` it names the group to load.

        Each call has its own result, and no failure affects the others.

        Args:
            calls: Names, as the model knows them, with arguments: a mapping or JSON text.

        Raises:
            SessionClosed: The conversation is over.
            HookFailed, QuotaExceeded: As `start`, which the first turn calls.
        """
        await self.start()
        if not self._session.is_open:
            raise SessionClosed(self._session.id)
        self._names.update(self._snapshot.catalog)
        return await run_turn(self._session, self._names, calls, self._update_loaded)

    # -- internals ----------------------------------------------------------------------------------------------------

    @property
    def _snapshot(self) -> Snapshot:
        session = self._session.snapshot
        return session if self._started else self._start_snapshot.moved_to(session.catalog)

    def _view(self) -> RequestView:
        return self._tools.view_of(self._snapshot)

    def _has_name(self, component: Component) -> bool:
        return self._names.has_name(component.name)

    def _update_loaded(self) -> None:
        self._loaded = _in_order(self._loaded, self._snapshot)

    def _listed(self) -> list[Component]:
        self._names.update(self._snapshot.catalog)
        shown = {component.name: component for component in listed(self._view(), "tool") if self._has_name(component)}
        loaded = self.loaded
        new = sorted(shown.keys() - set(self._order), key=lambda name: (_place(shown[name], loaded), name))
        self._order = [*(name for name in self._order if name in shown), *new]
        return [shown[name] for name in self._order]

    def _deferred(self, format: Format | None) -> list[Definition]:
        self._names.update(self._snapshot.catalog)
        catalog, to_wire = self._snapshot.catalog, self._names.to_wire
        started = Saved(self._initial_groups, self._snapshot.facts, with_transient=True).snapshot(catalog)
        at_first = [
            component for component in listed(self._tools.view_of(started), "tool") if self._has_name(component)
        ]
        if format == "openai_responses":
            loads = [component for component in at_first if component.control and component.control[0] == "load"]
            rest = [formats.definition(component, format, to_wire) for component in at_first if component not in loads]
            return [*rest, *map(formats.search, loads)]
        names = {component.name for component in at_first}
        grouped = [component for component in catalog.tools.values() if component.group and self._has_name(component)]
        later = [component for component in grouped if component.name not in names and not never_listed(component)]
        later.sort(key=lambda component: (catalog.index[component.group or ""], component.name))
        now = [formats.definition(component, format, to_wire) for component in at_first]
        return [*now, *(formats.deferred(component, format, to_wire) for component in later)]


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(path, str) for path in cast("list[Any]", value)):
        raise HandleInvalid("The conversation can't be restored: its loaded groups are not a list of paths.")
    return tuple(cast("list[str]", value))


def _in_order(loaded: Iterable[str], snapshot: Snapshot) -> tuple[str, ...]:
    """Return the active groups in the order in which they were loaded, new ones at the end."""
    stayed = dict.fromkeys(path for path in loaded if snapshot.is_active(path))
    return (*stayed, *(path for path in snapshot.active if path not in stayed))


def _place(component: Component, loaded: tuple[str, ...]) -> int:
    """Return the position of the last loaded group that the tool requires, or -1 if it requires none."""
    return max((loaded.index(path) for path in required_groups(component.rule) if path in loaded), default=-1)
