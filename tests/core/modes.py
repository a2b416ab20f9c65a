"""What the tests of composite tools share: an application state that counts its readings, and a tool over it."""

import json
from collections.abc import Callable
from typing import Any

from toolfold import Component, Mode, Modes, Session, ToolSet, View

WHAT: dict[str, Any] = {
    "type": "object",
    "properties": {"what": {"type": "string", "enum": ["errors", "network", "actions"]}, "limit": {"type": "integer"}},
    "required": ["what"],
    "additionalProperties": False,
}


class Buffers:
    """An application state that counts how often it is read."""

    def __init__(self, **held: int) -> None:
        self.held = held
        self.readings = 0

    def read(self) -> dict[str, int]:
        self.readings += 1
        return dict(self.held)

    def take(self) -> int:
        """Return the readings since the last time."""
        taken, self.readings = self.readings, 0
        return taken


def there(name: str) -> Callable[[View], bool]:
    return lambda view: view.state.get(name, 0) > 0


def number(name: str) -> Callable[[View], int]:
    return lambda view: int(view.state.get(name, 0))


def mode(name: str) -> Mode:
    return Mode(available=there(name), count=number(name))


ERRORS = Mode(count=number("errors"))
OBSERVE = Modes("what", {"errors": ERRORS, "network": mode("network"), "actions": mode("actions")})


def answer(arguments: dict[str, Any]) -> str:
    return json.dumps(arguments)


def observing(buffers: Buffers, modes: Modes = OBSERVE, **settings: Any) -> ToolSet:
    tools = ToolSet("page", state=buffers.read, **settings)
    tools.register("observe", answer, input_schema=WHAT, modes=modes)
    return tools


def shown(tools: ToolSet | Session, name: str = "observe") -> Component:
    return {spec.name: spec for spec in tools.list_tools().tools}[name]


def enum_of(tools: ToolSet | Session, name: str = "observe") -> list[str]:
    enum: list[str] = shown(tools, name).input_schema["properties"]["what"]["enum"]
    return enum


def modes_of(**modes: Any) -> Modes:
    return Modes("what", {name: modes.get(name, Mode()) for name in ("errors", "network", "actions")})
