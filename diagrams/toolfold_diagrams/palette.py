"""Colours, chosen from the set of Okabe and Ito, which people with any kind of colour blindness can distinguish.

A box has a light ground and dark text, and lines have a tone between, so a picture can be read on white and on dark:
texts have a contrast of at least 4.5 : 1, lines and borders of 3 : 1 on either. No tone is far enough from both to be
text, so text has a light ground wherever it is more than a short label.
Colour is never the only sign: active groups also have a thick border and a filled dot, locked ones a dashed border,
exclusions are dashed lines with blunt ends.
"""

from __future__ import annotations

from attrs import frozen

from toolfold import RegionState

INK = "#1b1f24"
"""Text inside of boxes."""
FAINT = "#4b545d"
"""Second lines inside of boxes."""
LINE = "#7a838d"
"""Lines and texts on the bare ground: at least 3 : 1 against white and against #0d1117."""
EXCLUSION = "#d55e00"
REFUSED = "#d55e00"
PAPER = "#ffffff"
"""States in charts; nested ones stand on GROUND."""
GROUND = "#f6f8fa"
"""Boxes that are not about a state."""
FONT = "Helvetica,Arial,sans-serif"


@frozen
class Look:
    """How the state of a group looks."""

    fill: str
    border: str
    width: float
    dashed: bool
    mark: str


LOOKS = {
    RegionState.ACTIVE: Look("#a5d6f2", "#0072b2", 2.5, False, "●"),
    RegionState.INACTIVE: Look(PAPER, "#67707a", 1, False, "○"),
    RegionState.LOCKED: Look("#eceff2", "#7e8791", 1, True, "◌"),
}
