"""Images and audio that a client shows no model: what they are is said in their place (SPEC GWY-17).

Such a block would be lost without a word, or its base64 would be read as text. Which clients do so is in the table of
hosts (see `hosts`), where it was seen with models that see images.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolfold.spi import frozen, quoted


@frozen
class Media:
    """An image or a sound.

    Attributes:
        kind: The type of its block.
        media_type: What its server says that it is.
        data: It, in base64.
    """

    kind: str
    media_type: str
    data: str

    @classmethod
    def of(cls, block: Mapping[str, Any], kinds: tuple[str, ...]) -> Media | None:
        """Return what is in a block of one of these types, or `None`."""
        match block:
            case {"type": str(kind), "data": str(data)} if kind in kinds:
                return cls(kind, str(block.get("mimeType", "")), data)
            case _:
                return None

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.data) * 3 // 4 - self.data[-2:].count("=")

    def described(self, way: str) -> dict[str, Any]:
        """Return the text in its place.

        Args:
            way: How it is saved, or `""`.
        """
        what = f"{'Audio' if self.kind == 'audio' else 'An image'}, {quoted(self.media_type, 100) or 'of no type'}"
        text = f"{what}, {self.size:,} bytes, which this client does not show."
        return {"type": "text", "text": f"[{text}{way and f' {way}.'}]"}
