"""Names that all known clients and model providers accept: 1 to 64 of A-Z a-z 0-9 _ - (SPEC NAM-1, NAM-6, AGT-3).

Whatever servers and tools are called, a gateway has such a name for them (SPEC GWY-6). The keys that Toolfold adds
to messages of MCP are named here, too (SPEC DEL-2, DEL-11, CTL-4, GWY-6), the extensions for groups, with the names
that groups have in one of them (SPEC DEL-5), and what MCP has for each list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from hashlib import sha256
from itertools import chain, count
from typing import Any, NamedTuple
from unicodedata import combining, normalize

from toolfold import Catalog, Component, WireNames
from toolfold.spi import Kind

WIRE_SEPARATOR = "__"
"""Replaces the dot, which some of them refuse."""
WIRE_LENGTH = 64
wire_name = WireNames(WIRE_SEPARATOR, WIRE_LENGTH).to_wire
"""Returns the name that clients and models see of a tool, where no other separator is chosen."""
ONE_SERVER = "upstream"
"""Stands for the name of a server that has none; one that is called so has another name here."""
NAME_LENGTH = 48
"""Hosts put the name of the gateway before that of a tool, and accept 64 characters in all."""
SERVER_LENGTH = 24
_ALLOWED = re.compile(rf"[A-Za-z0-9_-]{{1,{WIRE_LENGTH}}}")
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]")
_DIGITS = 6
_CHANGED = re.compile(rf"_[0-9a-f]{{{_DIGITS}}}\Z")

HANDLE_META = "dev.toolfold/handle"
HANDLE_HEADER = "toolfold-handle"
NO_HANDLE = ""
"""The handle in an answer that refuses the one that the request itself carried."""
CHANGE_META = "dev.toolfold/change"
"""In an answer of a control tool: the change, as structured data."""
RESULTS_META = "dev.toolfold/results"
"""In an answer of `call_tools`: of each result whether it is an error, and how many blocks of the content it has."""
DISCARDED_META = "dev.toolfold/discarded"
"""In lists and answers: groups that were open under a handle and that the catalog no longer allows."""
STORE_AWAY_META = "dev.toolfold/store-away"
"""In lists: the store did not answer, so this is the state that was known last (SPEC STO-5)."""
ALWAYS_LOAD_META = "anthropic/alwaysLoad"
"""In definitions: a client that puts tools behind a search of its own must not do so with this one (SPEC GWY-6)."""
GROUP_META = "dev.toolfold/group"
"""In the definition of a tool of an existing server: the path of the group that its author puts it in."""
MOUNTED_META = "dev.toolfold/mounted-groups"
"""In a definition within a process: the groups of a tool in the mounted server that it comes from; never sent."""


class ListOf(NamedTuple):
    """What MCP has for the list of a kind.

    Attributes:
        method: The request for it.
        key: Its key in the answer.
        changed: The notification that it has changed.
        identified_by: The key in a definition that tells it from the others of its server.
    """

    method: str
    key: str
    changed: str
    identified_by: str


_RESOURCES_CHANGED = "notifications/resources/list_changed"
LISTS: Mapping[Kind, ListOf] = {
    "tool": ListOf("tools/list", "tools", "notifications/tools/list_changed", "name"),
    "prompt": ListOf("prompts/list", "prompts", "notifications/prompts/list_changed", "name"),
    "resource": ListOf("resources/list", "resources", _RESOURCES_CHANGED, "uri"),
    "resource_template": ListOf("resources/templates/list", "resourceTemplates", _RESOURCES_CHANGED, "uriTemplate"),
}

GROUPS_EXTENSION = "io.modelcontextprotocol/groups"
"""The draft extension; in revisions up to 2025-11-25, which have none, both sides declare it under `experimental`."""
TOOLBOX_EXTENSION = "com.google.cloud/toolbox.v1"
"""What servers of today have in place of the draft."""
GROUPS_SETTINGS = {"listChanged": True}
GROUPS_CHANGED = "notifications/groups/list_changed"
GROUPS_FILTER = "groupsListChanged"
"""What a subscription asks for that notification with."""


def server_name(name: str) -> str:
    """Return what a server is called here: the name of its group, and the beginning of those of its tools.

    It has no `__` and does not end in `_`, so that a tool's name says which server it is of, and depends on no other.
    Letters lose their accents. What is too long, or has letters of which none is left, as Chinese ones, ends in a hash
    of the whole.
    """
    plain = "".join(one for one in normalize("NFKD", name) if not combining(one))
    allowed = re.sub("__+", "_", _NOT_ALLOWED.sub("_", plain)).strip("_-")
    lost = not allowed or any(one.isalnum() and not one.isascii() for one in plain)
    if lost or len(allowed) > SERVER_LENGTH:
        return re.sub("__+", "_", _hashed(allowed or "server", name, SERVER_LENGTH))
    return f"{ONE_SERVER}-server" if allowed == ONE_SERVER else allowed


def allowed_names(
    names: Sequence[str], taken: Iterable[str] = (), server: str | None = None, before: Sequence[str] = ()
) -> dict[str, str]:
    """Return what each of the different `names` is called here, in at most 48 characters.

    An allowed name stays unchanged. Other characters become `_`; what is too long, or taken, ends in a hash of the
    whole. An allowed name comes before one that has to be changed, and no name depends on another server's.

    SPEC GWY-6.

    Args:
        names: The upstream's names, in its order.
        taken: Names that are used already, such as that of a control tool.
        server: The server's name, to begin with: `server__name`; none where the server has no name.
        before: Names that were there before others: what they are called is theirs, also where they are gone.
    """
    if before:
        first = allowed_names(before, taken, server)
        later = [name for name in names if name not in first]
        both = {**first, **allowed_names(later, {*taken, *first.values()}, server)}
        return {name: both[name] for name in names}
    prefix = "" if server is None else f"{server}{WIRE_SEPARATOR}"
    used = set(taken)
    full = {name: f"{prefix}{name}" for name in names}
    given = {
        name: whole
        for name, whole in full.items()
        if is_allowed(whole) and len(whole) <= NAME_LENGTH and whole not in used
    }
    used.update(given.values())
    for name, whole in full.items():
        if name not in given:
            given[name] = _free(whole, used)
            used.add(given[name])
    return {name: given[name] for name in names}


def stable_names(names: Iterable[str], taken: Iterable[str] = (), server: str | None = None) -> dict[str, str]:
    """Return what each of `names` is called here whatever else its server lists, to whomever and whenever.

    An allowed name stays unchanged. What is not allowed, too long or taken, or ends as a changed name does, ends in a
    hash of the whole.

    SPEC GWY-6, ISO-1.

    Args:
        names: The upstream's names.
        taken: Names that are used already, such as that of a control tool.
        server: The server's name, to begin with; none where the server has no name.
    """
    prefix, used = "" if server is None else f"{server}{WIRE_SEPARATOR}", frozenset(taken)
    return {name: _stable(f"{prefix}{name}", used) for name in names}


def _stable(name: str, used: Set[str]) -> str:
    if is_allowed(name) and len(name) <= NAME_LENGTH and name not in used and _CHANGED.search(name) is None:
        return name
    return _free(name, used | {_NOT_ALLOWED.sub("_", name)})


def numbered(name: str, taken: Container[str]) -> str:
    """Return a name, with a number if something else has it."""
    return next(one for one in chain([name], (f"{name}_{number}" for number in count(2))) if one not in taken)


def is_allowed(name: str) -> bool:
    """Return whether every client accepts a name."""
    return _ALLOWED.fullmatch(name) is not None


def _free(name: str, used: Set[str]) -> str:
    """Return an allowed name that is not used: the name itself with `_` for what is not allowed, or with its hash."""
    allowed = whole = _NOT_ALLOWED.sub("_", name)
    hashed = name
    while len(allowed) > NAME_LENGTH or allowed in used:
        allowed, hashed = _hashed(whole, hashed, NAME_LENGTH), f"{hashed} "
    return allowed


def _hashed(allowed: str, name: str, length: int) -> str:
    """Return the beginning of an allowed name and a hash of the one that it stands for, in so many characters."""
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]
    return f"{allowed[: length - _DIGITS - 1]}_{digest}"


# -- names of groups in the draft extension ----------------------------------------------------------------------------

# Names have the form that the draft allows: `[a-z0-9-]{1,64}`. No hyphen comes first, last, or beside another, so `-0`
# can begin an escape:
#
# - a name that already has that form stays as it is, but that a word which begins with `0` is preceded by `0w`
# - whatever else is between two words, or before or after them, is one word: `0`, and a letter for each character:
#   `d` for the dot, `u` for the underscore, `h` for the hyphen, and `c` with the lower-case letter for a capital
#
# So `stock.orders` is `stock-0d-orders`, and no two paths have one name. A name that would be longer than 64 characters
# is cut and ends in `0z` and a digest of its path, and can't be mapped back.

_DRAFT_DIGITS = 20
_PLAIN = re.compile(r"[a-z0-9]+")
_PARTS = re.compile(r"[a-z0-9]+|[^a-z0-9]+")
_CODES = {".": "d", "_": "u", "-": "h"}
_CHARACTERS = {code: character for character, code in _CODES.items()}
_CODE = re.compile(r"c[a-z]|.")


@lru_cache(maxsize=4096)
def draft_name(path: str) -> str:
    """Return the name of the group at `path`: no other path has the same one."""
    parts = _PARTS.findall(path)
    last = len(parts) - 1
    name = "-".join(_word(part) for number, part in enumerate(parts) if part != "-" or number in (0, last))
    if len(name) <= WIRE_LENGTH:
        return name
    end = f"-0z{sha256(path.encode()).hexdigest()[:_DRAFT_DIGITS]}"
    return name[: WIRE_LENGTH - len(end)].rstrip("-") + end


def path_of(name: str) -> str:
    """Return the path of which `name` is the name; one that is no path's is returned as it is."""
    path, after_word = "", False
    for word in name.split("-"):
        escaped = word.startswith("0") and not word.startswith("0w")
        path += "-" if after_word and not escaped else ""
        path += _CODE.sub(_character, word[1:]) if escaped else word.removeprefix("0w")
        after_word = not escaped
    return path if draft_name(path) == name else name


def _character(code: re.Match[str]) -> str:
    return _CHARACTERS.get(code[0]) or code[0][-1].upper()


def _word(part: str) -> str:
    if _PLAIN.fullmatch(part):
        return f"0w{part}" if part.startswith("0") else part
    return "0" + "".join(_CODES.get(one) or f"c{one.lower()}" for one in part)


def wire_names(catalog: Catalog) -> Callable[[str], str]:
    """Return what maps a tool's name to the one that clients and models see, where no other separator is chosen."""
    names = WireNames(WIRE_SEPARATOR)
    names.admit_tools(catalog.tools.values())
    return names.to_wire


def render_for_hosts(component: Component, to_wire: Callable[[str], str] = str) -> dict[str, Any]:
    """Return a definition as servers list it: what opens groups stays in view of hosts that load tools late."""
    rendered = component.render(to_wire)
    if component.control is not None and not component.control[1]:  # it is for all groups
        rendered["_meta"] = {**rendered.get("_meta", {}), ALWAYS_LOAD_META: True}
    return rendered
