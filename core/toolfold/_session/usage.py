"""What of a tool set is used: the one set of counters of reports, metrics, telemetry and the live page (SPEC EXP-3).

Calls are counted by tool, client and era, and by caller where callers are known; openings and closings by group;
searches, lists and refusals in all. Nothing of arguments, results or errors is recorded but sizes and times. Everything
is bounded: clients beyond `MAX_CLIENTS` and tools beyond `MAX_ROWS` are counted together, as `OTHERS`.

An opening was of use once a tool of its group is called in its session, and a search once a tool that it found is. The
requests of a protocol without sessions count as one session there, since nothing tells whose they are.

Durations are counted in buckets each 9 % wider than the last, so a percentile is within 4.5 % of the exact one,
and counts of several processes can be added up. That is a DDSketch; the packages that have one bring dependencies of
their own, and no form in JSON, for what is ten lines here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil, log2
from typing import Any

from attrs import asdict, define, field

from .._catalog.catalog import Catalog
from .._catalog.components import Component
from .._catalog.rules import enabling_groups
from .._memo import Memo
from .._plain import CHARACTERS_PER_TOKEN
from .._snapshot import Change
from .events import Called, Committed, Count, Event, Listed, Refused, SessionEnded, SessionOpened
from .observers import Observers
from .prefixes import Begun, Prefixes

MAX_CLIENTS, MAX_ROWS, MAX_SESSIONS = 100, 20_000, 10_000
OTHERS = "(others)"

_PER_OCTAVE = 8
_MICRO = 1e-6
_UNGROUPED = Memo[None, int](most=1)

Label = Callable[[Any], tuple[str, str]]
"""Returns the name of the client that made a request, and the era of its protocol."""
Who = Callable[[Any], str]
"""Returns who made a request, by name; `""` where nobody is known."""


@define
class Calls:
    """Calls of one tool by one client in one era, or sums of such.

    Attributes:
        calls: How many there were.
        errors: How many had an error result, or none.
        seconds: How long they took in all.
        tokens: About how many tokens their answers had in all.
        spread: How many took about how long: counts by bucket.
    """

    calls: int = 0
    errors: int = 0
    seconds: float = 0.0
    tokens: int = 0
    spread: Counter[int] = field(factory=Counter[int])

    def add(self, other: Calls) -> None:
        """Add others to these."""
        self.calls += other.calls
        self.errors += other.errors
        self.seconds += other.seconds
        self.tokens += other.tokens
        self.spread.update(other.spread)

    def percentile(self, share: float) -> float:
        """Return within how many seconds a share of the calls ended, such as 0.5; 0 without calls."""
        rank = ceil(share * self.calls)
        for bucket in sorted(self.spread):
            rank -= self.spread[bucket]
            if rank <= 0:
                return float(2 ** ((bucket + 0.5) / _PER_OCTAVE)) * _MICRO
        return 0.0


@define
class Openings:
    """How often a group was opened, how many of these openings a call of a tool in it followed, how often it closed."""

    opened: int = 0
    called: int = 0
    closed: int = 0


@define
class Searches:
    """How many searches there were, how many found nothing, and how many a call of what they found followed."""

    asked: int = 0
    empty: int = 0
    called: int = 0


@define
class Lists:
    """How many lists of tools were answered, about how many tokens they had, and would have had without groups."""

    lists: int = 0
    tokens: int = 0
    ungrouped: int = 0


class Usage:
    """The counters of a tool set; made by `ToolSet.count_usage`.

    Args:
        name: The name of the tool set.
        label: Returns the client and the era of the request that a call was received as, `None` in process.
        who: Returns who made that request.

    Attributes:
        callers: The calls by caller and tool, of those callers that are known.
        calls: The calls by tool, group, client and era; the group is `""` for tools in none, and control tools.
        groups: The openings by group.
        searches: The searches.
        lists: The lists of tools.
        prefixes: The prefixes of conversations that were broken, by the group that did, or what else (SPEC PFX-1).
        refused: How many calls found no tool, by the reason (SPEC EXP-1).
        sessions: How many sessions began.
        tools: The group of each tool that there is or was, without control tools.
    """

    def __init__(self, name: str, label: Label | None = None, who: Who | None = None) -> None:
        self.name = name
        self.who: Who = who or (lambda request: "")
        self.callers: dict[tuple[str, str], Calls] = {}
        self.label: Label = label or (lambda request: ("", "in process"))
        self.calls: dict[tuple[str, str, str, str], Calls] = {}
        self.groups: dict[str, Openings] = {}
        self.searches, self.lists = Searches(), Lists()
        self.prefixes: dict[str, Prefixes] = {}
        self.refused = Counter[str]()
        self.sessions = 0
        self.tools: dict[str, str] = {}
        self._rows: dict[tuple[str, str, str], Calls] = {}
        self._clients = set[str]()
        self._opened: dict[str, tuple[str, ...]] = {}  # what no call has followed: tuples, as there are many sessions
        self._opened_by_others = Counter[str]()
        self._begun: dict[str, Begun] = {}
        self._found: dict[str | None, tuple[str, ...]] = {}  # what the last search found, until a call follows

    # -- counting -----------------------------------------------------------------------------------------------------

    def _called(self, event: Called) -> None:
        """Count a call; without a result it was cancelled, or refused by the tool."""
        session, component, request, seconds, result = event
        client, era = self.label(request)
        rows = [self._rows.get((component.name, client, era)) or self._row(component, client, era)]
        if who := self.who(request):
            rows.append(self._of_caller(who, component.name))
        tokens = 0
        if result is not None:
            tokens = -(-sum([len(block.get("text", "")) for block in result.content]) // CHARACTERS_PER_TOKEN)
            if result.about is not None and result.about.ranked:
                self._searched(session, result.about.tools)
        if session in self._begun:
            self._begun[session].answered += tokens
        for row in rows:
            row.calls += 1
            row.seconds += seconds
            row.spread[int(log2(seconds / _MICRO) * _PER_OCTAVE) if seconds > _MICRO else 0] += 1
            row.errors += result is None or result.is_error
            row.tokens += tokens
        if self._found:
            self._followed_search(session, component.name)
        if component.control is None and (self._opened_by_others or self._opened.get(session)):
            self._followed_opening(session, component)

    def _listed(self, catalog: Catalog, event: Listed) -> None:
        """Count a page of a list of tools."""
        if event.begins:
            self.lists.lists += 1
            self.lists.ungrouped += _UNGROUPED.of(catalog.memo, None, lambda: ungrouped_tokens(catalog))
        self.lists.tokens += sum([item.tokens for item in event.items])

    def _led(self, event: Listed) -> None:
        """Count what a list breaks that a conversation begins with (SPEC PFX-1)."""
        begun = self._begun.get(event.session)
        if begun is None:
            if len(self._begun) >= MAX_SESSIONS:
                return
            begun = self._begun[event.session] = Begun()
        if (broken := begun.listed(event)) is not None:
            by, tokens = broken
            if by not in self.prefixes and len(self.prefixes) >= MAX_ROWS:
                by = OTHERS
            row = self.prefixes.setdefault(by, Prefixes())
            row.broken += 1
            row.tokens += tokens

    def listen(self, stream: Observers) -> None:
        """Count the events of a tool set from now on."""
        stream.add(self._called, (Called,))
        stream.add(self._observe, (Committed, SessionOpened, SessionEnded, Listed, Refused))

    def _observe(self, event: Event | Count) -> None:
        match event:
            case Listed(kind="tool"):
                if event.catalog is not None:
                    self._listed(event.catalog, event)
                if event.session and event.leads:
                    self._led(event)
            case Refused(why=why):
                self.refused[why] += 1
            case Committed(session, change):
                for path in change.activated:
                    self._openings(path).opened += 1
                for path in change.deactivated:
                    self._openings(path).closed += 1
                self._await(session, change)
                if session in self._begun:
                    self._begun[session].changed(change)
            case SessionOpened(session):
                self.sessions += 1
                self.follow(session)
            case SessionEnded(session):
                self._opened.pop(session, None)
                self._found.pop(session, None)
                self._begun.pop(session, None)
            case _:
                pass

    def follow(self, session: str) -> None:
        """Tell the openings and searches of a session from those of others."""
        if len(self._opened) < MAX_SESSIONS:
            self._opened.setdefault(session, ())

    def _row(self, component: Component, client: str, era: str) -> Calls:
        if client not in self._clients:
            if len(self._clients) >= MAX_CLIENTS:
                client = OTHERS
            self._clients.add(client)
        name, group = component.name, (component.group or "") if component.control is None else ""
        if len(self.calls) >= MAX_ROWS and (name, group, client, era) not in self.calls:
            name, group = OTHERS, ""
        found = self.calls.setdefault((name, group, client, era), Calls())
        if len(self._rows) < MAX_ROWS:
            self._rows[component.name, client, era] = found
        return found

    def _of_caller(self, who: str, tool: str) -> Calls:
        if len(self.callers) >= MAX_ROWS and (who, tool) not in self.callers:
            who, tool = OTHERS, OTHERS
        return self.callers.setdefault((who, tool), Calls())

    def _openings(self, path: str) -> Openings:
        if path not in self.groups and len(self.groups) >= MAX_ROWS:
            path = OTHERS
        return self.groups.setdefault(path, Openings())

    def _searched(self, session: str, found: tuple[Component, ...]) -> None:
        self.searches.asked += 1
        self.searches.empty += not found
        self._found[session if session in self._opened else None] = tuple([one.name for one in found])

    def _await(self, session: str, change: Change) -> None:
        """Note what a session has opened, so that a call of a tool there can follow it."""
        opened = self._opened.get(session)
        if opened is None:
            self._opened_by_others.update(change.activated)
            for path in change.deactivated:
                del self._opened_by_others[path]
        else:
            kept = [path for path in opened if path not in change.deactivated]
            self._opened[session] = (*kept, *change.activated)

    def _followed_search(self, session: str, name: str) -> None:
        """Count that a call followed what a session had found, once for each search."""
        for whose in (session, None):  # what searched for a session may have been a request
            if name in self._found.get(whose, ()):
                self.searches.called += 1
                del self._found[whose]

    def _followed_opening(self, session: str, component: Component) -> None:
        """Count that a call followed what a session had opened, once for each opening."""
        paths = {component.group, *enabling_groups(component.rule)}
        opened = self._opened.get(session, ())
        followed = [path for path in opened if path in paths]
        if followed:
            self._opened[session] = tuple([path for path in opened if path not in paths])
        if self._opened_by_others:
            by_others = [path for path in self._opened_by_others if path in paths]
            self._opened_by_others -= Counter(by_others)
            followed += by_others
        for path in followed:
            self._openings(path).called += 1

    # -- figures ------------------------------------------------------------------------------------------------------

    def know(self, catalog: Catalog) -> None:
        """Note the tools and groups that there are, so that a report can say which were not used."""
        for component in catalog.tools.values():
            if component.control is None and len(self.tools) < MAX_ROWS:
                self.tools[component.name] = component.group or ""
        for group in catalog.groups:
            self._openings(group.path)

    def by(self, *parts: int) -> dict[tuple[str, ...], Calls]:
        """Return the calls summed up by parts of their keys: 0 the tool, 1 the group, 2 the client, 3 the era."""
        sums: dict[tuple[str, ...], Calls] = {}
        for key, row in self.calls.items():
            sums.setdefault(tuple(key[part] for part in parts), Calls()).add(row)
        return sums

    def dump(self) -> dict[str, Any]:
        """Return the counters as a JSON value, for `add`."""
        return {
            "name": self.name,
            "calls": [[*key, *_numbers(row), _texts(row.spread)] for key, row in self.calls.items()],
            "groups": {path: asdict(each) for path, each in self.groups.items()},
            "searches": asdict(self.searches),
            "lists": asdict(self.lists),
            "prefixes": {by: asdict(each) for by, each in self.prefixes.items()},
            "refused": dict(self.refused),
            "sessions": self.sessions,
            "tools": self.tools,
            "callers": [[*key, *_numbers(row), _texts(row.spread)] for key, row in self.callers.items()],
        }

    def add(self, data: Mapping[str, Any], *, times: int = 1) -> None:
        """Add what `dump` returned, of this process or another one; `times=-1` takes it away again."""
        for tool, group, client, era, *numbers in data["calls"]:
            _add(self.calls.setdefault((tool, group, client, era), Calls()), numbers, times)
        for who, tool, *numbers in data.get("callers", ()):  # what was stored before has none
            _add(self.callers.setdefault((who, tool), Calls()), numbers, times)
        for path, each in data["groups"].items():
            _sum(self.groups.setdefault(path, Openings()), each, times)
        _sum(self.searches, data["searches"], times)
        _sum(self.lists, data["lists"], times)
        for by, each in data.get("prefixes", {}).items():  # what was stored before has none
            _sum(self.prefixes.setdefault(by, Prefixes()), each, times)
        self.refused.update({why: times * count for why, count in data["refused"].items()})
        self.sessions += times * data["sessions"]
        self.tools |= data["tools"]


def ungrouped_tokens(catalog: Catalog) -> int:
    """Return about how many tokens a list of a catalog's tools would have without groups."""
    tools = catalog.tools.values()
    return sum(one.tokens for one in tools if one.control is None and not one.never_listed)


def _numbers(row: Calls) -> Iterator[float]:
    yield from (row.calls, row.errors, row.seconds, row.tokens)


def _add(row: Calls, numbers: Sequence[Any], times: int) -> None:
    calls, errors, seconds, tokens, spread = numbers
    counts = Counter({int(bucket): times * count for bucket, count in spread.items()})
    row.add(Calls(times * calls, times * errors, times * seconds, times * tokens, counts))


def _texts(spread: Mapping[int, int]) -> dict[str, int]:
    return {str(bucket): count for bucket, count in sorted(spread.items())}


def _sum(counts: Openings | Searches | Lists | Prefixes, others: Mapping[str, int], times: int) -> None:
    for name, count in others.items():
        setattr(counts, name, getattr(counts, name) + times * count)
