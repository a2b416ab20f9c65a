"""What only a protocol shows: definitions, codes, texts, handles, and what lists are functions of (SPEC 8, 9, 18).

Each check is of the legacy era, which has sessions, or of the modern one, which has handles, or of both. They work on
the driver's connections directly. A server that was not made for the kit is checked with the groups that it has.
"""

from __future__ import annotations

import json
from typing import Any

from ..checks import Check
from ..driver import Group, Operation, Setup, Tool
from ..drivers.description import SEPARATORS
from ..drivers.protocol import INVALID_PARAMS
from ..drivers.replies import Reply, WireError
from . import delivery
from .over_mcp import SETUP, Wire, denied, items, mapping, name_in, on, seen

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
UNKNOWN_NAMES = ("no_such_tool", "a.no_such_tool", "", "é")


# -- control tools ----------------------------------------------------------------------------------------------------


@on()
def _advertised(wire: Wire) -> None:
    before = wire.names()
    wire.step("activate", wire.group)
    if wire.names() != before:
        tools = mapping(wire.main.capabilities.get("tools"))
        told = tools.get("listChanged") is True
        wire.judge("NTF-4", told, "its list changes, which it does not advertise as tools.listChanged", True, tools)


@on()
def _told(wire: Wire) -> None:
    group, before = wire.group, {*wire.names(), *wire.controls}
    opened = wire.step("activate", group)
    new = wire.tools_of(group) if wire.modern else [name for name in wire.names() if name not in before]
    untold = wire.untold(opened, new)
    wire.judge("CTL-4", not untold, "the text of an activation leaves out names or parameters", untold, opened.text)
    _judge_structure(wire, opened, group, True, (group,), (), new)
    if not wire.setup.relevant_controls:  # else there is no tool for what is so already
        again = wire.step("activate", group, opened.handle)
        _judge_structure(wire, again, group, False, (group,), ())
    partners = (one for members in wire.setup.exclusions if group in members for one in members)
    partner = next((one for one in partners if one != group and "." not in one), None)
    if partner is not None:
        displacing = wire.step("activate", partner, opened.handle)
        _judge_structure(wire, displacing, partner, True, (partner,), (group,))


def _judge_structure(
    wire: Wire,
    reply: Reply,
    group: str,
    changed: bool,
    active: tuple[str, ...],
    displaced: tuple[str, ...],
    tools: list[str] | None = None,
) -> None:
    """Judge what a control tool's answer tells programs."""
    told = reply.change
    right: dict[str, Any] = {"group": group, "changed": changed, "active": [*active], "displaced": [*displaced]}
    got = {name: _as_paths(wire.setup, told.get(name)) for name in right}
    if tools is not None:
        right["tools"], got["tools"] = sorted(tools), sorted({*map(name_in, items(told.get("tools")))} - wire.controls)
    wire.judge("CTL-4", got == right, "what an answer tells programs is not what happened", right, got)


def _as_paths(setup: Setup, told: Any) -> Any:
    """Return what an answer names, groups by their paths, whatever separates the parts of their names."""
    if isinstance(told, list):
        return [_as_paths(setup, one) for one in items(told)]
    return next((path for path in setup.paths if told in [path.replace(".", one) for one in SEPARATORS]), told)


@on()
def _refused(wire: Wire) -> None:
    child = next((path for path in wire.setup.paths if "." in path), None)
    if child is not None and wire.driver.control("activate", child)[0] in wire.names():
        parent = child.partition(".")[0]
        _judge_refusal(wire, wire.step("activate", child), "a group whose parent is inactive", parent)
    if wire.test_run.can("setups", "limits"):
        setup = Setup(groups=SETUP.groups, tools=SETUP.tools, max_active=1)
        wire.test_run.driver.configure(setup)
        handle = wire.step("activate", "a").handle
        _judge_refusal(wire, wire.step("activate", "d", handle), "a group beyond the limit")
    if wire.test_run.can("setups", "failing hooks"):
        wire.test_run.driver.configure(Setup(groups=[Group("a", hooks=["on_activate"])], tools=[Tool("tool", "a")]))
        wire.test_run.driver.perform(Operation("script", {"group": "a", "phase": "on_activate", "outcome": "fail"}))
        _judge_refusal(wire, wire.step("activate", "a"), "a group whose hook fails")


def _judge_refusal(wire: Wire, reply: Reply, what: str, named: str = "") -> None:
    if reply.refused is not None:
        wire.judge("CTL-5", False, f"activating {what} is an error of the protocol: {reply.refused}")
    elif not reply.is_error:
        wire.judge("CTL-5", False, f"activating {what} is answered without isError", True, reply.is_error)
    else:
        says = bool(reply.text.strip()) and named in reply.text
        wire.judge("CTL-5", says, f"activating {what} is refused without saying what to do", named, reply.text)


@on()
def _defined(wire: Wire) -> None:
    controls = wire.controls
    hints = {"idempotentHint": True, "destructiveHint": False, "openWorldHint": False}
    for tool in wire.tools():
        if tool["name"] not in controls:
            continue
        name, schema, annotations = tool["name"], tool["inputSchema"], mapping(tool.get("annotations"))
        wire.judge("CTL-6", bool(tool.get("description")), f"{name} has no description")
        closed = schema.get("type") == "object" and schema.get("additionalProperties") is False
        wire.judge("CTL-6", closed, f"the input schema of {name} is no closed object", got=schema)
        said = {hint: annotations.get(hint) for hint in hints}
        wire.judge("CTL-6", said == hints, f"the annotations of {name} do not say what it is", hints, said)


# -- calling ----------------------------------------------------------------------------------------------------------


@on()
def _unknown(wire: Wire) -> None:
    hidden = wire.tool if wire.setup.groups else UNKNOWN_NAMES[0]
    is_open = hidden in wire.names()  # by what an earlier check did, if activations are shared
    answers: dict[str, Any] = {}
    for name in dict.fromkeys((*(() if is_open else (hidden,)), *UNKNOWN_NAMES)):
        reply = wire.call(name, {})
        code = reply.refused.code if reply.refused else None
        said = reply.refused.message if reply.refused else reply.text
        right = code == INVALID_PARAMS
        wire.judge("DEL-9", right, f"a call of the tool {name!r}, which is not there", INVALID_PARAMS, code or said)
        data = reply.refused.data if reply.refused else reply.is_error
        answers[name] = [code, said.replace(name, "NAME") if name else said, _nameless(data, name)]
    if is_open or not wire.setup.groups:
        return
    code, said, data = answers[hidden]
    same = [code, denied(said, "NAME", wire.group), data] == answers["no_such_tool"]
    message = "a tool that is not available is answered otherwise than one that does not exist"
    wire.judge("CALL-1", same, message, answers["no_such_tool"], answers[hidden])


def _nameless(data: Any, name: str) -> Any:
    """Return the data of an error without the name of the tool."""
    return json.loads(json.dumps(data).replace(json.dumps(name)[1:-1], "NAME")) if name else data


CALLED = Setup(tools=[Tool("strict", input_schema=SCHEMA), Tool("refuse", does="refuse"), Tool("crash", does="crash")])


@on(CALLED)
def _called(wire: Wire) -> None:
    for wrong in ({"n": "one"}, {}, {"n": 1, "extra": True}):
        reply = wire.call("strict", wrong)
        is_result = reply.refused is None and reply.is_error
        wire.judge(
            "CALL-2", is_result, f"wrong arguments {wrong} are not answered by an isError result", got=seen(reply)
        )
        place = "extra" if "extra" in wrong else "n"
        wire.judge("CALL-2", place in reply.text, f"the answer to {wrong} does not name the place", place, reply.text)
    refused = wire.call("refuse", {})
    reaches = refused.is_error and "refused on purpose" in refused.text
    wire.judge("CALL-3", reaches, "an error meant for the model does not reach it", got=seen(refused))
    crashed = wire.call("crash", {})
    wire.judge("CALL-3", crashed.is_error, "a handler's exception is no isError result", got=seen(crashed))
    said = json.dumps(seen(crashed))
    leaked = [word for word in ("secret", "Traceback", "RuntimeError") if word in said]
    wire.judge("CALL-3", not leaked, "a handler's exception shows internals", got=said)


@on()
def _cursors(wire: Wire) -> None:
    for cursor in ("made up", "MTA", "eyJ9", "0"):
        try:
            got: Any = [tool["name"] for tool in wire.page(cursor)["tools"]]
        except WireError as error:
            got = error.code
        wire.judge("LST-3", got == INVALID_PARAMS, f"the cursor {cursor!r}, which it did not give", INVALID_PARAMS, got)


LEGACY, MODERN, WIRE, THROUGH = "legacy wire", "modern wire", "wire", "call-through"

CHECKS = (
    Check("a modern list is a function of its request", "wire", ("DEL-7",), delivery.equal_inputs, (MODERN,)),
    Check("a legacy connection is a session", "wire", ("DEL-1",), delivery.sessions, (LEGACY, "listing")),
    Check("a list that changes is advertised as one that does", "wire", ("NTF-4",), _advertised, (LEGACY, "listing")),
    Check("the answer to an activation says what changed", "wire", ("CTL-4",), _told, (WIRE,)),
    Check("a refused activation is a result that says what to do", "wire", ("CTL-5",), _refused, (WIRE,)),
    Check("control tools say what they are", "wire", ("CTL-6",), _defined, (WIRE,)),
    Check("unknown and unavailable tools have one answer", "wire", ("CALL-1", "DEL-9"), _unknown, (WIRE,)),
    Check("wrong calls and failing handlers", "wire", ("CALL-2", "CALL-3"), _called, (WIRE, "setups", "calls")),
    Check("a cursor that was not given out is refused", "wire", ("LST-3",), _cursors, (WIRE,)),
    Check("calling through obeys the session", "wire", ("DEL-8",), delivery.through_in_session, (LEGACY, THROUGH)),
    Check("handles stand for what was opened", "wire", ("DEL-2", "DEL-3"), delivery.handles, (MODERN,)),
    Check("handles can't be forged", "wire", ("DEL-3",), delivery.forged, (MODERN,)),
    Check("groups are disclosed to those who ask", "wire", ("DEL-5",), delivery.disclosed, (MODERN,)),
    Check("a request can carry its handle", "wire", ("DEL-11", "DEL-7"), delivery.carried, (MODERN, "listing")),
)
