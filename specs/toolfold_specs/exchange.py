"""What clients and a server sent one another: the evidence of a finding over MCP, with the server's own names (CNF-11).

A `Transcript` has the messages of all connections to a server since it last began. An `Exchange` is what of them shows
one finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen

RequestKey: TypeAlias = tuple[int, str | int]
"""Which request is meant: the number of its client, and its id."""


def _messages(values: Sequence[Message]) -> tuple[Message, ...]:
    return tuple(values)


@frozen
class Message:
    """A message of JSON-RPC from or to a client, which is known by a number."""

    client: int
    is_sent: bool
    """Whether the client sent it."""
    content: Mapping[str, Any]

    @property
    def place(self) -> RequestKey | None:
        """The request of a client that it is, or answers; None if it is a notification, or about another request."""
        number = self.content.get("id")
        return None if number is None or self.is_sent != ("method" in self.content) else (self.client, number)

    def renumbered(self, number: int) -> Message:
        """Return it with another id."""
        return evolve(self, content={**self.content, "id": number})


@frozen
class Exchange:
    """The messages that show a finding, and the address of the server."""

    address: str | tuple[str, ...]
    """The URL, or the words of the command that starts the server."""
    messages: tuple[Message, ...] = field(converter=_messages)
    evidence: frozenset[RequestKey] = frozenset()
    """The requests that matter: those whose answers show the finding, and those that change what is answered later."""
    is_confirmed: bool | None = None
    """Whether another client was answered in the same way; None if that was not tried."""

    @property
    def clients(self) -> int:
        """The number of clients."""
        return len({one.client for one in self.messages})

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        return {
            "address": self.address if isinstance(self.address, str) else [*self.address],
            "confirmed": self.is_confirmed,
            "messages": [{"client": one.client, "sent": one.is_sent, "content": one.content} for one in self.messages],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exchange:
        """Return the exchange in the JSON data of `to_json`; what of it is evidence is not known."""
        address: str | list[str] = data["address"]
        messages = [Message(one["client"], one["sent"], one["content"]) for one in data["messages"]]
        return cls(address if isinstance(address, str) else tuple(address), messages, is_confirmed=data["confirmed"])

    def essential(self) -> Exchange:
        """Return it without the requests that do not matter, and those that do numbered from 1 for each client."""
        kept = [one for one in self.messages if one.place is None or one.place in self.evidence]
        counts: Counter[int] = Counter()
        numbers: dict[RequestKey, int] = {}
        for place in (one.place for one in kept if one.is_sent and one.place is not None):
            counts[place[0]] += 1
            numbers[place] = counts[place[0]]
        messages = [one if one.place is None else one.renumbered(numbers[one.place]) for one in kept]
        evidence = frozenset((place[0], numbers[place]) for place in self.evidence if place in numbers)
        return evolve(self, messages=messages, evidence=evidence)

    def overlaps(self) -> bool:
        """Return whether a request was sent before an earlier one was answered."""
        waiting: set[RequestKey] = set()
        for one in self.messages:
            if one.place is not None and one.is_sent and waiting:
                return True
            waiting ^= {one.place} if one.place is not None else set()
        return False


@define(eq=False)
class Transcript:
    """The messages of all connections to a server since `begin`, and those that opened the connections."""

    _numbers: count[int] = field(factory=count)
    _opening: dict[int, list[tuple[bool, Any]]] = field(factory=dict[int, list[tuple[bool, Any]]])
    _sent: list[tuple[int, bool, Any]] = field(factory=list[tuple[int, bool, Any]])
    _kept: set[RequestKey] = field(factory=set[RequestKey])

    def connect(self) -> tuple[int, Callable[[bool, Any], None]]:
        """Return the number of another client, and what records a message: whether it is sent, and the SDK's object."""
        client = next(self._numbers)
        return client, lambda is_sent, message: self._sent.append((client, is_sent, message))

    def opened(self, client: int) -> None:
        """Note that what a client sent and received so far has opened its connection."""
        self._opening[client] = [(is_sent, message) for one, is_sent, message in self._sent if one == client]
        self._sent = [one for one in self._sent if one[0] != client]

    def begin(self, connected: Collection[int]) -> None:
        """Discard all messages but those that opened connections which are still there."""
        self._opening = {client: self._opening[client] for client in self._opening if client in connected}
        self._sent, self._kept = [], set()

    def keep(self) -> None:
        """Note that the last request matters."""
        self._kept.update(self._requests()[-1:])

    def exchange(self, address: str | tuple[str, ...]) -> Exchange:
        """Return the messages so far; without `keep`, every call matters, and in any case the last request."""
        sent = [_message(*one) for one in tuple(self._sent)]
        number = {client: new for new, client in enumerate(dict.fromkeys(one.client for one in sent))}
        opening = [_message(client, *one) for client in number for one in self._opening.get(client, ())]
        shaking = {one.place for one in opening if one.content.get("method") == "initialize"}
        calls = {one.place for one in sent if one.is_sent and one.content.get("method") == "tools/call"}
        matters = {*shaking, *(self._kept or calls), *self._requests()[-1:]} - {None}
        messages = [evolve(one, client=number[one.client]) for one in (*opening, *sent)]
        return Exchange(address, messages, frozenset((number[place[0]], place[1]) for place in matters if place))

    def _requests(self) -> list[RequestKey]:
        """Return the requests of clients, in the order in which they were sent."""
        sent = (_message(*one) for one in self._sent if one[1])
        return [one.place for one in sent if one.place is not None]


def _message(client: int, is_sent: bool, message: Any) -> Message:
    return Message(client, is_sent, message.model_dump(by_alias=True, mode="json", exclude_unset=True))
