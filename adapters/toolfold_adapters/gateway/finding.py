"""Which server a resource is of that no list has under its URI (SPEC GWY-1, SAF-1)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from os.path import commonprefix

from toolfold.spi import Kind, frozen, table

from .grouping import Placed
from .spelling import Spellings
from .views import callable_by_views, views_named


class Finder:
    """What a layout has, found by a URI without looking at all of it; made once for a layout, which takes long.

    Args:
        components: Its components.
        called: Those that views may call, if there are more.
    """

    def __init__(self, components: Iterable[Placed], called: Iterable[Placed] | None = None) -> None:
        names: dict[str, list[str]] = {"resource": [], "resource_template": []}
        beginnings: defaultdict[str, list[str]] = defaultdict(list)
        self._naming: defaultdict[str, list[Placed]] = defaultdict(list)
        self._of_views: defaultdict[str, list[Placed]] = defaultdict(list)
        components = [*components]
        for one in components:
            if one.kind in names:
                names[one.kind].append(one.name)
                beginnings[one.server].append(one.name.partition("{")[0])
            elif one.kind == "tool":
                for uri in views_named({"_meta": {**(table(one.definition.get("_meta")) or {}), **one.meta}}):
                    if isinstance(uri, str):
                        self._naming[uri].append(one)
        tools = [one for one in (components if called is None else called) if one.kind == "tool"]
        with_views = {one.server for one in tools if views_named(one.definition)}
        for one in tools:
            if one.server in with_views and callable_by_views(one):
                self._of_views[one.original].append(one)
        self._names = {kind: frozenset(those) for kind, those in names.items()}
        self.spellings = Spellings(names["resource"], names["resource_template"])
        self._beginnings = {server: sorted(those) for server, those in beginnings.items()}

    def naming(self, uri: str) -> list[Placed]:
        """Return the tools that name a resource as their view."""
        return self._naming.get(uri, [])

    def called_by_views(self, name: str) -> list[Placed]:
        """Return the tools that views may mean by a name, which is what their servers call them."""
        return self._of_views.get(name, [])

    def nearest(self, uri: str, serves: Callable[[str], bool]) -> str | None:
        """Return the server with the resource or template that begins most like a URI, with its scheme.

        It is one of those that `serves` is true of.
        """
        return _most_alike(uri, self.alike(uri), serves)

    def alike(self, uri: str) -> Iterator[tuple[str, int]]:
        """Yield each server with how many characters of a URI something of it begins with."""
        for server, beginnings in self._beginnings.items():
            place = bisect_left(beginnings, uri)  # what begins most like it is next to its own place
            near = beginnings[max(0, place - 1) : place + 1]
            yield server, max(len(commonprefix([uri, one])) for one in near)  # noqa: RUF071 (these are not paths)

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether a resource or template is among its components."""
        return name in self._names.get(kind, ())


@frozen
class Finders:
    """What a caller may be listed, found by a URI: what all may be, and what he is listed himself (SPEC ISO-1)."""

    parts: tuple[Finder, ...]

    def has(self, kind: Kind, name: str) -> bool:
        """Return whether he may be listed a resource or template."""
        return any(one.has(kind, name) for one in self.parts)

    def resources(self, uri: str) -> list[str]:
        """Return the resources that a URI may be a spelling of."""
        return [name for one in self.parts for name in one.spellings.resources(uri)]

    def templates(self, uri: str) -> list[str]:
        """Return the templates that a URI begins as."""
        return [name for one in self.parts for name in one.spellings.templates(uri)]

    def naming(self, uri: str) -> list[Placed]:
        """Return the tools that name a resource as their view."""
        return [tool for one in self.parts for tool in one.naming(uri)]

    def nearest(self, uri: str, serves: Callable[[str], bool]) -> str | None:
        """Return the server with the resource or template that begins most like a URI; see `Finder.nearest`."""
        return _most_alike(uri, chain.from_iterable(one.alike(uri) for one in self.parts), serves)


def _most_alike(uri: str, servers: Iterable[tuple[str, int]], serves: Callable[[str], bool]) -> str | None:
    found, most = None, uri.find(":")
    for server, alike in servers:
        if alike > most and serves(server):
            found, most = server, alike
    return found
