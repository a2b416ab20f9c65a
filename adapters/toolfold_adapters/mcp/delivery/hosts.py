"""What hosts do with results, by the name that they introduce themselves by: the one table of it (SPEC CTL-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CUTS: Mapping[str, int] = {
    "cline": 5_500,  # it shows 8,000 of the result as JSON, with its `_meta`, and with each quotation mark escaped
    "fast-agent": 15_000,  # it shows the first 8,000 bytes and the last
}
"""How many characters of a text hosts show that cut it before an answer of the default length ends."""


def room_for(ctx: Any, room: int) -> int:
    """Return how many characters an answer to a request may have that may have `room` in general."""
    params = ctx.session.client_params
    name = params.client_info.name.casefold() if params is not None else ""
    return min([room, *(cut for host, cut in CUTS.items() if name.startswith(host))])
