"""The fixture protocol: what a server has that is made for the kit, in any language.

The server is an ordinary one whose system can be replaced. Activating, deactivating, listing and calling go through its
ordinary surface: `{path}.activate`, `{path}.deactivate`, tools/list, tools/call. Beside it are a few tools for the kit,
of which only the first must be there. It is listed at the start, by which the kit knows such a server; while lists have
pages, none of them is.

`conformance_configure {setup}`
    Replace the whole system by `setup`, a `driver.Setup` as JSON. Every session is new from then on, and no notice of a
    changed list is sent for it. Answer the structured content ``{"ok": true, "capabilities": [...]}``, or
    ``{"error": "ExclusionConflict"}`` with the name of the error (SPEC 23) if a rule of registration forbids it; what
    was there then stays. More members, where they apply: ``"call_tool": name`` of the tool that calls others, if lists
    have one (SPEC DEL-2, DEL-8); ``"handles": "arguments"`` if a modern request can't carry its handle in ``_meta``
    (SPEC DEL-11).
`conformance_fact {fact, value}`
    Set a fact, a bool, on the caller's session: "facts".
`conformance_observe {settled}`
    Answer ``{"hooks": [[phase, group], ...], "active": [...], "blocked": [[phase, group], ...], "under_way": n}``: the
    hooks that began since it was last asked, the active groups of the caller's session if the server can tell, the
    hooks that wait now, and how many other calls have come in and are not answered. With `settled` true, answer once
    each of those waits for its turn or in a hook, and once sessions whose connections have ended are torn down.
    "hooks"; the last two for "blocked hooks" and "concurrency".
`conformance_script {group, phase, outcome}`
    From now on this hook does as told: "succeed", "fail", "block" until it is released, or "ask" its own session for
    the activation of the first group: "failing hooks", "blocked hooks", "asking hooks".
`conformance_release {group, phase, fail}`
    Let a blocked hook end, by failing if `fail` is true: "blocked hooks".

`capabilities` names what the server has of `CLAIMED`; the rest follows from the protocol, or can't be had over it. A
server that names none is judged by its activations, deactivations, lists and notices. What it answers:

- Activating and deactivating: ``_meta["dev.toolfold/change"]`` with `changed` and `active` (SPEC CTL-4), or structured
  content with them; without `active` the kit lists tools after each step, and takes a group for active if one of its
  tools is listed.
- A refusal is a result with `isError`. With "errors" its ``_meta["dev.toolfold/error"]`` is the error as
  ``{"error": "ParentInactive", "missing": "a"}``: for HookFailed with `group` and `phase`.
- A tool that is unknown or not available is the error -32602.

Legacy: a session is a connection; a server over stdio is started once for each, so it has one session. Modern: a
session is the newest handle, from ``_meta["dev.toolfold/handle"]`` of a result or `handle` beside `changed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias

Era: TypeAlias = Literal["legacy", "modern"]

CONFIGURE: Final = "conformance_configure"
FACT: Final = "conformance_fact"
OBSERVE: Final = "conformance_observe"
SCRIPT: Final = "conformance_script"
RELEASE: Final = "conformance_release"
PREFIX: Final = "conformance_"

HANDLE: Final = "handle"
HANDLE_META: Final = "dev.toolfold/handle"
CHANGE_META: Final = "dev.toolfold/change"
ERROR_META: Final = "dev.toolfold/error"
INVALID_PARAMS: Final = -32602

CLAIMED = frozenset(
    {
        "errors",
        "registration",
        "calls",
        "paging",
        "facts",
        "limits",
        "hooks",
        "failing hooks",
        "asking hooks",
        "blocked hooks",
        "concurrency",
        "cancellation",
    }
)
"""The capabilities that a server has if it says so."""

GRANTED = frozenset({"setups", "listing", "sessions"})
"""Those that every such server has."""

BEYOND: Mapping[str, str] = MappingProxyType(
    {
        "groups": "MCP has no request that lists groups",
        "transition": "a control tool opens or closes one group",
        "force": "no control tool forces",
        "persistence": "MCP has no request for it",
    }
)
"""Those that can't be had over MCP, and why."""

BRANCHES: Final = "two requests with one handle may be two branches, so neither waits for the other"
BEYOND_MODERN: Mapping[str, str] = MappingProxyType(
    {
        "notifications": "modern lists do not change through calls, so there is nothing to tell",
        "ending": "a handle is forgotten, not ended",
        "concurrency": BRANCHES,
        "cancellation": BRANCHES,
        "blocked hooks": BRANCHES,
    }
)


def wire_capabilities(era: Era, call_tool: str | None) -> frozenset[str]:
    """Return the capabilities that checks of the wire need: that there is one, of which era, and what lists have."""
    return frozenset({"wire", f"{era} wire", *(["call-through"] if call_tool is not None else [])})
