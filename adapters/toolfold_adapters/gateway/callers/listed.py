"""What each caller is listed at a server that he uses as himself (SPEC GWY-19, ISO-1).

What one caller is listed is nobody else's to see, unless the server, or the configuration, says that it is the same for
all. A gateway has one catalog; it has what any caller was listed, and each is offered what he was listed himself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold.spi import KINDS, Kind

from ..upstream.definitions import Definitions, merged

Item = tuple[Kind, str]


class ListedByCaller:
    """The lists of the callers of one server, by whose they are (see `whose`)."""

    def __init__(self) -> None:
        self._lists: dict[str, Definitions] = {}
        self._own: dict[str, Mapping[Item, Any]] = {}
        self._all = Definitions(by_caller=True)
        self._registered: Mapping[Item, Any] = {}

    def __contains__(self, whose: object) -> bool:
        return whose in self._lists

    def take(self, whose: str, definitions: Definitions | None) -> Definitions:
        """Take what a caller is listed now, or that he has logged out; return what all are, without its texts."""
        self._lists.pop(whose, None)
        self._own.pop(whose, None)
        if definitions is not None:
            same = next((one for one in self._lists.values() if one == definitions), definitions)
            self._lists[whose], self._own[whose] = same, _items(same)
        everything = Definitions(by_caller=True)
        for one in {id(one): one for one in self._lists.values()}.values():
            everything = merged(one, None, everything)  # of two definitions of one name, that which came first
        texts: dict[str, Any] = {kind: getattr(everything, f"{kind}s") for kind in KINDS}
        self._all = Definitions(by_caller=True, **{f"{kind}s": of for kind, of in texts.items()})
        self._registered = _items(self._all)
        return self._all

    def offers(self, whose: str, item: Item) -> bool:
        """Return whether a caller was listed something, and as it is registered."""
        mine = self._own.get(whose, {}).get(item)
        return mine is not None and mine == self._registered.get(item)


def _items(definitions: Definitions) -> dict[Item, Any]:
    return {(kind, name): one for kind in KINDS for name, one in definitions.by_name(kind).items()}
