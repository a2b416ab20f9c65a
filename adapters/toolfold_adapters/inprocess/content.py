"""The content of results as a model reads it, whatever API it is sent by (SPEC AGT-1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolfold import Component, ToolResult
from toolfold.spi import ToWire, descriptions


def text_of(result: ToolResult) -> str:
    """Return the content of a result as text; a block that is not text is given as JSON."""
    return "\n".join(
        str(block["text"]) if block.get("type") == "text" else json.dumps(block, ensure_ascii=False)
        for block in result.content
    )


def without_schemas(result: ToolResult, to_wire: ToWire, announced: Sequence[Component]) -> Sequence[Mapping[str, Any]]:
    """Return the content of a result, which names tools without their schemas.

    Of those that are announced beside it, whose definitions the model reads there, it has only the names.
    """
    if result.about is None or result.is_error or not result.about.tools:
        return result.content
    known = {component.name for component in announced}
    lines = [
        descriptions.line_of(to_wire(one.name), "" if one.name in known else one.description)
        for one in result.about.tools
    ]
    return ({"type": "text", "text": result.about.text("\n".join(lines))},)
