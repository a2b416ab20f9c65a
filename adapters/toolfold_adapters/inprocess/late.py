"""Tools that a provider loads late, so that its cached prefix outlives every change of what is open (SPEC INT-3).

A request begins with the tools, and providers cache that beginning. Here it never depends on the state of the session:
tools that are listed at the start are declared in full, and all others are declared as deferred, which withholds them
from the model. The answer to a call announces the tools that became available, at the end of the messages. What a
search may find, and which calls are accepted, is up to the session; a provider's own search, which would find tools of
closed groups, is not used.

Two ways announce by a message of the system, after the answers: Anthropic's tool changes, which withdraw tools as
well, and Kimi's, which declares nothing before.

The declarations change only with the catalog. A new tool is declared after the others; one that is unregistered
remains declared, because messages may refer to it, and a call of it is refused; one that is redefined is replaced in
its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast, get_args

from toolfold import Catalog, Component, ConfigError, HandleInvalid, ToolResult
from toolfold.spi import table

from .formats import Answered, ProviderDefinition, calls_of, referred_to, without_schemas
from .late_providers import AnthropicTools, KimiTools, OpenAITools, search_tool
from .wire_names import WireNameCodec

ToolChanges = Literal["mid-conversation-tool-changes-2026-07-01"]
Native = Literal["anthropic", "openai", "kimi"] | ToolChanges


Provider = AnthropicTools | KimiTools | OpenAITools


class LateTools:
    """What a provider is sent of the tools of one conversation.

    Args:
        native: The provider; see `Conversation`.
        names: The names by which the model knows the tools.
        catalog: The catalog at the start.
        first: The tools that are declared in full, in their order.

    Raises:
        ConfigError: There is no such provider, or it can't defer the tools of this catalog.
    """

    def __init__(self, native: str, names: WireNameCodec, catalog: Catalog, first: Iterable[Component]) -> None:
        self._names = names
        self._first = dict.fromkeys(component.name for component in first)
        self._groups: dict[str, str] = {}
        self._provider = self._provider_of(native, catalog)
        self._declared: dict[str, Component] = {}
        self._announced: dict[str, None] = {}
        self._withdrawn: set[str] = set()
        self._catalog: Catalog | None = None
        self._update(catalog)

    def _provider_of(self, native: str, catalog: Catalog) -> Provider:
        if native in ("anthropic", *get_args(ToolChanges)):
            if not self._first:
                raise ConfigError(
                    "Anthropic's API refuses requests in which every tool is deferred; list one from the start, as "
                    'ToolSet(control="open_group") does.'
                )
            return AnthropicTools(self._names.to_wire, in_messages=native != "anthropic")
        if native == "kimi":
            return KimiTools(self._names.to_wire)
        if native == "openai":
            search = search_tool(catalog)
            if search is None:
                raise ConfigError(
                    "OpenAI's API defers tools only beside a tool search; have one tool that opens groups, with "
                    'ToolSet(control="open_group"), or one that finds tools, with ToolSet(search=...).'
                )
            return OpenAITools(self._names.to_wire, search, self._groups)
        raise ConfigError(f'native is "anthropic", "openai", "kimi" or {get_args(ToolChanges)[0]!r}, not {native!r}.')

    def dump(self) -> dict[str, list[str]]:
        """Return what `restore` needs, as a JSON value."""
        withdrawn = {"withdrawn": sorted(self._withdrawn)} if self._withdrawn else {}
        return {"first": list(self._first), "announced": list(self._announced), **withdrawn}

    def restore(self, data: Any) -> None:
        """Continue from the result of `dump`; raises `HandleInvalid` if it is damaged."""
        saved, fault = table(data) or {}, "native tools are not lists of names"
        self._first, self._announced = (dict.fromkeys(strings(saved.get(key), fault)) for key in ("first", "announced"))
        self._withdrawn = set(strings(saved.get("withdrawn", ()), fault))

    def assume_announced(self, messages: Sequence[Any], listed: Iterable[Component]) -> None:
        """Take tools to have been announced and withdrawn as the messages so far say; so are those that are listed.

        With messages that announce, only what they say counts.
        """
        for name, withdrawn in referred_to(messages):
            (self._withdrawn.add if withdrawn else self._withdrawn.discard)(own := self._names.from_wire(name))
            self._announce([own])
        if not self._provider.in_messages:
            self._announce(component.name for component in listed)

    def _announce(self, names: Iterable[str]) -> None:
        self._announced |= dict.fromkeys(name for name in names if name not in self._first)

    def declarations(self, catalog: Catalog) -> list[ProviderDefinition]:
        """Return the declarations of the tools of a catalog, and of those that are gone from it."""
        self._update(catalog)
        first = [self._declared[name] for name in self._first if name in self._declared]
        later = [component for name, component in self._declared.items() if name not in self._first]
        gone = [self._names.to_wire(name) for name in self._announced if name not in self._declared]
        return self._provider.declarations(first, later, gone)

    def calls(self, output: Iterable[Any]) -> list[tuple[str, Any]]:
        """Return the calls in what a model wrote: wire names and arguments."""
        return [self._called(name, arguments) for _, name, arguments in calls_of(output)]

    def _called(self, name: str, arguments: Any) -> tuple[str, Any]:
        search = self._provider if isinstance(self._provider, OpenAITools) and not name else None
        return (name, arguments) if search is None else search.searched(arguments)

    def answers(
        self, output: Sequence[Any], results: Sequence[ToolResult], listed: Iterable[Component]
    ) -> list[ProviderDefinition]:
        """Return the answers to the calls in what a model wrote, which announce the tools that became available.

        Tools that no result mentions, such as those of a group that a handler opened, are announced by the last result
        that is not an error; if there is none, by a later one.

        Args:
            output: What the model wrote.
            results: The results of its calls.
            listed: What is listed now.
        """
        if self._provider.in_messages:
            return self._in_messages(output, results, {component.name: component for component in listed})
        later = {component.name: component for component in listed if component.name not in self._first}
        mentioned = [_mentioned(result, later) for result in results]
        known = self._announced.keys() | {name for names in mentioned for name in names}
        for names, result in zip(reversed(mentioned), reversed(results), strict=True):
            if not result.is_error:
                names += [name for name in later if name not in known]
                break
        self._announce(name for names in mentioned for name in names)
        news = [[later[name] for name in names] for names in mentioned]
        return self._provider.answers(self._answered(output, results, news), (), ())

    def _in_messages(
        self, output: Sequence[Any], results: Sequence[ToolResult], listed: Mapping[str, Component]
    ) -> list[ProviderDefinition]:
        """Return answers and a message of what has changed since the last one, whatever changed it.

        Nothing may follow what a model wrote without calls but a message of the user.
        """
        if output and not results:
            return []
        known = {**self._first, **self._announced}
        added = [listed[name] for name in listed if name not in known or name in self._withdrawn]
        removed = [name for name in known if name not in listed and name not in self._withdrawn]
        if not self._provider.withdraws:
            removed = []
        self._withdrawn = (self._withdrawn | {*removed}) - listed.keys()
        self._announce(listed)
        calls = self._answered(output, results, [added] * len(results))
        return self._provider.answers(calls, added, [self._names.to_wire(name) for name in removed])

    def _answered(
        self, output: Iterable[Any], results: Iterable[ToolResult], news: Iterable[Sequence[Component]]
    ) -> Iterator[Answered]:
        for call, result, new in zip(calls_of(output), results, news, strict=True):
            yield call, without_schemas(result, self._names.to_wire, new), new

    def _update(self, catalog: Catalog) -> None:
        if catalog is self._catalog:
            return
        self._catalog = catalog
        for path in catalog.openers:
            if len(self._names.to_wire(path)) <= self._names.max_length:
                self._groups[path] = catalog.group(path).description or path
        in_order = sorted(catalog.tools.values(), key=lambda one: (catalog.index.get(one.group or "", -1), one.name))
        for component in in_order:
            if self._names.has_name(component.name) and not component.never_listed:
                self._declared[component.name] = component


def _mentioned(result: ToolResult, listed: Mapping[str, Component]) -> list[str]:
    """Return the tools that a result of the library says can be called."""
    if result.is_error or result.about is None:
        return []
    return [component.name for component in result.about.tools if component.name in listed]


def strings(value: Any, fault: str) -> tuple[str, ...]:
    """Return a list of strings as a tuple, or raise `HandleInvalid` with what is wrong with the conversation."""
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in cast("list[Any]", value)):
        raise HandleInvalid(f"The conversation can't be restored: its {fault}.")
    return tuple(cast("list[str]", value))
