"""Names that clients may be given, for whatever an upstream calls its tools (SPEC NAM-1, GWY-1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MAX_LENGTH = 64
_ALLOWED = re.compile(rf"[A-Za-z0-9_-]{{1,{MAX_LENGTH}}}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")


def allowed_names(names: Sequence[str], taken: Iterable[str] = ()) -> dict[str, str]:
    """Return a name that NAM-1 allows for each of the different `names`; an allowed one stays unchanged.

    Other characters become `_`, what is too long is cut, and what is taken gets a number: `_2`, `_3`, … An allowed name
    keeps its place before one that has to be changed, and the same names always give the same result.

    Args:
        names: The upstream's names, in its order.
        taken: Names that are used already, such as that of a control tool.
    """
    used = set(taken)
    given = {name: name for name in names if _ALLOWED.fullmatch(name) and name not in used}
    used.update(given)
    for name in names:
        if name not in given:
            given[name] = _free(_NOT_ALLOWED.sub("_", name)[:MAX_LENGTH] or "tool", used)
            used.add(given[name])
    return {name: given[name] for name in names}


def _free(name: str, used: set[str]) -> str:
    candidate = name
    number = 1
    while candidate in used:
        number += 1
        suffix = f"_{number}"
        candidate = name[: MAX_LENGTH - len(suffix)] + suffix
    return candidate
