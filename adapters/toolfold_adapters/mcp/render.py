"""Definitions, results and errors of the core in the shape of MCP (SPEC DEL-7, DEL-9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.shared.exceptions import MCPError

from toolfold import InvalidArguments, InvalidCursor, Page, ProtocolError, Spec, ToolNotFound, ToolResult, WireNames
from toolfold.catalog import Kind

RESOURCE_NOT_FOUND = -32002
"""What the legacy era answers for an unknown resource; the modern era uses `INVALID_PARAMS`."""

LISTS: Mapping[Kind, str] = {
    "tool": "tools",
    "prompt": "prompts",
    "resource": "resources",
    "resource_template": "resourceTemplates",
}


class Renderer:
    """Puts pages and results on the wire of one era.

    A definition is rendered once, and a page once for each state that sessions share.

    Args:
        wire: The names that clients see.
        modern: Whether the wire is that of 2026-07-28.
    """

    def __init__(self, wire: WireNames, *, modern: bool) -> None:
        self._wire = wire
        self._modern = modern

    def page(self, page: Page, kind: Kind) -> dict[str, Any]:
        """Return a page of a list as a result."""
        result: dict[str, Any] = {LISTS[kind]: [self.definition(spec) for spec in page.items]}
        if page.next_cursor is not None:
            result["nextCursor"] = page.next_cursor
        if self._modern:
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
        return result

    def definition(self, spec: Spec) -> dict[str, Any]:
        """Return a definition as clients of this era are shown it."""
        shown = dict(spec.definition)
        if spec.kind in ("tool", "prompt"):
            shown["name"] = self._wire.to_wire(spec.name)
        if not self._modern and shown.get("outputSchema", {}).get("type", "object") != "object":
            del shown["outputSchema"]  # legal in 2026-07-28 only, and there it would cost legacy clients the whole list
        return shown

    def result(self, result: ToolResult) -> dict[str, Any]:
        """Return a tool's result."""
        shown: dict[str, Any] = {"content": [dict(block) for block in result.content], "isError": result.is_error}
        if result.structured is not None and (self._modern or isinstance(result.structured, dict)):
            shown["structuredContent"] = result.structured
        if result.meta:
            shown["_meta"] = dict(result.meta)
        return self.other(shown)

    def other(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return a result of another kind, such as a prompt's messages."""
        return {"resultType": "complete", **result} if self._modern else dict(result)


@contextmanager
def wire_errors(wire: WireNames, *, modern: bool) -> Iterator[None]:
    """Turn errors of the core into errors of the protocol (SPEC CALL-1, LST-3, DEL-9)."""
    try:
        yield
    except ToolNotFound as error:
        missing_resource = error.kind == "resource" and not modern
        code = RESOURCE_NOT_FOUND if missing_resource else types.INVALID_PARAMS
        message = f"Unknown {error.kind}: {wire.to_wire(error.name.rstrip())}" + (
            f" ({error.hint})" if error.hint else ""
        )
        raise MCPError(code=code, message=message, data={"uri": error.name} if missing_resource else None) from error
    except (InvalidCursor, InvalidArguments) as error:
        raise MCPError(code=types.INVALID_PARAMS, message=str(error)) from error
    except ProtocolError as error:
        raise MCPError(code=error.code, message=error.message, data=error.data) from error
