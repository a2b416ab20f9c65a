"""How sessions, handles and lists are delivered over MCP (SPEC 18): checks of the layer "wire"."""

from __future__ import annotations

import json
import string
from contextlib import closing

from attrs import evolve

from ..driver import Group, LeftOut, Setup, Tool
from ..drivers.protocol import HANDLE, HANDLE_META, INVALID_PARAMS, TOOL
from ..drivers.replies import Reply
from ..prefixes import LEGACY, MODERN, TABLE, MayChange, Prefix, allows
from .over_mcp import SETUP, Json, Wire, items, mapping, name_in, on, seen, without_hint

ACTIVATION = "an activation that succeeds"
WORKING = "a handle under which a tool can be called"
MOST_LISTS = 50
"""How often a list is asked for until it shows what another request has set."""
BASE64 = f"{string.ascii_letters.swapcase()}{string.digits}-_"

# -- delivery in the legacy era ---------------------------------------------------------------------------------------


@on()
def sessions(wire: Wire) -> None:
    """Judge that an activation changes the list of its own connection only, with one notice (SPEC DEL-1)."""
    tool = wire.tool
    with closing(wire.driver.another()) as other:
        before, notices, notices_there = wire.keep(wire.names()), wire.main.changes, other.changes
        if not wire.observed(wire.step("activate", wire.group).succeeded, ACTIVATION, "DEL-1"):
            return
        wire.main.wait_for_change(notices, 2)
        after = wire.keep(wire.names())
        wire.judge("DEL-1", tool in after, f"{tool} is not listed in the session that opened its group", got=after)
        there = wire.names(on=other)
        wire.judge("DEL-1", there == before, "the list of another session follows", before, there)
        came, came_there = wire.main.changes - notices, other.changes - notices_there
        wire.judge("DEL-1", came == 1, "notices of one change of the list", 1, came)
        wire.judge("DEL-1", came_there == 0, "another session is notified", 0, came_there)
        if wire.test_run.can("setups"):
            others = wire.main.other_changes
            wire.judge("DEL-1", others == 0, "notices that lists of another kind have changed", 0, others)


FACT = evolve(SETUP, tools=[*SETUP.tools, Tool("late", when="fact ready")])


@on(FACT)
def cancelled(wire: Wire) -> None:
    """Judge that a fact is notified of although the request that sets it is cancelled (SPEC NTF-3)."""
    if "DEL-1" in wire.test_run.violated_clauses:  # then each change has another number of notices
        return
    notices, fact = wire.main.changes, {"fact": "ready", "value": True, "wait": True}
    pending = wire.main.start_call(TOOL, {"verb": "set_fact", "arguments": fact})
    listed = any("late" in wire.names() for _ in range(MOST_LISTS))
    pending.cancel()
    opened = wire.step("activate", wire.group)
    if wire.observed(listed and opened.succeeded, "a fact that a request has set before its answer", "NTF-3"):
        wire.main.wait_for_change(notices + 1, wire.driver.grace)
        came = wire.main.changes - notices
        message = "notices of a fact, whose request was cancelled, and of an activation"
        wire.judge("NTF-3", came == 2, message, 2, came)


@on()
def proxied(wire: Wire) -> None:
    """Judge that the call-tool proxy obeys the availability of the session (SPEC DEL-8)."""
    proxy, tool = wire.driver.call_tool, wire.tool
    assert proxy is not None
    closed, unknown = (wire.keep(wire.call(proxy, {"name": name, "arguments": {}})) for name in (tool, "no_such_tool"))
    opened = wire.step("activate", wire.group)
    direct, indirect = wire.keep(wire.call(tool, {})), wire.call(proxy, {"name": tool, "arguments": {}})
    if not wire.observed(opened.succeeded and wire.reaches(direct), "a tool that can be called directly", "DEL-8"):
        return
    wire.judge("DEL-8", proxy in wire.names(), f"{proxy} is not listed")
    refused = closed.refused is None and closed.is_error and tool in closed.text
    wire.judge("DEL-8", refused, f"{proxy} calls {tool}, which is not available", got=seen(closed))
    same = unknown.text.replace("no_such_tool", "NAME") == without_hint(closed.text.replace(tool, "NAME"), wire.group)
    wire.judge(
        "DEL-8", same, f"{proxy} answers otherwise for unknown than for unavailable tools", unknown.text, closed.text
    )
    # Arguments that do not fit may be refused with the schema in one of the two, and without in the other (CALL-2).
    refused = direct.is_error and indirect.is_error and direct.text in indirect.text
    same = refused or seen(direct) == seen(indirect)
    wire.judge("DEL-8", same, f"{proxy} answers otherwise than a direct call", seen(direct), seen(indirect))


# -- delivery in the modern era ---------------------------------------------------------------------------------------


@on()
def handles(wire: Wire) -> None:
    """Judge what an activation returns, what its handle is good for, and that lists stay (SPEC DEL-2, DEL-3)."""
    proxy, group, tool = wire.driver.call_tool, wire.group, wire.tool
    before = wire.keep(wire.tools())
    opened = wire.step("activate", group)
    if not wire.observed(opened.succeeded, ACTIVATION, "DEL-2", "DEL-3"):
        return
    handle = opened.handle
    if not wire.judge("DEL-2", handle is not None, "an activation returns no handle", got=seen(opened)):
        return
    wire.judge("DEL-2", _defines(wire, opened, tool), f"it does not return the definition of {tool}", got=seen(opened))
    wire.judge("DEL-2", wire.tools() == before, "a call has changed the list")
    if wire.judge("DEL-2", proxy is not None, "there is no tool that calls others"):
        _judge_proxy(wire, str(proxy), tool, str(handle))
    second = next((path for path in wire.setup.paths if "." not in path and _can_join(wire.setup, path, group)), None)
    if second is not None:
        both = wire.step("activate", second, handle)
        active = sorted(both.change.get("active") or [])
        message = "an activation under a handle does not add to what the handle stands for"
        wire.judge("DEL-2", active == sorted([group, second]), message, got=active)
        wire.judge("DEL-2", both.handle is not None, "an activation under a handle returns none")
        _judge_branches(wire, proxy, second, str(handle), str(both.handle))


def _defines(wire: Wire, opened: Reply, tool: str) -> bool:
    """Return whether an activation returns the definition of a tool, as data or as text."""
    definitions = (one for one in items(opened.structured.get("tools")) if name_in(one) == tool)
    return any("inputSchema" in mapping(one) for one in definitions) or not wire.missing_words("DEL-2", opened, [tool])


def _judge_branches(wire: Wire, proxy: str | None, second: str, handle: str, newer: str) -> None:
    """Judge that an older handle still stands for the older state (SPEC DEL-3); with hooks it may name a session."""
    if proxy is not None and wire.test_run.can("setups"):
        request: Json = {HANDLE: handle, "name": wire.tools_of(second)[0], "arguments": {}}
        under = wire.call(proxy, request, {HANDLE_META: newer})
        message = f"{proxy} calls under the handle that the request carries, and not under the one of the call"
        wire.judge("DEL-2", newer == handle or not wire.reaches(under) or under.is_error, message, got=seen(under))
        called = wire.call(proxy, request)
        message = f"a handle from before {second} was activated reaches its tools too"
        wire.judge("DEL-3", not wire.reaches(called), message, got=seen(called))


def _judge_proxy(wire: Wire, proxy: str, tool: str, handle: str) -> None:
    called = wire.call(proxy, {HANDLE: handle, "name": tool, "arguments": {}})
    wire.judge("DEL-2", wire.reaches(called), f"{proxy} does not call {tool} under its handle", got=seen(called))
    if not wire.needs_handles:
        return
    without = wire.call(proxy, {"name": tool, "arguments": {}})
    wire.judge("DEL-2", without.is_error, f"{proxy} calls {tool} without a handle", got=seen(without))


def _can_join(setup: Setup, path: str, other: str) -> bool:
    """Return whether two groups can be active at once."""
    return path != other and not any({path, other} <= set(members) for members in setup.exclusions)


def _need_handle(wire: Wire, handle: str | None) -> None:
    """Raise `LeftOut` if a server that was not made for the kit has no handles, which DEL-2 is about."""
    if handle is None and not wire.test_run.can("setups"):
        raise LeftOut("its activations return no handles")


def _altered(handle: str) -> list[str]:
    """Return texts that resemble a handle."""
    middle = len(handle) // 2
    other = "A" if handle[middle] != "A" else "B"
    body, _, signature = handle.rpartition(".")
    return [
        handle[:middle] + other + handle[middle + 1 :],
        f"{body}.{signature[::-1]}",
        handle[:-4],
        handle + handle,
        f"{handle}=",
        handle[:-1] + BASE64[BASE64.find(handle[-1]) ^ 1],  # whose last bits are of no byte
        "made up",
        "s." + "A" * 32,
    ]


@on()
def forged(wire: Wire) -> None:
    """Judge that altered handles are refused (SPEC DEL-3)."""
    if not wire.needs_handles:
        raise LeftOut("a process of it has one client, whatever handle a request has (SPEC DEL-12)")
    _judge_forged(wire)
    if wire.test_run.can("setups", "hooks"):
        hooks = ("on_activate", "on_deactivate")
        groups = [Group(group.path, hooks=hooks) for group in SETUP.groups]
        wire.test_run.driver.configure(Setup(groups, SETUP.exclusions, SETUP.tools))
        _judge_forged(wire)


@on()
def outdated(wire: Wire) -> None:
    """Judge that handles that were taken are refused once they have expired, and by another tool set (SPEC DEL-3)."""
    driver = wire.driver
    ways = {
        "expiry": ("a handle is taken after it has expired", driver.expire),
        "names of systems": (
            "a handle is taken by another tool set than the one that gave it",
            lambda: driver.change(wire.main, evolve(SETUP, name="another")),
        ),
    }
    for capability, (message, outdate) in ways.items():
        if wire.test_run.can(capability):
            driver.change(wire.main, SETUP)
            handle = wire.step("activate", wire.group).handle
            works = handle is not None and wire.reaches(wire.keep(wire.call_under(handle, wire.tool)))
            if not wire.observed(works, WORKING, "DEL-3"):
                return
            outdate()
            reply = wire.step("activate", wire.group, handle)
            wire.judge("DEL-3", reply.refused is None and reply.is_error, message, got=seen(reply))


def _judge_forged(wire: Wire) -> None:
    proxy, group, tool = wire.driver.call_tool, wire.group, wire.tool
    handle = wire.step("activate", group).handle
    _need_handle(wire, handle)
    works = handle is not None and wire.reaches(wire.call_under(handle, tool))
    if not wire.observed(works, WORKING, "DEL-3"):
        return
    for altered in _altered(str(handle)):
        replies = {
            "in the arguments of an activation": wire.step("activate", group, altered),
            "in _meta": wire.call(tool, {}, {HANDLE_META: altered}),
        }
        if proxy is not None:
            request: Json = {HANDLE: altered, "name": tool, "arguments": {}}
            replies[f"in the arguments of {proxy}"] = wire.call(proxy, request)
        for where, reply in replies.items():
            refused = reply.refused is None and reply.is_error
            message = f"the altered handle {altered!r} {where} is not answered by an isError result"
            if wire.judge("DEL-3", refused, message, got=seen(reply)):
                advises = any(verb in reply.text.lower() for verb in ("activate", "open"))
                wire.judge("DEL-3", advises, "the refusal of a handle does not say to activate again", got=reply.text)


@on()
def equal_inputs(wire: Wire) -> None:
    """Judge that equal requests have equal lists (SPEC DEL-7)."""
    first = _bytes(wire.keep(wire.page()))
    opened = wire.step("activate", wire.group)
    meta = {HANDLE_META: opened.handle} if opened.handle else None
    wire.call(wire.tool, {}, meta)
    wire.call("no_such_tool", {})
    again = _bytes(wire.keep(wire.page()))
    with closing(wire.driver.another()) as other:
        there = _bytes(wire.page(on=other))
    if first == again == there and not wire.observed(opened.succeeded, ACTIVATION, "DEL-7"):
        return
    wire.judge("DEL-7", again == first, "the list has changed after other requests", first, again)
    wire.judge("DEL-7", there == first, "the list is another one on another connection", first, there)
    if wire.test_run.can("listing"):
        wire.observed(wire.tool in wire.names(meta), "a list that follows a state", "DEL-7")
    result = wire.page()
    lifetime = result.get("ttlMs")
    fits = isinstance(lifetime, int) and lifetime >= 0 and result.get("cacheScope") in ("public", "private")
    wire.judge("DEL-7", fits, "a list does not say for how long and for whom it holds", got={**result, "tools": "…"})


def _bytes(page: Json) -> str:
    """Return a page as text, in its order, without what a server says of itself."""
    return json.dumps({name: value for name, value in page.items() if name != "_meta"}, ensure_ascii=False)


@on()
def carried(wire: Wire) -> None:
    """Judge lists and calls under a handle that the request carries (SPEC DEL-11)."""
    group, tool = wire.group, wire.tool
    handle = wire.step("activate", group).handle
    _need_handle(wire, handle)
    if not wire.observed(handle is not None, "a handle", "DEL-11", "DEL-7"):
        return
    meta = {HANDLE_META: handle}
    page = wire.keep(wire.page(meta=meta))
    names = [one["name"] for one in page["tools"]]
    wire.judge("DEL-11", tool in names, f"a list under a handle does not have {tool}", got=names)
    scope = page.get("cacheScope")
    wire.judge("DEL-11", scope == "private", "a list under a handle is not marked as private", "private", scope)
    called = wire.call(tool, {}, meta)
    wire.judge("DEL-11", wire.reaches(called), f"{tool} can't be called under its handle", got=seen(called))
    wire.judge("DEL-11", tool not in wire.names(), "a list without the handle has it too")
    if wire.needs_handles:
        without = wire.call(tool, {})
        code = without.refused.code if without.refused else None
        wire.judge("DEL-11", code == INVALID_PARAMS, f"{tool} can be called without the handle", got=seen(without))
    wire.judge("DEL-7", _bytes(wire.page(meta=meta)) == _bytes(page), "two lists under one handle differ")


# -- prefixes ---------------------------------------------------------------------------------------------------------


@on()
def prefixes(wire: Wire) -> None:
    """Judge what of the list that a conversation begins with a transition changes, by the table (SPEC PFX-1).

    In the modern era the list without a handle is what a conversation begins with; under one, it follows the rule of
    legacy lists, for hosts that ask so.
    """
    if "DEL-7" in wire.test_run.violated_clauses:  # then no two lists can be compared
        return
    listed = wire.tools()
    wire.observed(any(tool.get("description") for tool in listed), "the descriptions of tools", "PFX-1")
    steps = [("activate", wire.group), ("activate", wire.group), ("deactivate", wire.group)]
    handle: str | None = None
    before = listed
    for verb, group in steps:
        step = wire.step(verb, group, handle)
        handle = step.handle or handle
        if not wire.observed(step.succeeded and bool(listed), ACTIVATION, "PFX-1"):
            return
        if wire.modern:
            _judge_prefix(wire, TABLE[MODERN].tools, listed, wire.tools(), f"{verb} {group}")
        if not wire.test_run.can("listing"):
            continue
        after = wire.keep(wire.tools(None if handle is None else {HANDLE_META: handle}))
        rule = TABLE[LEGACY].tools if step.change.get("changed", True) else MayChange.NOTHING
        _judge_prefix(wire, rule, before, after, f"{verb} {group}")
        wire.observed(wire.tool in [tool["name"] for tool in (*before, *after)], "a list that follows", "PFX-1")
        before = after


def _judge_prefix(wire: Wire, rule: MayChange, before: list[Json], after: list[Json], what: str) -> None:
    old, new = Prefix(before).tools, Prefix(after).tools
    message = f"{what} changes more of the list than {rule.value}"
    wire.judge("PFX-1", allows(rule, old, new), message, before, after)
