"""The machine as rows, and what they mean: the specification of a transition, apart from any implementation of it.

regions     groups, and what the rows of a group's region make of a request
life        the life of a transition with its hooks: what may follow what
rows.json   the rows of both, as data; `python -m verification.rows` writes them
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def rows() -> dict[str, Any]:
    """Return the rows, as `rows.json` has them."""
    found: dict[str, Any] = json.loads((files(__name__) / "rows.json").read_text(encoding="utf-8"))
    return found
