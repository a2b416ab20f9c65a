"""Names that all known clients and model providers accept: 1 to 64 of A-Z a-z 0-9 _ - (SPEC NAM-6, AGT-3)."""

from __future__ import annotations

WIRE_SEPARATOR = "__"
"""Replaces the dot, which some of them refuse."""
WIRE_LENGTH = 64
