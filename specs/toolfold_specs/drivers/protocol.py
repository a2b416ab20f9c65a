"""The driver protocol over MCP: one tool for the kit, on a server in any language (specs/DRIVER-PROTOCOL.md).

The server is an ordinary one whose system can be replaced. Activating, deactivating, listing and calling go through its
ordinary surface; a request of the driver protocol that MCP has no request for is the arguments of a call of that tool,
and the response its structured content.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

from toolfold_specs.driver import CAPABILITIES, OF_HANDLES

Era: TypeAlias = Literal["legacy", "modern"]
ERAS: Final[tuple[Era, ...]] = ("legacy", "modern")

TOOL: Final = "conformance_driver"
"""The tool that takes requests of the driver protocol, by which the kit knows such a server."""

HANDLE: Final = "handle"
HANDLE_META: Final = "dev.toolfold/handle"
CHANGE_META: Final = "dev.toolfold/change"
ERROR_META: Final = "dev.toolfold/error"
INVALID_PARAMS: Final = -32602

BEYOND: Mapping[str, str] = MappingProxyType(
    {
        "groups": "MCP has no request that lists groups",
        "transition": "a control tool opens or closes one group",
        "reasons": "MCP has no request for the reason of a tool",
        "force": "no control tool forces",
        "crossing hooks": "a server does not know another session by its name",
        "persistence": "MCP has no request for it",
    }
)
"""The capabilities that can't be had over MCP, and why."""

GRANTED = frozenset({"setups", "listing", "sessions", "notifications", "ending"})
"""Those that every such server has, as far as its era does."""

CLAIMED = CAPABILITIES.keys() - BEYOND.keys() - GRANTED | OF_HANDLES.keys()
"""Those that a server has if it says so."""

BRANCHES: Final = "two requests with one handle may be two branches, so neither waits for the other"
BEYOND_MODERN: Mapping[str, str] = MappingProxyType(
    {
        "notifications": "modern lists do not change through calls, so nothing is notified",
        "ending": "a handle is forgotten, not ended",
        "recency": "a call returns no handle, so nothing says that a group was used",
        "concurrency": BRANCHES,
        "cancellation": BRANCHES,
        "blocked hooks": BRANCHES,
    }
)


def wire_capabilities(era: Era, call_tool: str | None) -> frozenset[str]:
    """Return the capabilities that checks of the wire need: the wire, its era, and a call-tool proxy."""
    return frozenset({"wire", f"{era} wire", *(["call-through"] if call_tool is not None else [])})
