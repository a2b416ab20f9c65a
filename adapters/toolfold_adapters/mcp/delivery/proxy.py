"""The call-tool proxies, and the handle argument: for clients that never list again (SPEC DEL-2, DEL-8, CTL-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from toolfold import (
    Catalog,
    Component,
    ConfigError,
    Context,
    InvalidName,
    Session,
    ToolfoldError,
    ToolResult,
    ToolSet,
    Visibility,
    WireNames,
    qualified_name,
)
from toolfold.spi import HANDLE, Arguments, RequestView, available, opened_for, quoted, table

from ...names import ALWAYS_LOAD_META
from .answers import cut
from .render import with_text

HANDLE_SCHEMA = {
    "type": "string",
    "description": "The last handle that you were given, if any.",
}


@frozen
class ToolCall:
    """A call of a tool by its name on the wire, under a handle if there is one."""

    name: str
    arguments: dict[str, Any]
    handle: str | None


READ_TOOL = "read_tool"
"""The name of the proxy that calls only tools which say that they read."""


class CallToolProxy:
    """`call_tool`: a tool that calls other tools by name; or its sister, which calls only those that read.

    Args:
        name: The name of the tool.
        with_handle: Whether its definition has a handle, as it must without sessions; it takes one anyway (SPEC CTL-8).
        instead: The proxy for tools that do not say that they only read, if this one refuses them (SPEC CTL-9).
    """

    def __init__(self, name: str, *, with_handle: bool, instead: str | None = None) -> None:
        self.name = name
        self._instead = instead
        handle = {HANDLE: HANDLE_SCHEMA} if with_handle else {}
        schema = {
            "type": "object",
            "properties": {
                **handle,
                "name": {"type": "string"},
                "arguments": {"type": "object", "description": "As the tool's own schema says."},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
        self._arguments = Arguments.passing_handle(name, schema)
        which = "a tool that only reads and" if instead else "a tool that"
        reads = {"annotations": {"readOnlyHint": True}} if instead else {}
        definition = {
            "name": name,
            "title": "Read by a tool of an open group" if instead else "Call a tool of an open group",
            "description": f"Call {which} is not in your list, once its group is open.",
            "inputSchema": schema,
            **reads,
        }
        self.component = proxy_component(definition)

    def unpack(self, arguments: Mapping[str, Any] | None) -> ToolCall:
        """Return the call that the arguments describe, or raise `InvalidArguments`."""
        given = self._arguments.check(self.name, dict(arguments or {}))
        return ToolCall(given["name"], given.get("arguments", {}), given.get(HANDLE))

    def calls(self, component: Component | None) -> bool:
        """Return whether this proxy makes calls of a tool, if it is available."""
        annotations = table(component.definition.get("annotations")) if component is not None else None
        return self._instead is None or (annotations or {}).get("readOnlyHint") is True

    def refusal(self, asked: str, component: Component | None, view: RequestView) -> ToolResult | None:
        """Return the answer to a call of a tool by the name `asked` that this proxy does not make, or `None`.

        What is not available is not refused here: nothing is said of it, not even whether it reads (SPEC CALL-1).
        """
        if self.calls(component) or component is None or not available(component, view):
            return None
        text = f"{quoted(asked)} does not say that it only reads: call it by {self._instead}."
        return ToolResult.of_text(text, is_error=True)


def proxy_component(definition: dict[str, Any]) -> Component:
    """Return a tool that calls others: it is always there, and stays in view."""
    whole = {**definition, "_meta": {ALWAYS_LOAD_META: True}}
    rule = Visibility.always()
    return Component(kind="tool", name=definition["name"], rule=rule, definition=whole, handler=_never_run)


async def _never_run(arguments: dict[str, Any], context: Context) -> None:
    """Do nothing: a delivery unpacks the call and makes the one inside."""


def with_handle(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a control tool with a handle among its arguments."""
    schema = definition["inputSchema"]
    properties = {**schema.get("properties", {}), HANDLE: HANDLE_SCHEMA}
    return {**definition, "inputSchema": {**schema, "properties": properties}}


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


def with_opened(result: ToolResult, paths: Sequence[str], catalog: Catalog, room: int) -> ToolResult:
    """Return the answer to a call that also says which groups were opened for it, and their instructions (SKL-1)."""
    text = f"Opened for this call: {', '.join(paths)}.\n"  # some clients join texts without anything between them
    if instructions := catalog.instructions(paths):
        text += f"\n{cut(instructions, room - len(text) - len(result.text) - 3)}\n"
    return with_text(result, text, first=True)


def reserve_names(tools: ToolSet, wire: WireNames, names: Sequence[str]) -> None:
    """Register the present and future names of `tools` with `wire`, and reserve `names` for the call-tool proxies.

    Raises:
        ConfigError: Two names would be the same on the wire, or a tool has one of `names` (SPEC NAM-6, DEL-2). Nothing
            stays reserved then, so that the names are free for another server.
    """
    if len({*names}) < len(names):
        raise ConfigError(f"The call-tool proxy can't be called {names[0]!r}: that is the name of another one.")
    for name in names:
        try:
            qualified_name("", name)
        except InvalidName as error:
            raise ConfigError(f"The call-tool proxy can't be called {name!r}: {error.problem}.") from error

    def admit(registered: str) -> None:
        if (name := wire.to_wire(registered)) in names:
            proxy = "the proxy with call_tool=" if name == names[0] else f"leave out {name}="
            raise ConfigError(f"A tool has the name of the call-tool proxy, {name!r}: rename the tool, or {proxy}")
        wire.admit(registered)

    tools.guard_names(admit, wire.release)
