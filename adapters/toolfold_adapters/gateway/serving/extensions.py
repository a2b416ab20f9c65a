"""Extensions of servers that a gateway knows nothing of: their methods and notifications (SPEC GWY-18).

A server declares an extension by an identifier, and nothing says which methods are of it. So what only one server
declares is declared to clients, and a method that nobody else answers goes to the server that it can be told to be for:
the only one with such extensions, or else the only one with one that is called as the method begins. It is refused
where that can't be told. `tools/resolve` names a tool, and goes to the server of that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from mcp_types import METHOD_NOT_FOUND
from mcp_types.methods import SPEC_CLIENT_METHODS, SPEC_CLIENT_NOTIFICATION_METHODS

from toolfold import ProtocolError
from toolfold.spi import enumerated, quoted, table

from ...names import GROUPS_EXTENSION, TOOLBOX_EXTENSION
from ..upstream.upstream import Upstream
from . import tasks

RESOLVE = "tools/resolve"
UI = "io.modelcontextprotocol/ui"
RESOLUTION = "io.modelcontextprotocol/tool-resolution"
OF_TOOLS = frozenset({UI, RESOLUTION})
"""Extensions of tools: any number of servers may have them, since what they are about names its server."""
OWN = frozenset({GROUPS_EXTENSION, TOOLBOX_EXTENSION, tasks.EXTENSION, "io.modelcontextprotocol/skills"})
"""Extensions that the gateway has itself, of its own or for all of its servers."""
PLACES = ("extensions", "experimental")
"""Where capabilities have extensions: the second one before there was the first."""


def _of(upstream: Upstream, place: str) -> Mapping[str, Any]:
    """Return the extensions that a server declares at a place and that the gateway does not have itself."""
    capabilities: Mapping[str, Any] = {} if upstream.known is None else upstream.known.capabilities
    declared = table(capabilities.get(place)) or {}
    return {name: settings for name, settings in declared.items() if name not in OWN}


def declared(upstreams: Sequence[Upstream]) -> dict[str, dict[str, Any]]:
    """Return the extensions that are declared to clients, by where: those of one server alone, and those of tools."""
    found: dict[str, dict[str, Any]] = {}
    for place in PLACES:
        each = [_of(upstream, place) for upstream in upstreams]
        counted = Counter(name for one in each for name in one)
        given = {name: settings for one in each for name, settings in one.items()}
        passed = {name: settings for name, settings in given.items() if counted[name] == 1 or name in OF_TOOLS}
        if passed:
            found[place] = passed
    return found


def with_declared(capabilities: Mapping[str, Any], more: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return capabilities with these extensions, too; those that are there already stay as they are."""
    merged = {place: {**named, **(table(capabilities.get(place)) or {})} for place, named in more.items()}
    return {**capabilities, **merged}


def is_foreign(method: str) -> bool:
    """Return whether a method is none of the protocol, and none of tasks."""
    if method in (*tasks.METHODS, tasks.LIST):
        return False
    return method not in SPEC_CLIENT_METHODS and method not in SPEC_CLIENT_NOTIFICATION_METHODS


def upstreams_for(method: str, upstreams: Iterable[Upstream]) -> list[Upstream]:
    """Return the servers that a method can be for: one, if that can be told, and none, if none has extensions."""
    extended = [upstream for upstream in upstreams if any(_names(upstream))]
    begins = _words(method.removeprefix("notifications/").partition("/")[0])
    named = [one for one in extended if any(begins & _words(name) for name in _names(one))]
    return named if named and len(extended) > 1 else extended


def ambiguous(method: str, upstreams: Sequence[Upstream]) -> ProtocolError:
    """Return the refusal of a method that several servers may answer."""
    names = enumerated([upstream.name for upstream in upstreams])
    why = "which one can't be told: a gateway, or a profile, with one of them answers it."
    return ProtocolError(METHOD_NOT_FOUND, f"{quoted(method)} may be for several servers ({names}), and {why}", method)


def _names(upstream: Upstream) -> Iterator[str]:
    return (name for place in PLACES for name in _of(upstream, place) if name not in OF_TOOLS)


def _words(name: str) -> set[str]:
    """Return what a method or an extension is called: its last part, and that without a plural."""
    last = re.sub(r"[^a-z0-9]", "", name.rpartition("/")[2].lower())
    return {last, last.removesuffix("s")} - {""}


def checked(answer: Mapping[str, Any], method: str) -> Mapping[str, Any]:
    """Return the answer to a foreign method, or raise `ProtocolError` if it asks for something first."""
    if answer.get("resultType") == "input_required":
        raise ProtocolError(-32603, f"The answer to {method} asks for something first, which is not passed on.")
    return answer
