"""Content and results as other packages have them, recognised without importing these (SPEC 9).

Handlers that were written for the MCP SDK or for FastMCP answer with their models, such as `ImageContent` and
`CallToolResult`, or with their helpers `Image`, `Audio` and `File`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from .._limits import escaped
from .._plain import as_json

_PACKAGES = frozenset(("mcp", "mcp_types", "fastmcp"))
_RESULTS = frozenset(("CallToolResult", "ToolResult"))
_BLOCKS = frozenset(("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource"))
_HELPERS: Mapping[str, str] = {
    "Image": "to_image_content",
    "Audio": "to_audio_content",
    "File": "to_resource_content",
}
_CONTENT = _BLOCKS | _HELPERS.keys()


def is_content_type(kind: Any) -> bool:
    """Return whether instances of a class are content blocks."""
    return isinstance(kind, type) and _foreign(kind, _CONTENT) is not None


def is_result_type(kind: Any) -> bool:
    """Return whether instances of a class are whole results, with content blocks in them."""
    return isinstance(kind, type) and _foreign(kind, _RESULTS) is not None


def blocks_of(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    """Return the content blocks that a value is, or is a list with; `None` if there are none in it."""
    if isinstance(value, list | tuple):
        items = tuple(cast("list[Any]", value))
        return tuple(map(_block, items)) if any(map(is_content_type, set(map(type, items)))) else None
    return (_block(value),) if is_content_type(type(value)) else None


def _foreign(kind: type, names: frozenset[str]) -> str | None:
    """Return the name of a class, or of one that it inherits from, that is one of `names` in those packages."""
    found = (base for base in kind.__mro__ if base.__name__ in names)
    return next((base.__name__ for base in found if base.__module__.partition(".")[0] in _PACKAGES), None)


def _block(item: object) -> Mapping[str, Any]:
    name, block = _foreign(type(item), _CONTENT), cast("Any", item)
    if name is None:
        return {"type": "text", "text": escaped(item) if isinstance(item, str) else as_json(item)[1]}
    block = getattr(block, _HELPERS[name])() if name in _HELPERS else block
    dumped: dict[str, Any] = block.model_dump(mode="json", by_alias=True, exclude_none=True)
    return dumped
