"""`drafts`: what working groups draft for the protocol, to be tried. Experimental, and off unless asked for (SPEC 33).

Each draft is one module, and this table names them all: a draft that changes, or is given up, changes nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from mcp.server.lowlevel import Server

from toolfold import ConfigError
from toolfold.spi import enumerated, frozen

from ..handlers import RequestHandlers
from ..options import Extend
from .card import server_card
from .required import required_capabilities
from .resolution import tool_resolution
from .tags import Choice, definition_tags
from .ttl import unchanging


@frozen
class Draft:
    """A draft.

    Attributes:
        extend: Returns what adds it to a server, given its value.
        value: What its value is, or `""` if it has none.
        otherwise: The value unless one is given; `None` if one must be.
        only_http: Whether it is of a server over HTTP alone.
    """

    extend: Callable[[str], Extend]
    value: str = ""
    otherwise: str | None = ""
    only_http: bool = False


DRAFTS: Mapping[str, Draft] = {
    "requires": Draft(lambda _: required_capabilities),
    "resolve": Draft(lambda _: tool_resolution),
    "tags": Draft(lambda value: definition_tags(cast("Choice", value)), "CHOICE", "signal"),
    "ttl": Draft(unchanging, "SECONDS", None),
    "card": Draft(server_card, "NAME", None, only_http=True),
}
"""The drafts, by name, from the innermost: each sees the answers of those before it, in whatever order they are given.

A call is rejected for its tags before anything else is looked at, and `ttl` sees what others made of a list.
"""


def drafts(given: Iterable[str], also: Extend | None = None) -> Extend:
    """Return what adds drafts to a server, to be given to `build_server` as `extend` (SPEC NXT-1, NXT-2).

    Args:
        given: The drafts in any order, each as `NAME` or `NAME=VALUE`: `tags` or `tags=CHOICE`,
            `ttl=SECONDS`, `card=NAME`, `resolve`, and `requires`.
        also: What else extends the server, such as `Gateway.extend`; it comes first.

    Raises:
        ConfigError: There is no such draft, one is given twice, or its value is none.
    """
    chosen = {name: DRAFTS[name].extend(value) for name, value in values_of(given).items()}

    def extend(server: Server[Any], handlers: RequestHandlers) -> None:
        if also is not None:
            also(server, handlers)
        for name in DRAFTS:
            if name in chosen:
                chosen[name](server, handlers)

    return extend


def values_of(given: Iterable[str]) -> dict[str, str]:
    """Return the value of each draft that is given; raises `ConfigError`."""
    values: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if (draft := DRAFTS.get(name)) is None:
            raise ConfigError(f"There is no draft {name!r}; they are {enumerated([*DRAFTS])}.")
        if name in values:
            raise ConfigError(f"The draft {name!r} is given twice.")
        if equals and not draft.value:
            raise ConfigError(f"The draft {name!r} has no value: leave out {equals}{value}.")
        if (equals and not value) or (not equals and draft.otherwise is None):
            raise ConfigError(f"The draft {name!r} needs a value: {name}={draft.value}.")
        values[name] = value or draft.otherwise or ""
    return values
