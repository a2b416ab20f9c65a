"""Mutants of the library, each of which has one caller learn one thing of another.

A mutant is a context manager: the leak is there while its block runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch
from weakref import WeakSet

from attrs import evolve

import toolfold
from toolfold import QuotaExceeded, SearchDocument, Session, ToolError
from toolfold_adapters.gateway.serving.downstream import Clients, DownstreamClient

from . import deliveries
from .deliveries import Core, Gateways, Mcp
from .relation import Delivery

Mutant = Callable[[], AbstractContextManager[None]]

MOST = 1
"""How many groups may be open in all sessions together, where that is limited."""


@contextmanager
def open_sessions() -> Generator[WeakSet[Session]]:
    """Yield the sessions that were started while the block runs."""
    started = WeakSet[Session]()
    right = Session.start

    async def start(self: Session) -> Session:
        started.add(self)
        return await right(self)

    with patch.object(Session, "start", start):
        yield started


def open_elsewhere(started: WeakSet[Session], session: Session | None = None) -> list[str]:
    """Return the groups that are open in other sessions."""
    return sorted(path for one in started if one is not session and one.is_open for path in one.active)


@contextmanager
def word_in_a_search() -> Generator[None]:
    """A word weighs less, the more often anybody has asked for it."""
    asked = Counter[str]()

    def ranker(documents: Sequence[SearchDocument]) -> Callable[[str], list[str]]:
        texts = {one.name: f"{one.name} {one.description} {one.groups}".lower() for one in documents}

        def ranked(query: str) -> list[str]:
            words = query.split()
            weights = {
                name: sum(1 / (1 + asked[word]) for word in words if word in text) for name, text in texts.items()
            }
            asked.update(words)
            return sorted((name for name in weights if weights[name]), key=lambda name: (-weights[name], name))

        return ranked

    with patch.object(deliveries, "bm25", ranker):
        yield


@contextmanager
def limit_in_common() -> Generator[None]:
    """The groups of all sessions together are counted, where each session has its own limit."""
    right = Session.transition

    async def transition(self: Session, activate: Any = (), deactivate: Any = (), **more: Any) -> Any:
        if activate and len(open_elsewhere(started, self)) >= MOST:
            raise QuotaExceeded("groups", MOST, "close one")
        return await right(self, activate, deactivate, **more)

    with open_sessions() as started, patch.object(Session, "transition", transition):
        yield


@contextmanager
def notice_to_all() -> Generator[None]:
    """Whoever listens is notified when the list of any session changes."""
    listeners = list[tuple[Session, Callable[[frozenset[str]], None]]]()
    right, listen = Session.transition, Session.on_list_changed

    def on_list_changed(self: Session, callback: Any) -> Any:
        listeners.append((self, callback))
        return listen(self, callback)

    async def transition(self: Session, *given: Any, **more: Any) -> Any:
        change = await right(self, *given, **more)
        for session, callback in listeners if change else ():
            if session is not self and session.is_open:
                callback(frozenset({"tool"}))
        return change

    with patch.object(Session, "on_list_changed", on_list_changed), patch.object(Session, "transition", transition):
        yield


@contextmanager
def log_line_to_all() -> Generator[None]:
    """What a server logs for a call goes to all clients."""
    right = DownstreamClient.notify

    async def notify(self: DownstreamClient, method: str, params: Mapping[str, Any], calls: Any = ()) -> None:
        await right(self, method, params, calls)
        assert isinstance(self.among, Clients)
        for other in self.among._clients.values():  # pyright: ignore[reportPrivateUsage]
            if other is not self:
                await right(other, method, params)

    with patch.object(DownstreamClient, "notify", notify):
        yield


@contextmanager
def list_in_a_cache() -> Generator[None]:
    """The list that was made last is given again, for as long as whoever asks has made no transition."""
    cached = dict[Any, Any]()
    right, listed = Session.transition, Session.list

    def list_(self: Session, kind: Any, cursor: str | None = None) -> Any:
        if cursor is None:
            cached[kind] = cached.get(kind) or listed(self, kind)
            return cached[kind]
        return listed(self, kind, cursor)

    async def transition(self: Session, *given: Any, **more: Any) -> Any:
        cached.clear()
        return await right(self, *given, **more)

    with patch.object(Session, "list", list_), patch.object(Session, "transition", transition):
        yield


@contextmanager
def explanation_of_others() -> Generator[None]:
    """A reason says who else has a group open."""
    right = toolfold.explain

    def explain(view: Any, name: str) -> Any:
        reason = right(view, name)
        others = open_elsewhere(started).count(reason.group or name)
        return evolve(reason, text=f"{reason.text} It is open in {others} sessions.") if others > 1 else reason

    with open_sessions() as started, patch.object(deliveries, "explain", explain):
        yield


@contextmanager
def order_of_use() -> Generator[None]:
    """The tool that was called last, by anybody, comes first."""
    last = [""]
    right, listed = Session.call, Session.list

    async def call(self: Session, name: str, *given: Any, **more: Any) -> Any:
        last[0] = name
        return await right(self, name, *given, **more)

    def list_(self: Session, kind: Any, cursor: str | None = None) -> Any:
        page = listed(self, kind, cursor)
        return evolve(page, items=tuple(sorted(page.items, key=lambda one: (one.name != last[0], one.name))))

    with patch.object(Session, "call", call), patch.object(Session, "list", list_):
        yield


@contextmanager
def fact_of_all() -> Generator[None]:
    """A fact that is set in one session holds in all."""
    right = Session.set_fact

    def set_fact(self: Session, name: str, value: Any, **more: Any) -> None:
        for session in started:
            if session.is_open:
                right(session, name, value, **more)

    with open_sessions() as started, patch.object(Session, "set_fact", set_fact):
        yield


@contextmanager
def end_of_another() -> Generator[None]:
    """What ends a session closes the groups of all."""
    right = Session.close

    async def close(self: Session) -> None:
        for session in list(started):
            if session is not self and session.is_open:
                await session.transition(deactivate=session.active)
        started.discard(self)
        await right(self)

    with open_sessions() as started, patch.object(Session, "close", close):
        yield


@contextmanager
def error_of_another() -> Generator[None]:
    """An error names what was asked for before, by anybody."""
    last = [""]
    right = ToolError.__init__

    def init(self: Any, *given: Any) -> None:
        right(self, *given, f"after {last[0]}")

    async def call(self: Session, name: str, *given: Any, **more: Any) -> Any:
        try:
            return await called(self, name, *given, **more)
        finally:
            last[0] = name

    called = Session.call
    with patch.object(Session, "call", call), patch.object(ToolError, "__init__", init):
        yield


MUTANTS: Mapping[str, tuple[Mutant, Delivery]] = {
    "a word's weight in a search": (word_in_a_search, Core()),
    "a limit that counts the other": (limit_in_common, Core()),
    "a notice": (notice_to_all, Core()),
    "a notice over MCP": (notice_to_all, Mcp("legacy")),
    "a log line": (log_line_to_all, Gateways("legacy")),
    "a cache": (list_in_a_cache, Core()),
    "an explanation": (explanation_of_others, Core()),
    "an order": (order_of_use, Core()),
    "a fact": (fact_of_all, Core()),
    "the end of a session": (end_of_another, Core()),
    "an error": (error_of_another, Core()),
}
"""What leaks by each, and the delivery in which it shows."""
