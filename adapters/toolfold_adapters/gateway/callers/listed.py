"""What each caller is listed at a server that he uses as himself (SPEC GWY-19, ISO-1).

What one caller is listed is nobody else's to see, unless the server, or the configuration, says that it is the same for
all. A gateway has one catalog; it has the names of all that any caller was listed, and each is offered what he was
listed himself, as it was described to him.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold.spi import KINDS

from ..upstream.definitions import Definitions, merged

MOST = 2_000
"""How many callers' lists are known of one server: what a token is exchanged for is another's with each claim."""


class ListedByCaller:
    """The lists of the callers of one server, by whose they are (see `whose`)."""

    def __init__(self) -> None:
        self._lists: dict[str, Definitions] = {}

    def __contains__(self, whose: object) -> bool:
        return whose in self._lists

    @property
    def lists(self) -> Mapping[str, Definitions]:
        """What each caller is listed; equal lists are one."""
        return dict(self._lists)

    def of(self, whose: str) -> Definitions | None:
        """Return what a caller is listed, if that is known."""
        return self._lists.get(whose)

    def take(self, whose: str, definitions: Definitions | None) -> Definitions:
        """Take what a caller is listed now, or that he has logged out; return what all are, without its texts."""
        before = self._lists.pop(whose, None)
        if definitions is not None:
            known = (one for one in (before, *self._lists.values()) if one is not None)
            self._lists[whose] = next((one for one in known if one == definitions), definitions)
            if len(self._lists) > MOST:
                del self._lists[next(iter(self._lists))]  # who was listed it longest ago is asked again
        everything = Definitions(by_caller=True)
        for one in {id(one): one for one in self._lists.values()}.values():
            everything = merged(one, None, everything)  # who was listed a name first is of no matter
        texts: dict[str, Any] = {kind: getattr(everything, f"{kind}s") for kind in KINDS}
        return Definitions(by_caller=True, **{f"{kind}s": of for kind, of in texts.items()})
