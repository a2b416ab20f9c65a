"""Warnings of what is allowed and hardly meant, at the line of whoever asked for it."""

from __future__ import annotations

import sys
from warnings import warn_explicit


class ToolfoldWarning(UserWarning):
    """Something is allowed, and hardly meant; the message says what to do instead."""


def warn(problem: str) -> None:
    """Warn of a problem at the innermost line outside of this library."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage] - as the standard library's own `warnings` does
    while frame.f_globals.get("__name__", "").partition(".")[0].startswith("toolfold") and frame.f_back is not None:
        frame = frame.f_back
    module = frame.f_globals
    place = frame.f_code.co_filename, frame.f_lineno
    seen = module.setdefault("__warningregistry__", {})
    warn_explicit(problem, ToolfoldWarning, *place, module=module.get("__name__"), registry=seen)
