"""Search: which tools a session may find, what opens them, and their order for a query (SPEC FND-1, FND-2).

A session may find what it can call, and what it could call once it had opened groups with the library's own control
tools; `visibility` decides both. Nothing else has a say in an answer: the index is made of what may be found, so that
not even the weight of a word reveals a tool that the session must not know of (SPEC CALL-1).

How texts are ranked is up to a `Ranker`. The core has none: a good one needs a library (`toolfold_adapters.search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from .._catalog.catalog import Catalog
from .._catalog.components import Component
from .._catalog.rules import groups_of, required_groups
from .._memo import Memo
from .._names import PREFIXED, SEPARATOR, ToWire, ancestors, base_name
from .._plain import table
from .._values import frozen
from ..errors import QuotaExceeded, ToolfoldError
from ..machine import TransitionRequest, restore
from .intent import FILLERS, READ, asked_by, done_by, intent_of, meaning_of, words_of
from .visibility import RequestView, available, is_listed, render

MAX_DEPTH = 4
"""How many levels of a schema are searched."""


@frozen(cache_hash=True)
class SearchDocument:
    """The texts of one tool that a search looks at.

    Attributes:
        name: The full name of the tool, which a ranking names it by.
        title: The name that people see, or `""`.
        description: What the model reads.
        parameters: Names and descriptions of the parameters.
        groups: Paths, titles and descriptions of the groups that the tool is in.
    """

    name: str
    title: str = ""
    description: str = ""
    parameters: str = ""
    groups: str = ""


@frozen
class Ranked:
    """The names of the tools that match a query, the best first, with how they were ranked.

    Attributes:
        names: The names.
        by: What ranked them, such as `words`: the answer of `find_tools` says so.
        clear: Whether the first fits so much better than the others that it is most likely the one.
        doubtful: Whether not even the first fits for certain: there may be no tool for the query.
    """

    names: tuple[str, ...]
    by: str = ""
    clear: bool = False
    doubtful: bool = False

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)


Ranking = Callable[[str], Iterable[str]]
"""Returns the names of the tools that match a query, the best first: a `Ranked`, or any others.

It is called from several threads at once.
"""

Ranker = Callable[[Sequence[SearchDocument]], Ranking]
"""Makes the index of some tools. Equal documents and queries must give equal rankings (SPEC FND-2)."""


@frozen(eq=False)
class Found:
    """A tool that a session may find.

    Attributes:
        component: The tool as the session is listed it, or would be listed it.
        wanted: The groups that a transition names to open it, ancestors first: of those that it needs, all that the
            session can open. Those that are active are among them, so that the transition does not take them away.
        closed: Those of them that are not active; none if the tool is available now.
    """

    component: Component
    wanted: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


@frozen(eq=False)
class Findings:
    """The tools that fit a query best, with what ranked them.

    Attributes:
        found: The tools, the best first.
        by: What ranked them, or `""`; see `Ranked`.
        sure: Why the first is most likely the one, as the end of a sentence on it; `""` if it may well be another.
        doubtful: Whether none of them fits for certain.
    """

    found: tuple[Found, ...] = ()
    by: str = ""
    sure: str = ""
    doubtful: bool = False


_FINDABLE = Memo[None, tuple[Found, ...]](most=1)


def findable(view: RequestView) -> tuple[Found, ...]:
    """Return all tools that a session may find, in ascending order of name: neither hidden nor out of its reach."""
    snapshot = view.snapshot
    components = snapshot.catalog.components["tool"]
    if components.changing:
        return tuple(_findable(components.by_name, view))
    return _FINDABLE.of(snapshot.memo, None, lambda: tuple(_findable(components.by_name, view)))


def _findable(by_name: Mapping[str, Component], view: RequestView) -> Iterator[Found]:
    reach = _Reach(view)
    for name in sorted(by_name):
        component = by_name[name]
        if component.control is not None or component.hidden is True:
            continue
        if available(component, view):
            if is_listed(component, view):
                yield Found(render(component, view), reach.wanted(component))
        elif (found := reach.find(component)) is not None:
            yield found


def opened_for(name: str, view: RequestView) -> tuple[str, ...]:
    """Return the groups to open for a tool to be available, if no hook and no exclusion is concerned.

    There are none either if others would have to be closed to make room.

    SPEC DEL-12.
    """
    snapshot, catalog = view.snapshot, view.snapshot.catalog
    component = catalog.tools.get(name)
    if component is None or component.control is not None or component.hidden is True or available(component, view):
        return ()
    found = _Reach(view).find(component)
    excluding = frozenset[str]().union(*catalog.exclusions)
    if found is None or any(path in excluding or catalog.group(path).has_hooks for path in found.closed):
        return ()
    try:
        after = snapshot.after(TransitionRequest(activate=found.wanted))
    except QuotaExceeded:
        return ()
    return found.wanted if set(snapshot.active) <= set(after.active) else ()


class _Reach:
    """What a session could open from the state of one view."""

    def __init__(self, view: RequestView) -> None:
        self._view = view
        self._forest = view.snapshot.catalog.forest
        self._openable = view.snapshot.catalog.openable
        self._opened: dict[int, RequestView | None] = {}

    def find(self, component: Component) -> Found | None:
        """Return a tool that is not available now, with the groups that make it so; `None` if opening does not help."""
        forest, active = self._forest, self._view.snapshot.configuration.active
        required = required_groups(component.rule)
        for paths in [required] if required else [[path] for path in sorted(groups_of(component.rule))]:
            needed = self._with_ancestors(paths)
            view = self._after_opening(needed) if needed & ~active else None
            if view is not None and is_listed(component, view):
                wanted = forest.named(needed & self._openable)
                return Found(render(component, view), wanted, forest.named(needed & ~active))
        return None

    def wanted(self, component: Component) -> tuple[str, ...]:
        """Return the groups that a transition names so that a tool which is available stays so."""
        return self._forest.named(self._with_ancestors(required_groups(component.rule)) & self._openable)

    def _with_ancestors(self, paths: Iterable[str]) -> int:
        """Return groups and those that they are in as a bit set; nothing if one of them does not exist."""
        forest, mask = self._forest, 0
        for path in paths:
            if path not in forest.index:
                return 0
            mask |= forest.ancestors[forest.index[path]] | 1 << forest.index[path]
        return mask

    def _after_opening(self, needed: int) -> RequestView | None:
        """Return the view after opening some groups, a bit set, or `None` if the session can't."""
        if needed not in self._opened:
            self._opened[needed] = self._open(needed)
        return self._opened[needed]

    def _open(self, needed: int) -> RequestView | None:
        snapshot = self._view.snapshot
        if needed & ~(snapshot.configuration.active | self._openable):
            return None
        try:
            after = snapshot.after(TransitionRequest(activate=self._forest.named(needed & self._openable)))
        except QuotaExceeded:  # it can be opened once others are closed
            after = snapshot.at(restore(self._forest, self._forest.named(needed)).after)
        except ToolfoldError:
            return None
        return self._view.of(after)


# -- ranking ----------------------------------------------------------------------------------------------------------


@frozen(eq=False)
class Search:
    """The search of one request: run it in any thread, for it only looks at values.

    `offered` is what the session may find, and `to_wire` maps a tool's name to the one that the caller knows.
    """

    catalog: Catalog
    ranker: Ranker
    offered: tuple[Found, ...]
    to_wire: ToWire

    def best(self, query: str, limit: int) -> Findings:
        """Return the tools that match a query best: first those that it names, the closest first (SPEC FND-5).

        The ranking decides between names that are equally close, and on all the others. Where a query asks to read,
        and no tool has its very words for a name, what reads comes before what writes (SPEC FND-6).
        """
        if not self.offered:
            return Findings()
        answered = self._ranking(query)
        how = answered if isinstance(answered, Ranked) else Ranked(())
        ranked = [name for name in dict.fromkeys(answered) if name in self._by_name]
        places = {name: place for place, name in enumerate(ranked)}
        closeness, asked = closeness_to(query), asked_by(query)
        named = {
            name: min(found)
            for name, (_, known) in self._by_name.items()
            if (found := [close for one in known if (close := closeness(one)) is not None])
        }

        def writing(name: str) -> bool:
            return asked == _READS and writes(self._by_name[name][0].component)

        def order(name: str) -> tuple[Any, ...]:
            rule, others = named[name]
            return rule, others, places.get(name, len(places)), name

        by_name = sorted(named, key=order)
        behind = [name for name in by_name if named[name][0] >= _WORDS and writing(name)]
        rest = [*behind, *(name for name in ranked if name not in named)]
        among = len(behind) + REORDERED
        rest[:among] = sorted(rest[:among], key=writing)
        names = [*(name for name in by_name if name not in behind), *rest]
        sure = _NAMED if _is_certain([*named.values()]) else _AHEAD if how.clear and names[:1] == ranked[:1] else ""
        best = tuple(self._by_name[name][0] for name in names[:limit])
        return Findings(best, how.by, sure, how.doubtful and not named)

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[Found, tuple[_Name, ...]]]:
        """What may be found, with the names that a query may have for it."""
        return {
            one.component.name: (one, tuple(map(_Name.of, {one.component.name, self.to_wire(one.component.name)})))
            for one in self.offered
        }

    @cached_property
    def _ranking(self) -> Ranking:
        """The index of what may be found, made once for equal documents."""
        documents = tuple(_document(self.catalog, one.component) for one in self.offered)
        return _RANKINGS.of(self.catalog.memo, documents, lambda: self.ranker(documents))


_SEARCHES = Memo[ToWire, Search](most=4)
_RANKINGS = Memo[tuple[SearchDocument, ...], Ranking](most=8)
"""The indexes of a catalog: one, unless predicates let sessions find different tools."""
_DOCUMENTS = Memo[Component, SearchDocument](most=10_000)


def search_of(view: RequestView, ranker: Ranker) -> Search:
    """Return the search of a request; it is made once for a state in which no predicate has a say.

    A tool set has one ranker, so the indexes of its catalog are all of that one.
    """
    snapshot = view.snapshot

    def made() -> Search:
        return Search(snapshot.catalog, ranker, findable(view), view.to_wire)

    if snapshot.catalog.components["tool"].changing:
        return made()
    return _SEARCHES.of(snapshot.memo, view.to_wire, made)


def _document(catalog: Catalog, component: Component) -> SearchDocument:
    """Return the texts of a tool, collected once for each definition of it."""
    if component.origin is not None:
        return _read(catalog, component)
    return _DOCUMENTS.of(catalog.memo, component, lambda: _read(catalog, component))


def _read(catalog: Catalog, component: Component) -> SearchDocument:
    path = component.group
    paths = () if path is None else (*ancestors(path), path)
    groups = [catalog.group(path) for path in paths if path in catalog.index]
    return SearchDocument(
        name=component.name,
        title=component.title or "",
        description=component.description,
        parameters="\n".join(_texts(component.input_schema)),
        groups="\n".join(text for group in groups for text in (group.path, group.title, group.description) if text),
    )


def _texts(schema: Any, depth: int = MAX_DEPTH) -> Iterator[str]:
    """Yield the names and descriptions of the parameters of a schema, and of what is in them."""
    found = table(schema)
    if found is None or depth == 0:
        return
    for name, inner in (table(found.get("properties")) or {}).items():
        yield name
        described = (table(inner) or {}).get("description")
        if isinstance(described, str):
            yield described
        yield from _texts(inner, depth - 1)
    yield from _texts(found.get("items"), depth - 1)


def to_state(found: Iterable[Found], view: RequestView) -> tuple[Found, ...]:
    """Return found tools as they stand in another view of the same session, in their order."""
    now = {one.component.name: one for one in findable(view)}
    return tuple(now.get(one.component.name, one) for one in found)


def unsearched(view: RequestView) -> dict[str, str]:
    """Return the topmost groups that a session can open and of which it can find no tool, each with a text on it.

    A gateway has such a group for a server of which nothing is known yet; the text is the reason, where there is one.
    """
    catalog = view.snapshot.catalog
    searched = {path for one in findable(view) if (path := one.component.group) is not None}
    searched |= {above for path in searched for above in ancestors(path)}
    openable = set(catalog.forest.named(catalog.openable))
    return {
        group.path: withheld[1] if (withheld := catalog.why_withheld(group.path)) else group.description
        for group in catalog.groups
        if group.parent is None and group.path in openable and group.path not in searched
    }


# -- which tools a query names ----------------------------------------------------------------------------------------


_READS = frozenset[str | None]({READ})
_READING = (_READS, _READS | {None})
"""What a query asks for that asks to read, and for no change."""

REORDERED = 10
"""Among how many of a ranking what reads comes before what writes; what comes later fits the words less."""

_WORDS = 4
"""From which rule of `closeness_to` on a tool is not named for certain."""

_PLURAL = 4
"""How long a word is at least whose last letter may be the `s` of a plural."""

_NAMED = "has the name that was asked for"
_AHEAD = "is far ahead of the others"

Closeness = tuple[int, int]
"""The smaller, the closer: which of the rules holds, and how many words of the name are not in the query."""


@frozen
class _Name:
    """A name as queries are compared with it: as it is written, in words, and by their meaning; see `_meanings`.

    `base` is what it is without the name of a server or group.
    """

    plain: str
    whole: tuple[str, ...]
    base: tuple[str, ...]
    folded: frozenset[str]
    base_folded: frozenset[str]
    meanings: frozenset[str]
    base_meanings: frozenset[str]

    @classmethod
    def of(cls, name: str) -> _Name:
        whole, base = words_of(name), words_of(base_name(name))
        return cls(_plain(name), whole, base, _folded(whole), _folded(base), _meanings(whole), _meanings(base))


def closeness_to(query: str) -> Callable[[_Name], Closeness | None]:
    """Return what says how closely a name is that of a query: `None` if it is not, or lacks a word of the query.

    The name itself comes before one that differs by a prefix, that before one with the same words, those before one
    of several words that is written as one in a longer query, and all of them before names that have the words of the
    query and others; last are those that have them but for a verb of the same meaning. Articles and other words that
    say nothing do not count.
    """
    asked = _plain(query.strip(" \t\r\n`'\""))
    words = words_of(query)
    written = {parts for part in query.split() for one in (part, base_name(part)) if len(parts := words_of(one)) > 1}
    telling = tuple(word for word in words if word not in FILLERS)
    wanted, meanings = _folded(telling), _meanings(telling)

    def closeness(name: _Name) -> Closeness | None:
        if name.plain == asked:
            return 0, 0
        if asked and (name.plain.endswith(PREFIXED + asked) or asked.endswith(PREFIXED + name.plain)):
            return 1, 0
        if words and not {words, telling}.isdisjoint((name.base, name.whole)):
            return 2, 0
        if not written.isdisjoint((name.base, name.whole)):
            return 3, 0
        if wanted and wanted <= name.folded:
            return _WORDS, len(name.base_folded - wanted)
        if meanings and meanings <= name.meanings:
            return _WORDS + 1, len(name.base_meanings - meanings)
        return None

    return closeness


def _is_certain(named: Sequence[Closeness]) -> bool:
    """Return whether a query names one tool for certain, and no other as closely."""
    closest = min(named, default=(_WORDS, 0))
    return closest[0] < _WORDS and named.count(closest) == 1


def writes(component: Component) -> bool:
    """Return whether a tool does anything else than to read, as far as its verb and annotations say."""
    return _does(component) not in (READ, None)


def names(query: str, component: Component, to_wire: ToWire) -> bool:
    """Return whether a query names a tool, by all of its words or all of its own, or asks for the change it makes.

    SPEC FND-6.
    """
    closeness, own = closeness_to(query), _Name.of(component.name)
    return (
        any(closeness(one) is not None for one in (own, _Name.of(to_wire(component.name))))
        or (writes(component) and _does(component) in asked_by(query))
        or (bool(own.base_meanings) and own.base_meanings <= _meanings(words_of(query)))
    )


def objection(query: str, found: Found, view: RequestView) -> str:
    """Return why a search with a query does not open the groups of a tool, as a clause; `""` if nothing is against it.

    For a query that asks to read, what writes is opened only if the query names it; and so is, for any, what would
    close others by an exclusion (SPEC FND-6).
    """
    component, snapshot = found.component, view.snapshot
    if names(query, component, view.to_wire):
        return ""
    if writes(component) and asked_by(query) in _READING:
        return f"{view.to_wire(component.name)} may change things, which the query does not name"
    closing = [
        path
        for path in snapshot.active
        if any(path in one and not one.isdisjoint(found.closed) for one in snapshot.catalog.exclusions)
    ]
    closes = f"opening {found.closed[-1]} would close {', '.join(closing)}, which the query does not name"
    return closes if closing else ""


def _does(component: Component) -> str | None:
    return done_by(words_of(base_name(component.name)), component.definition)


def _meanings(words: Sequence[str]) -> frozenset[str]:
    """Return words with one for all verbs of the same meaning; nothing if there are only verbs."""
    return frozenset() if all(map(intent_of, words)) else _folded(map(meaning_of, words))


def _plain(name: str) -> str:
    return name.casefold().replace(SEPARATOR, PREFIXED)


def _folded(words: Iterable[str]) -> frozenset[str]:
    """Return words without the `s` of the plural, which names and queries use as they please."""
    return frozenset(word[:-1] if len(word) >= _PLURAL and word.endswith("s") else word for word in words)
