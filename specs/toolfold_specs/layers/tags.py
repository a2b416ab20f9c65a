"""Definition tags, as drafted for the revision after 2026-07-28, of a server that tags its lists (SPEC NXT-1).

The draft declares no capability: a server has tags if its lists have. It leaves four choices of what to do with a call
whose client knows another list: to ignore that, to honour it, to signal it, or to reject the call. A check takes any of
them, judges what each has to be, and makes no difference between a list of tools, prompts, resources or templates and
an introduction but that of which calls depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from attrs import evolve

from ..checks import Check
from ..driver import LeftOut
from ..drivers.protocol import HANDLE_META
from ..drivers.replies import Reply, WireError
from ..runs import TestRun
from .over_mcp import SETUP, Json, Wire, items, mapping, on, seen

CLAUSE = "NXT-1"
KNOWN, STALE = "io.modelcontextprotocol/knownTags", "io.modelcontextprotocol/staleTags"
TOOLS, DISCOVER = "tools/list", "server/discover"
KEYS: Mapping[str, str] = {
    DISCOVER: "",
    TOOLS: "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""What has a tag, and the key of its collection."""
DEPENDS: Mapping[str, tuple[str, ...]] = {
    "tools/call": (DISCOVER, TOOLS),
    "prompts/get": (DISCOVER, "prompts/list"),
    "resources/read": (DISCOVER, "resources/list", "resources/templates/list"),
}
"""The tags on which a call depends, and which alone may reject it."""
MADE_UP = "no tag of this list"
CALLED = "a call that succeeds"


def _pages(wire: Wire, method: str, meta: Any = None) -> list[Json]:
    """Return the pages of a list, of which there are none if the server has no such list."""
    kind = method.partition("/")[0]
    if kind not in ("server", "tools") and kind not in wire.main.capabilities:
        return []
    pages: list[Json] = []
    cursor: Json = {}
    try:
        while not pages or cursor:
            wire.test_run.count()
            pages.append(wire.main.request(method, {**cursor, **({"_meta": dict(meta)} if meta else {})}))
            cursor = {"cursor": pages[-1]["nextCursor"]} if pages[-1].get("nextCursor") else {}
    except WireError:
        return []
    return pages


def _tags(wire: Wire) -> dict[str, str]:
    """Return the tags of all that has one; raises `LeftOut` if the list of tools has none."""
    found = {method: pages[0].get("tag") for method in KEYS if (pages := _pages(wire, method))}
    if TOOLS not in found or found[TOOLS] is None:
        raise LeftOut("it does not tag its lists")
    return {method: tag for method, tag in found.items() if isinstance(tag, str)}


def _ask(wire: Wire, method: str, params: Mapping[str, Any], known: Any) -> Reply:
    wire.test_run.count()
    try:
        return Reply(wire.keep(wire.main.request(method, {**params, "_meta": {KNOWN: known}})))
    except WireError as error:
        return Reply(refused=error)


def _calls(wire: Wire) -> dict[str, Json]:
    """Return a call that does no harm, by its method, of each kind that the server has."""
    found: dict[str, Json] = {}
    if wire.harmless is not None:
        found["tools/call"] = dict(zip(("name", "arguments"), wire.harmless, strict=True))
    for page in _pages(wire, "prompts/list"):
        for prompt in map(mapping, items(page.get("prompts"))):
            if not any(mapping(one).get("required") for one in items(prompt.get("arguments"))):
                found.setdefault("prompts/get", {"name": prompt.get("name")})
    for page in _pages(wire, "resources/list"):
        for resource in map(mapping, items(page.get("resources"))):
            found.setdefault("resources/read", {"uri": resource.get("uri")})
    return found


def _rejects(reply: Reply) -> bool:
    """Return whether a call was refused for a tag."""
    return reply.refused is not None and "staleTags" in mapping(reply.refused.data)


def _stale(reply: Reply) -> list[object] | None:
    """Return the methods that an answer or an error names; `None` if it names none."""
    if reply.refused is not None:
        named = mapping(reply.refused.data).get("staleTags")
        return None if named is None else items(named)
    return items(reply.meta[STALE]) if STALE in reply.meta else None


def _named(wire: Wire, kind: str, reply: Reply, method: str = "") -> list[object] | None:
    """Return the same without what the call itself made stale: of a server with groups of its own, it opens one."""
    named = _stale(reply)
    if named is None or reply.refused is not None or kind != "tools/call" or wire.test_run.can("setups"):
        return named
    return [one for one in named if one != TOOLS or method == TOOLS] or None


def _judge(wire: Wire, holds: bool, message: str, expected: Any = None, got: Any = None) -> bool:
    return wire.judge(CLAUSE, holds, message, expected, got)


# -- what a tag is of -------------------------------------------------------------------------------------------------


@on()
def _listed(wire: Wire) -> None:
    """Judge that equal lists have equal tags on all pages, and that another list has another tag."""
    before = _tags(wire)
    _judge(wire, all(before.values()), "a tag is empty", got=before)
    _judge(wire, _tags(wire) == before, "the same lists have other tags when they are asked for again", before)
    opened = wire.step("activate", wire.group)
    if not wire.observed(opened.handle is not None, "a list that follows a state", CLAUSE):
        return
    meta = {HANDLE_META: opened.handle}
    under = _pages(wire, TOOLS, meta)
    names = [mapping(tool).get("name") for page in under for tool in items(page.get("tools"))]
    if wire.observed(wire.tool in names, "a list that follows a state", CLAUSE):
        _judge(wire, under[0].get("tag") != before[TOOLS], "another list of tools has the same tag", got=before[TOOLS])
    if wire.test_run.can("setups", "paging"):
        wire.driver.change(wire.main, evolve(SETUP, page_size=2))
        pages = _pages(wire, TOOLS)
        if wire.observed(len(pages) > 1, "a list of several pages", CLAUSE):
            tags = [page.get("tag") for page in pages]
            _judge(wire, len({*map(str, tags)}) == 1, "the pages of a list have different tags", got=tags)


# -- what is done with those that a client knows ----------------------------------------------------------------------


def _answered(method: str, wire: Wire) -> None:
    """Judge calls whose client knows the present list, no list, or another one."""
    tags, calls = _tags(wire), _calls(wire)
    if method not in tags:
        raise LeftOut(f"it does not tag {method}")
    depends = [(kind, calls[kind]) for kind in DEPENDS if method in DEPENDS[kind] and kind in calls]
    wire.observed(bool(depends) or method not in (DISCOVER, TOOLS), CALLED, CLAUSE)
    for kind, params in depends:
        if wire.observed(_ask(wire, kind, params, {}).succeeded, CALLED, CLAUSE):
            _judge_current(wire, method, kind, params, tags)
            _judge_stale(wire, method, kind, params, tags)
    for kind, params in calls.items():
        if method in DEPENDS[kind] or not _ask(wire, kind, params, {}).succeeded:
            continue
        reply = _ask(wire, kind, params, {**tags, method: MADE_UP})
        message = f"{kind} is refused for a tag of {method}, on which it does not depend"
        _judge(wire, reply.refused is None, message, got=seen(reply))


def _judge_current(wire: Wire, method: str, kind: str, params: Json, tags: Mapping[str, str]) -> None:
    current = _ask(wire, kind, params, tags)
    message = f"{kind} with the tags of the present lists is refused, or they are called stale"
    _judge(wire, current.succeeded and _named(wire, kind, current) is None, message, tags, seen(current))
    for known in ({**tags, "no/such": "x"}, {**tags, method: 7}, "x"):
        reply = _ask(wire, kind, params, known)
        message = f"{kind} is answered otherwise for what is no tag"
        _judge(wire, reply.succeeded and _named(wire, kind, reply) is None, message, known, seen(reply))


def _judge_stale(wire: Wire, method: str, kind: str, params: Json, tags: Mapping[str, str]) -> None:
    reply = _ask(wire, kind, params, {**tags, method: MADE_UP})
    named = _named(wire, kind, reply, method)
    message = f"{kind} with another tag of {method} names others than that as stale, or fails for it without a name"
    right = named == [method] or (named is None and reply.succeeded)
    _judge(wire, right, message, [method], seen(reply))
    if kind == "tools/call" and _rejects(reply):
        unknown = _ask(wire, kind, {"name": "no_such_tool", "arguments": {}}, {**tags, method: MADE_UP})
        message = "a call that it rejects for a tag is looked at first"
        _judge(wire, _rejects(unknown), message, [method], seen(unknown))


# -- what is opened ---------------------------------------------------------------------------------------------------


@on()
def _opened(wire: Wire) -> None:
    """Judge that opening a group makes the list stale, for a server that signals, and what is called under handles."""
    tags = _tags(wire)
    name, arguments = wire.driver.control("activate", wire.group)
    opened = _ask(wire, "tools/call", {"name": name, "arguments": dict(arguments)}, tags)
    if not wire.observed(opened.succeeded and opened.handle is not None, "an activation that succeeds", CLAUSE):
        return
    meta = {HANDLE_META: opened.handle}
    under = _pages(wire, TOOLS, meta)
    tag = under[0].get("tag") if under else None
    if not wire.observed(isinstance(tag, str) and tag != tags[TOOLS], "a list that follows a state", CLAUSE):
        return
    if wire.harmless is not None:
        called: Json = dict(zip(("name", "arguments"), wire.harmless, strict=True))
        signals = _stale(_ask(wire, "tools/call", called, {**tags, TOOLS: MADE_UP})) is not None
        if signals:
            message = "opening a group does not make the list of tools stale"
            _judge(wire, _stale(opened) == [TOOLS], message, [TOOLS], seen(opened))
    reply = wire.call(wire.tool, {}, {**meta, KNOWN: {TOOLS: tag}})
    message = "a call under a handle is refused for the tag of the list under it, or that is called stale"
    if wire.observed(wire.reaches(wire.call(wire.tool, {}, meta)), "a call under a handle", CLAUSE):
        _judge(wire, wire.reaches(reply) and _stale(reply) is None, message, got=seen(reply))


def _on(method: str) -> Callable[[TestRun], None]:
    return on()(partial(_answered, method))


MODERN = ("modern wire",)

CHECKS = (
    Check("a tag is that of a whole list", "wire", (CLAUSE,), _listed, MODERN),
    *(Check(f"a client's tag of {method} is answered", "wire", (CLAUSE,), _on(method), MODERN) for method in KEYS),
    Check("opening a group makes a tag stale", "wire", (CLAUSE,), _opened, (*MODERN, "listing")),
)
