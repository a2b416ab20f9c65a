"""What a text may stand for, as far as its looks tell: this imports nothing, so that the program starts soon."""

from __future__ import annotations

FILES = (".toml", ".json", ".jsonc", ".yaml", ".yml")


def is_url(text: str) -> bool:
    """Return whether a text is the URL of a server."""
    return text.startswith(("http://", "https://"))


def is_target(text: str) -> bool:
    """Return whether a text can only be a TARGET; the name of a module may also be a command's."""
    return ":" in text or text.lower().endswith((".py", *FILES))
