"""What only the protocol shows: definitions, error codes, texts, handles, and what lists depend on (SPEC 8, 9, 18).

Each check is for the legacy era, which has sessions, for the modern one, which has handles, or for both. The checks use
the driver's connections directly. A server that was not made for the kit is checked with the groups that it has.

A check first asks whether the server showed what a clause is about (`Wire.observed`), and judges only then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..checks import Check
from ..driver import Group, Operation, Setup, Tool
from ..drivers.description import SEPARATORS
from ..drivers.protocol import INVALID_PARAMS
from ..drivers.replies import Reply, WireError
from . import delivery, groups, isolation, tags
from .over_mcp import SETUP, Wire, items, mapping, name_in, on, seen, without_hint

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
UNKNOWN_NAMES = ("no_such_tool", "a.no_such_tool", "", "é")
ACTIVATION = "an activation that succeeds"


# -- control tools ----------------------------------------------------------------------------------------------------


@on()
def _advertised(wire: Wire) -> None:
    before = wire.keep(wire.names())
    wire.step("activate", wire.group)
    if wire.observed(wire.names() != before, "a list that changes", "NTF-4"):
        tools = mapping(wire.main.capabilities.get("tools"))
        message = "its list changes, but it does not advertise tools.listChanged"
        wire.judge("NTF-4", tools.get("listChanged") is True, message, True, tools)


@on()
def _answered(wire: Wire) -> None:
    group, before = wire.group, {*wire.names(), *wire.controls}
    opened = wire.step("activate", group)
    if not wire.observed(opened.succeeded, ACTIVATION, "CTL-4"):
        return
    new = wire.tools_of(group) if wire.modern else [name for name in wire.names() if name not in before]
    if wire.observed(bool(new), "what an activation makes available", "CTL-4"):
        missing = wire.missing_words("CTL-4", opened, new)
        message = "the text of an activation leaves out names or parameters"
        wire.judge("CTL-4", not missing, message, missing, opened.text)
    _judge_change(wire, opened, group, True, (group,), (), new)
    if not wire.setup.relevant_controls:  # else there is no tool that activates an active group
        again = wire.step("activate", group, opened.handle)
        _judge_change(wire, again, group, False, (group,), ())
    partners = (one for members in wire.setup.exclusions if group in members for one in members)
    partner = next((one for one in partners if one != group and "." not in one), None)
    if partner is not None:
        displacing = wire.step("activate", partner, opened.handle)
        _judge_change(wire, displacing, partner, True, (partner,), (group,))


def _judge_change(
    wire: Wire,
    reply: Reply,
    group: str,
    changed: bool,
    active: tuple[str, ...],
    displaced: tuple[str, ...],
    tools: list[str] | None = None,
) -> None:
    """Judge the machine-readable part of a control tool's answer."""
    change = reply.change
    right: dict[str, Any] = {"group": group, "changed": changed, "active": [*active], "displaced": [*displaced]}
    got = {name: _as_paths(wire.setup, change.get(name)) for name in right}
    if tools is not None:
        right["tools"], got["tools"] = (
            sorted(tools),
            sorted({*map(name_in, items(change.get("tools")))} - wire.controls),
        )
    wire.judge("CTL-4", got == right, "the machine-readable answer is not what happened", right, got)


def _as_paths(setup: Setup, named: Any) -> Any:
    """Return names of groups as their paths, whatever separates the segments."""
    if isinstance(named, list):
        return [_as_paths(setup, one) for one in items(named)]
    return next((path for path in setup.paths if named in [path.replace(".", one) for one in SEPARATORS]), named)


@on()
def _refused(wire: Wire) -> None:
    child = next((path for path in wire.setup.paths if "." in path), None)
    if child is not None and _has_control(wire, child):
        _judge_refusal(wire, wire.step("activate", child), "a group whose parent is inactive", child.partition(".")[0])
    if wire.test_run.can("setups", "limits"):
        setup = Setup(groups=SETUP.groups, tools=SETUP.tools, max_active=1)
        wire.test_run.driver.configure(setup)
        handle = wire.step("activate", "a").handle
        if _has_control(wire, "d"):
            _judge_refusal(wire, wire.step("activate", "d", handle), "a group beyond the limit")
    if wire.test_run.can("setups", "failing hooks"):
        wire.test_run.driver.configure(Setup(groups=[Group("a", hooks=["on_activate"])], tools=[Tool("tool", "a")]))
        wire.test_run.driver.perform(Operation("script", {"group": "a", "phase": "on_activate", "outcome": "fail"}))
        if _has_control(wire, "a"):
            _judge_refusal(wire, wire.step("activate", "a"), "a group whose hook fails")


def _has_control(wire: Wire, group: str) -> bool:
    """Return whether there is a control tool to call, which a server that was not made for the kit may not have."""
    listed = wire.driver.control("activate", group)[0] in wire.names()
    if not wire.test_run.can("setups"):
        return listed
    return wire.observed(listed, "a control tool whose call it refuses", "CTL-5")


def _judge_refusal(wire: Wire, reply: Reply, what: str, named: str = "") -> None:
    if reply.refused is not None:
        wire.judge("CTL-5", False, f"activating {what} is an error of the protocol: {reply.refused}")
    elif not reply.is_error:
        wire.judge("CTL-5", False, f"activating {what} is answered without isError", True, reply.is_error)
    else:
        explains = bool(reply.text.strip()) and named in reply.text
        wire.judge("CTL-5", explains, f"activating {what} is refused without saying what to do", named, reply.text)


@on()
def _defined(wire: Wire) -> None:
    controls = wire.controls
    tools = [tool for tool in wire.tools() if tool["name"] in controls]
    if wire.setup.groups:
        wire.observed(bool(tools), "the definition of a control tool", "CTL-6")
    hints = {"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}
    for tool in tools:
        name, schema, annotations = tool["name"], tool["inputSchema"], mapping(tool.get("annotations"))
        wire.judge("CTL-6", bool(tool.get("description")), f"{name} has no description")
        closed = schema.get("type") == "object" and schema.get("additionalProperties") is False
        wire.judge("CTL-6", closed, f"the input schema of {name} is not a closed object", got=schema)
        given = {hint: annotations.get(hint) for hint in hints}
        wire.judge("CTL-6", given == hints, f"{name} lacks the annotations of a control tool", hints, given)


# -- calling ----------------------------------------------------------------------------------------------------------


@on()
def _unknown(wire: Wire) -> None:
    listed = wire.names()
    closed = {tool: path for path in wire.setup.paths for tool in wire.tools_of(path) if tool not in listed}
    replies: dict[str, Reply] = {}
    for name in (*UNKNOWN_NAMES, *closed):
        reply = replies[name] = wire.call(name, {})
        if (code := _code(reply)) != INVALID_PARAMS:
            message = f"a call of the tool {name!r}, which is not there, is not refused with −32602"
            wire.judge("DEL-9", False, message, INVALID_PARAMS, code or reply.text)
        if name in closed or name == UNKNOWN_NAMES[0]:
            wire.keep(reply)
    if all(_code(reply) == INVALID_PARAMS for reply in replies.values()) and _answers_known_tools(wire):
        wire.judge("DEL-9", True, "")
    _judge_closed(wire, {tool: (group, replies[tool]) for tool, group in closed.items()}, replies[UNKNOWN_NAMES[0]])


def _judge_closed(wire: Wire, closed: Mapping[str, tuple[str, Reply]], missing: Reply) -> None:
    """Judge that each tool of a closed group is refused as one that does not exist is (SPEC CALL-1)."""
    unknown = _nameless(missing, UNKNOWN_NAMES[0])
    for tool, (group, reply) in closed.items():
        code, text, data = _nameless(reply, tool)
        if [code, without_hint(text, group), data] != unknown:
            message = f"{tool}, which is not available, is answered otherwise than a tool that does not exist"
            wire.judge("CALL-1", False, message, unknown, [code, text, data])
            return
    if (
        closed
        and wire.tool in closed
        and _is_answered_once_open(wire, wire.tool, _nameless(closed[wire.tool][1], wire.tool))
    ):
        wire.judge("CALL-1", True, "")


def _code(reply: Reply) -> int | None:
    return None if reply.refused is None else reply.refused.code


def _answers_known_tools(wire: Wire) -> bool:
    """Return whether a tool that is there is answered otherwise than those that are not, if there is one to call."""
    if wire.harmless is None:
        return True
    answered = _code(wire.call(*wire.harmless)) != INVALID_PARAMS
    return wire.observed(answered, "that any tool is known", "DEL-9")


def _is_answered_once_open(wire: Wire, tool: str, closed: list[Any]) -> bool:
    """Return whether a tool is answered otherwise once its group is active."""
    opened = _nameless(wire.call_under(wire.step("activate", wire.group).handle, tool), tool)
    return wire.observed(opened != closed, "a tool that is available in one state and not in another", "CALL-1")


def _nameless(reply: Reply, name: str) -> list[Any]:
    """Return the code, the text and the data with which a call was refused, without the name of the tool."""
    error = reply.refused
    code, text, data = (error.code, error.message, error.data) if error else (None, reply.text, reply.is_error)
    if not name:
        return [code, text, data]
    return [code, text.replace(name, "NAME"), json.loads(json.dumps(data).replace(json.dumps(name)[1:-1], "NAME"))]


CALLED = Setup(tools=[Tool("strict", input_schema=SCHEMA), Tool("refuse", does="refuse"), Tool("crash", does="crash")])


@on(CALLED)
def _called(wire: Wire) -> None:
    right = wire.call("strict", {"n": 1})
    if not wire.observed(right.succeeded, "a call that succeeds", "CALL-2", "CALL-3"):
        return
    for wrong in ({"n": "one"}, {}, {"n": 1, "extra": True}):
        reply = wire.call("strict", wrong)
        is_result = reply.refused is None and reply.is_error
        message = f"wrong arguments {wrong} are not answered by an isError result"
        wire.judge("CALL-2", is_result, message, got=seen(reply))
        place = "extra" if "extra" in wrong else "n"
        wire.judge("CALL-2", place in reply.text, f"the answer to {wrong} does not name the place", place, reply.text)
    refused = wire.call("refuse", {})
    reaches = refused.is_error and "refused on purpose" in refused.text
    wire.judge("CALL-3", reaches, "an error meant for the model does not reach it", got=seen(refused))
    crashed = wire.call("crash", {})
    wire.judge("CALL-3", crashed.is_error, "a handler's exception is not an isError result", got=seen(crashed))
    text = json.dumps(seen(crashed))
    leaked = [word for word in ("secret", "Traceback", "RuntimeError") if word in text]
    wire.judge("CALL-3", not leaked, "a handler's exception shows internals", got=text)


@on()
def _cursors(wire: Wire) -> None:
    if not wire.observed(bool(wire.names()), "a list with anything on it", "LST-3"):
        return
    for cursor in ("made up", "MTA", "eyJ9", "0"):
        try:
            got: Any = [tool["name"] for tool in wire.page(cursor)["tools"]]
        except WireError as error:
            got = error.code
        message = f"the cursor {cursor!r}, which it did not give, is not refused with −32602"
        wire.judge("LST-3", got == INVALID_PARAMS, message, INVALID_PARAMS, got)


LEGACY, MODERN, WIRE, PROXY = "legacy wire", "modern wire", "wire", "call-through"

CHECKS = (  # first those without a call, after which a server need not be started anew
    Check("control tools say what they are", "wire", ("CTL-6",), _defined, (WIRE,)),
    Check("a cursor that was not given out is refused", "wire", ("LST-3",), _cursors, (WIRE,)),
    Check("a modern list is a function of its request", "wire", ("DEL-7",), delivery.equal_inputs, (MODERN,)),
    Check("a legacy connection is a session", "wire", ("DEL-1",), delivery.sessions, (LEGACY, "listing")),
    Check(
        "a fact whose request is cancelled is notified of",
        "wire",
        ("NTF-3",),
        delivery.cancelled,
        (LEGACY, "setups", "listing", "facts", "notifications", "waiting"),
    ),
    Check("a list that changes is advertised as one that does", "wire", ("NTF-4",), _advertised, (LEGACY, "listing")),
    Check("the answer to an activation says what changed", "wire", ("CTL-4",), _answered, (WIRE,)),
    Check("a refused activation is a result that says what to do", "wire", ("CTL-5",), _refused, (WIRE,)),
    Check("unknown and unavailable tools have one answer", "wire", ("CALL-1", "DEL-9"), _unknown, (WIRE,)),
    Check("wrong calls and failing handlers", "wire", ("CALL-2", "CALL-3"), _called, (WIRE, "setups", "calls")),
    Check("calling through obeys the session", "wire", ("DEL-8",), delivery.proxied, (LEGACY, PROXY)),
    Check("handles stand for what was opened", "wire", ("DEL-2", "DEL-3"), delivery.handles, (MODERN,)),
    Check("handles can't be forged", "wire", ("DEL-3",), delivery.forged, (MODERN,)),
    Check("handles are not taken for ever, nor everywhere", "wire", ("DEL-3",), delivery.outdated, (MODERN, "setups")),
    Check("groups are disclosed to those who ask", "wire", ("DEL-5",), groups.disclosed, (MODERN,)),
    Check("a request can carry its handle", "wire", ("DEL-11", "DEL-7"), delivery.carried, (MODERN, "listing")),
    Check("a transition leaves a prefix as it was", "wire", ("PFX-1",), delivery.prefixes, (WIRE,)),
    Check("what one client does is nothing to another", "wire", ("ISO-1",), isolation.isolated, (WIRE, "sessions")),
    *tags.CHECKS,
)
