"""Notebooks: the picture of a value of the core. The core finds `bundle` by its entry point."""

from __future__ import annotations

from .diagram import Source
from .structure import structure
from .tree import tree


def bundle(source: Source) -> dict[str, str]:
    """Return the structure in its present state by MIME type: a picture, and a tree for terminals (SPEC DIA-3)."""
    return {**structure(source).bundle(), "text/plain": tree(source)}
