"""Pictures of tool sets and of the machine, drawn from the data that drives the code (SPEC 21).

diagram.py    a picture as a value          text.py      wrapping and escaping
dot.py        a writer of DOT               palette.py   colours and marks
"""

from .diagram import Diagram

__all__ = ["Diagram"]
