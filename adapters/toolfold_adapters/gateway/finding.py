"""Which server a resource is of that no list has under its URI (SPEC GWY-1, SAF-1)."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable
from os.path import commonprefix

from toolfold.spi import table

from .grouping import Placed
from .spelling import Spellings
from .views import callable_by_views, views_named


class Finder:
    """What a layout has, found by a URI without looking at all of it; made once for a layout, which takes long.

    Args:
        components: Its components.
    """

    def __init__(self, components: Iterable[Placed]) -> None:
        names: dict[str, list[str]] = {"resource": [], "resource_template": []}
        beginnings: defaultdict[str, list[str]] = defaultdict(list)
        self._naming: defaultdict[str, list[Placed]] = defaultdict(list)
        self._of_views: defaultdict[str, list[Placed]] = defaultdict(list)
        components = [*components]
        with_views = {one.server for one in components if one.kind == "tool" and views_named(one.definition)}
        for one in components:
            if one.kind in names:
                names[one.kind].append(one.name)
                beginnings[one.server].append(one.name.partition("{")[0])
            elif one.kind == "tool":
                for uri in views_named({"_meta": {**(table(one.definition.get("_meta")) or {}), **one.meta}}):
                    if isinstance(uri, str):
                        self._naming[uri].append(one)
                if one.server in with_views and callable_by_views(one):
                    self._of_views[one.original].append(one)
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
        found, most = None, uri.find(":")
        for server, beginnings in self._beginnings.items():
            place = bisect_left(beginnings, uri)  # what begins most like it is next to its own place
            near = beginnings[max(0, place - 1) : place + 1]
            alike = max(len(commonprefix([uri, one])) for one in near)  # noqa: RUF071 (these are not paths)
            if alike > most and serves(server):
                found, most = server, alike
        return found
