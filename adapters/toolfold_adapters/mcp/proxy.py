"""The call-tool proxy, and the handle argument: for clients that never list again (SPEC DEL-2, DEL-8, DEL-12)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from toolfold import (
    Component,
    ConfigError,
    Context,
    InvalidArguments,
    InvalidName,
    Session,
    ToolfoldError,
    ToolResult,
    ToolSet,
    Visibility,
    WireNames,
)
from toolfold.spi import Arguments, check_segment, opened_for

from .meta import ALWAYS_LOAD_META, HANDLE

_HANDLE_SCHEMA = {
    "type": "string",
    "description": "The last handle that you were given, if any.",
}


@frozen
class ToolCall:
    """A call of a tool by its name on the wire, under a handle if there is one."""

    name: str
    arguments: dict[str, Any]
    handle: str | None


class CallToolProxy:
    """`call_tool`: a tool that calls other tools by name.

    Args:
        name: The name of the tool.
        with_handle: Whether its definition has a handle, as it must without sessions; it accepts one anyway.
    """

    def __init__(self, name: str, *, with_handle: bool) -> None:
        self.name = name
        properties = {
            "name": {"type": "string"},
            "arguments": {"type": "object", "description": "As the tool's own schema says."},
        }
        schema: dict[str, Any] = {"type": "object", "required": ["name"], "additionalProperties": False}
        accepted = {**schema, "properties": {HANDLE: _HANDLE_SCHEMA, **properties}}
        self._arguments = Arguments.from_schema(name, accepted)
        definition = {
            "name": name,
            "title": "Call a tool of an open group",
            "description": "Call a tool that is not in your list, once its group is open.",
            "inputSchema": self._arguments.schema if with_handle else {**schema, "properties": properties},
            "_meta": {ALWAYS_LOAD_META: True},
        }
        self.component = Component(
            kind="tool", name=name, rule=Visibility.always(), definition=definition, handler=_never_run
        )

    def unpack(self, arguments: Mapping[str, Any] | None) -> ToolCall:
        """Return the call that the arguments describe, or raise `InvalidArguments`."""
        given = self._arguments.check(self.name, dict(arguments or {}))
        return ToolCall(given["name"], given.get("arguments", {}), given.get(HANDLE))


async def _never_run(arguments: dict[str, Any], context: Context) -> None:
    """Do nothing: a delivery unpacks the call and makes the one inside."""


def with_handle(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a control tool with a handle among its arguments."""
    schema = definition["inputSchema"]
    properties = {**schema.get("properties", {}), HANDLE: _HANDLE_SCHEMA}
    return {**definition, "inputSchema": {**schema, "properties": properties}}


def take_handle(component: Component | None, call: ToolCall) -> ToolCall:
    """Return a call of a control tool with the handle removed from its arguments; any other call unchanged."""
    if component is None or component.control is None or HANDLE not in call.arguments:
        return call
    arguments = dict(call.arguments)
    handle = arguments.pop(HANDLE)
    if not isinstance(handle, str):
        raise InvalidArguments(component.name, {f"arguments.{HANDLE}": "a handle is a string"})
    return ToolCall(call.name, arguments, handle)


async def open_for(session: Session, name: str) -> tuple[str, ...]:
    """Open the groups that a tool needs, if that runs no hook and closes nothing, and return them (SPEC DEL-12)."""
    view = session.view()
    wanted = opened_for(name, view)
    if not wanted:
        return ()
    try:
        return (await session.transition(activate=wanted, view=view)).activated
    except ToolfoldError:
        return ()  # the call is refused for the same reason


def with_opened(result: ToolResult, paths: Sequence[str]) -> ToolResult:
    """Return the answer to a call that also says which groups were opened for it."""
    if not paths:
        return result
    text = f"Opened for this call: {', '.join(paths)}.\n"  # some clients join texts without anything between them
    return evolve(result, content=[{"type": "text", "text": text}, *result.content])


def reserve_names(tools: ToolSet, wire: WireNames, name: str | None) -> None:
    """Register the present and future names of `tools` with `wire`, and reserve `name` for the call-tool proxy, if any.

    Raises:
        ConfigError: Two names would be the same on the wire, or a tool has `name` (SPEC NAM-6, DEL-2). Nothing stays
            reserved then, so that the names are free for another server.
    """
    if name is not None:
        try:
            check_segment(name)
        except InvalidName as error:
            raise ConfigError(f"The call-tool proxy can't be called {name!r}: {error.problem}.") from error

    def admit(registered: str) -> None:
        if wire.to_wire(registered) == name:
            raise ConfigError(
                f"A tool has the name of the call-tool proxy, {name!r}: rename the tool, or the proxy with call_tool="
            )
        wire.admit(registered)

    tools.guard_names(admit, wire.release)
