"""The arguments of a call as a model wrote them, read as a JSON object (SPEC AGT-1, CALL-2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from toolfold import InvalidDefinition, ToolResult
from toolfold.spi import plain_json, quoted, table


def read_arguments(arguments: Any) -> dict[str, Any] | None:
    """Return a call's arguments, given as a mapping or as JSON text, as plain JSON data.

    Returns `None` if they are not a JSON object, are nested too deeply, or contain what UTF-8 can't encode.
    """
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments
        return table(plain_json("arguments", given, "value")) if isinstance(given, Mapping) else None
    except (ValueError, RecursionError, InvalidDefinition):
        return None


def unreadable_arguments(name: str) -> ToolResult:
    """Return the answer to a call of `name` whose arguments can't be read."""
    text = f"The arguments of {quoted(name)} are not a JSON object; call it again with one."
    return ToolResult.of_text(text, is_error=True)
