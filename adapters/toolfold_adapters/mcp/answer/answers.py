"""What the library itself says: its answers, and the instructions of a server (SPEC CTL-4, CTL-5, CTL-7, CALL-2).

Every client shows its model the text of a result; some show structured content as well or instead, others do not. So
the text has everything that a model needs, each definition once, and `_meta` has what programs need of a change: the
names of groups, and of the tools that can be called now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal
from weakref import WeakKeyDictionary

from attrs import evolve, field

from toolfold import Catalog, Component, ToolResult, WireNames
from toolfold.spi import ERROR_META, HANDLE, SHORTER_FORMS, Described, Directory, describe, frozen, shortened

from ...hosts import Host
from ...names import CHANGE_META, DISCARDED_META, HANDLE_META
from ...tokens import CHARACTERS_PER_TOKEN
from ..address.signed import NAMELESS
from .render import Renderer, with_text

DescribeTools = Callable[[Sequence[Described], int], tuple[str, Sequence[Described]]]
"""Describes tools in at most so many characters, and says which it described in full."""
AnswerForm = Literal["auto", "definitions", "signatures", "names"]

INSTRUCTIONS_FIRST = 240
"""How many characters of instructions every host shows that shows any."""
INSTRUCTIONS_ROOM = 2_000
"""How many characters instructions have at most, with those of the author."""
_LEAST_LISTED = 100
"""How many of them are left for the list of groups: enough to count them."""


@frozen(eq=False)
class Answers:
    """Converts answers of the core into those on the wire.

    Args:
        renderer: Renders the definitions for the clients of this delivery.
        form: How tools are described; see `ServerOptions.answers`.
        tokens: The greatest length of an answer, in approximate tokens, or a function that returns it for each answer.
    """

    _renderer: Renderer
    _form: AnswerForm
    _tokens: int | Callable[[], int]
    _known: WeakKeyDictionary[Component, Described | None] = field(
        init=False, factory=WeakKeyDictionary[Component, Described | None]
    )

    def room(self, host: Host) -> int:
        """Return how many characters an answer to a client of a host may have."""
        room = (self._tokens() if callable(self._tokens) else self._tokens) * CHARACTERS_PER_TOKEN
        return min(room, host.cut or room)

    def for_call(
        self,
        result: ToolResult,
        component: Component | None,
        was_listed: Callable[[Component], bool],
        room: int,
        *,
        relists: bool = False,
        way: str = "",
        read: bool = False,
        shown: dict[str, Described] | None = None,
    ) -> ToolResult:
        """Return the answer to a call of `component`.

        Args:
            result: The answer of the core.
            component: The tool that was called.
            was_listed: Returns whether the caller was sent the definition of a tool.
            room: How many characters the answer may have.
            relists: Whether the caller lists again automatically when its list has changed.
            way: A sentence on how tools are called that the caller's list does not have.
            read: Whether the caller's model reads the meta of results: then that repeats no tools.
            shown: The definitions that the caller was answered with, by name; those of this answer are added.
        """
        control = component is not None and component.control is not None
        if result.is_error:
            result = self._with_schema(result, was_listed, room)
            return self._refused(result, room) if control else result
        if not control:
            return result
        return self.for_change(result, room, relists=relists, way=way, read=read, shown=shown)

    def for_change(
        self,
        result: ToolResult,
        room: int,
        *,
        relists: bool = False,
        handle: str | None = None,
        way: str = "",
        read: bool = False,
        shown: dict[str, Described] | None = None,
    ) -> ToolResult:
        """Return the answer of a control tool that succeeded (SPEC CTL-4, CTL-8).

        Args:
            result: The answer of the core.
            room: How many characters the answer may have.
            relists: Whether the caller lists again automatically when its list has changed.
            handle: The handle of the new state, if there is one.
            way: How tools are called that the caller's list does not have, beginning with the handle if the caller has
                to give it: a client that cuts answers shows what comes first.
            read: Whether the caller's model reads the meta of results: then that repeats no tools.
            shown: The definitions that the caller was answered with, by name; those of this answer are added.
        """
        if result.about is None:
            return result
        ranked = result.about.ranked
        tools = self._described(result.about.tools, ranked=ranked)
        short = self._form == "names" or (relists and self._form == "auto")
        named = [tool.name for tool in tools]
        callable_now = [name for name in result.structured["tools"] if name in named] if ranked else named
        if short and ranked:  # what can be called now is in the caller's list, with its schema
            tools = [tool.without_schema if tool.name in callable_now else tool for tool in tools]
        first = f"{way}\n" if way and (handle is not None or callable_now) else ""
        shorter = result.about.describe if ranked else self._in_form(result.about.describe, names=short)
        text, in_full = _text(result.about.text, tools, first, room, shorter)
        if shown is not None:
            shown.update((tool.name, tool) for tool in in_full)
        # some hosts show their models the meta of a result: it repeats no more of the text than programs need
        change = {name: value for name, value in result.structured.items() if name not in ("found", "tools")}
        change |= {} if read else {"tools": callable_now}
        if handle is None:
            return _of_text(result, text, {CHANGE_META: change})
        return _of_text(result, text, {CHANGE_META: {**change, HANDLE: handle}, HANDLE_META: handle})

    def with_new_tools(
        self,
        result: ToolResult,
        new: Iterable[Component],
        room: int,
        handle: str | None,
        way: str,
        shown: dict[str, Described] | None = None,
    ) -> ToolResult:
        """Return the answer of any other tool, with a text on the tools it made available (SPEC CTL-4, DEL-2, CALL-5).

        Args:
            result: The answer of the tool.
            new: The tools that it made available.
            room: How many characters the text may have.
            handle: The handle of the new state, if there is one.
            way: How the new tools are called.
            shown: The definitions that the caller was answered with before, by name: of these tools there are the names
                alone, and the others are added.
        """
        tools = self._described(new)
        known_before = shown or {}
        again = [tool for tool in tools if known_before.get(tool.name) == tool]
        if not tools and not way:
            return with_text(result, "", meta=None if handle is None else {HANDLE_META: handle})
        tools = [tool for tool in tools if known_before.get(tool.name) != tool]
        first, known = f"{way}\n" if way else "", ""
        if again:  # half of the room is left for the others
            most = (room - len(first)) // (2 if tools else 1) - len(_AGAIN)
            known = f"{_AGAIN}{SHORTER_FORMS['names'](again, most)[0]}"
        nothing = known or _MORE
        text, in_full = _text(
            lambda described: (
                "\n".join(filter(None, [known, f"Now available:\n{described}"])) if described else nothing
            ),
            tools,
            first,
            room,
            self._in_form(describe, names=self._form == "names"),
        )
        if shown is not None:
            shown.update((tool.name, tool) for tool in in_full)
        return with_text(result, text, meta=None if handle is None else {HANDLE_META: handle})

    def _in_form(self, whole: DescribeTools, *, names: bool) -> DescribeTools:
        """Return what describes tools that become available: as `whole` does, or shorter, by names or as calls."""
        return SHORTER_FORMS.get("names" if names else self._form, whole)

    def _with_schema(self, result: ToolResult, was_listed: Callable[[Component], bool], room: int) -> ToolResult:
        """Return a refusal of arguments, with the schema if the caller may not know it (SPEC CALL-2)."""
        if result.about is None or was_listed(result.about.tools[0]):
            return result
        for tool in self._described(result.about.tools):
            text = result.about.text(tool.schema)
            return result if len(text) > room else _of_text(result, text)
        return result

    def _refused(self, result: ToolResult, room: int) -> ToolResult:
        """Return a refusal of a control tool, with its structured content in `_meta` as in all its answers."""
        meta: Mapping[str, Any] = result.meta or {}
        about: dict[str, Any] = {**meta.get(ERROR_META, {}), **(result.structured or {})}
        return _of_text(result, cut(result.text, room), {ERROR_META: about} if about else {})

    def _described(self, components: Iterable[Component], *, ranked: bool = False) -> list[Described]:
        """Return the tools that can be listed to clients of this delivery, as ranked or in list order."""
        found: list[Described] = []
        for component in components:
            if component not in self._known:
                definition = self._renderer.definition(component)
                self._known[component] = None if definition is None else Described.of(definition)
            if (described := self._known[component]) is not None:
                found.append(described)
        return found if ranked else sorted(found, key=lambda described: described.name)


def with_discarded(result: ToolResult, paths: Sequence[str]) -> ToolResult:
    """Return an answer under a handle that also names its groups that the newest catalog discards (SPEC PER-2)."""
    named = ", ".join("a group that no longer exists" if path == NAMELESS else path for path in paths)
    text = f"No longer open, because this server's groups have changed: {named}."
    return with_text(result, text, meta={DISCARDED_META: list(paths)})


_MORE = "More may be available now."
_AGAIN = "Available again, as described before:\n"


def _of_text(result: ToolResult, text: str, meta: Mapping[str, Any] | None = None) -> ToolResult:
    """Return a result with another text and, if `meta` is given, with that in place of structured content."""
    content = [{"type": "text", "text": text}]
    if meta is None:
        return evolve(result, content=content)
    return evolve(result, content=content, structured=None, meta={**(result.meta or {}), **meta} or None)


def _text(
    text: Callable[[str], str],
    tools: Sequence[Described],
    first: str,
    most: int,
    describe_tools: DescribeTools,
) -> tuple[str, Sequence[Described]]:
    """Return a text about tools after what comes first, of at most so many characters, and those described in full.

    If the text without the tools has no room, it is cut, and half of the room is the tools'.
    """
    room = most - len(first)
    described, full = describe_tools(tools, room - len(text("."))) if tools else ("", ())
    whole = text(described)
    if described not in whole:  # an author's text may omit the tools, but nothing else names them
        whole = f"{whole}\n{described}".lstrip("\n")
    if tools and len(whole) > room:
        described, full = describe_tools(tools, room // 2)
        whole = f"{cut(text('…'), room - len(described) - 1)}\n{described}"
    return cut(f"{first}{cut(whole, room)}", most), full if len(whole) <= room else ()


def cut(text: str, room: int) -> str:
    """Return a text of at most so many characters; one that is cut ends in an ellipsis."""
    return text if len(text) <= room else f"{text[: max(room - 1, 0)]}…"


def way_of_calling(proxy: str | None, *, handles: bool, lists_again: bool) -> str:
    """Return the end of a sentence on what opens a group: how its tools are called then.

    Args:
        proxy: The name of the call-tool proxy, if there is one; without it, the client's list itself changes.
        handles: Whether the client is issued handles.
        lists_again: Whether a list that has changed reaches the model.
    """
    if proxy is None:
        return "; its tools are then in your list."
    if handles:
        return f" and returns a handle, with which {proxy} calls its tools."
    if not lists_again:
        return f"; {proxy} then calls its tools."
    return f"; its tools are then in your list. If it does not change, {proxy} calls them."


def instructions_for(given: str, catalog: Catalog, wire: WireNames, then: str) -> str:
    """Return a server's instructions: the groups and how to open them, then those that are no more than texts.

    Args:
        given: Texts of authors; cut at the end to what room is left.
        catalog: The catalog of the groups.
        wire: The names that clients see.
        then: How the tools of a group are called that is open; see `way_of_calling`.
    """
    by_group = catalog.named_openers
    if not by_group:
        return given
    opener = wire.to_wire(next(iter(by_group.values())))
    how = opener if catalog.loader else f"{opener} (and so on)"
    find = f" {catalog.finder.name} searches all." if catalog.finder else ""
    known = Directory.of(map(catalog.group, by_group))
    first = known.introduced(f"{how} opens one{then}{find}", INSTRUCTIONS_FIRST)
    author = _fitting(given, INSTRUCTIONS_ROOM - len(first) - _LEAST_LISTED)
    if catalog.loader is None:  # whose description names them all otherwise
        room = INSTRUCTIONS_ROOM - len(first) - len(author) - len("\nGroups:\n\n")
        finder = catalog.finder.name if catalog.finder else None
        first = "\n".join([first, "Groups:", *known.lines(room, finder)])
    return f"{first}\n\n{author}" if author else first


def _fitting(text: str, room: int) -> str:
    return text if len(text) <= room else shortened(text, room)
