"""Names that every client accepts, for whatever servers and tools are called (SPEC NAM-1, GWY-6)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from toolfold import ConfigError
from toolfold_adapters.names import WIRE_LENGTH, WIRE_SEPARATOR

SERVER_LENGTH = 32
_ALLOWED = re.compile(rf"[A-Za-z0-9_-]{{1,{WIRE_LENGTH}}}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")


def server_name(name: str) -> str:
    """Return what a server is called here: the name of its group, and the beginning of those of its tools.

    It has no `__` and does not end in `_`, so that a tool's name says which server it is of, and depends on no other.

    Raises:
        ConfigError: There is no letter or digit in it.
    """
    allowed = re.sub("__+", "_", _NOT_ALLOWED.sub("_", name))[:SERVER_LENGTH].strip("_-")
    if not allowed:
        raise ConfigError(f"a server named {name!r} can't be served; its name needs a letter or digit of ASCII")
    return allowed


def allowed_names(names: Sequence[str], taken: Iterable[str] = (), server: str | None = None) -> dict[str, str]:
    """Return what each of the different `names` is called here; an allowed name stays unchanged.

    Other characters become `_`, what is too long is cut, and what is taken gets a number: `_2`, `_3`, … An allowed name
    comes before one that has to be changed, and the same names always give the same result.

    Args:
        names: The upstream's names, in its order.
        taken: Names that are used already, such as that of a control tool.
        server: The server's name, to begin with: `server__name`; none where there is one server.
    """
    prefix = "" if server is None else f"{server}{WIRE_SEPARATOR}"
    used = set(taken)
    full = {name: f"{prefix}{name}" for name in names}
    given = {name: whole for name, whole in full.items() if _ALLOWED.fullmatch(whole) and whole not in used}
    used.update(given.values())
    for name, whole in full.items():
        if name not in given:
            given[name] = _free(_NOT_ALLOWED.sub("_", whole)[:WIRE_LENGTH] or "tool", used)
            used.add(given[name])
    return {name: given[name] for name in names}


def is_allowed(name: str) -> bool:
    """Return whether every client accepts a name."""
    return _ALLOWED.fullmatch(name) is not None


def _free(name: str, used: set[str]) -> str:
    candidate = name
    number = 1
    while candidate in used:
        number += 1
        suffix = f"_{number}"
        candidate = name[: WIRE_LENGTH - len(suffix)] + suffix
    return candidate
