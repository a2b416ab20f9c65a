"""What the tests of the integrations share: a tool set, and one way to run a script in each framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Protocol

from attrs import Factory, define

from toolfold import Context, HookContext, ToolError, ToolResult, ToolSet

Step = Sequence[tuple[str, dict[str, Any]]]
"""The calls of one response of the model."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
START = ["close_group", "open_group", "ping"]


@define
class Result:
    """What a run of a script came to: the tools that each step was given, and the answers to its calls."""

    listed: list[list[str]] = Factory(list[list[str]])
    answers: list[str] = Factory(list[str])
    messages: list[Any] = Factory(list[Any])


class Framework(Protocol):
    """How a framework runs a script."""

    async def __call__(self, tools: Any, *steps: Step, history: Sequence[Any] = (), **options: Any) -> Result:
        """Run the steps in a new agent and conversation, which goes on from the messages of an earlier result."""
        ...


def desk(ran: list[str] | None = None, **options: Any) -> ToolSet:
    """Groups in a hierarchy, an exclusion, hooks, and tools with all kinds of results."""

    def hook(context: HookContext) -> None:
        if ran is not None:
            ran.append(f"{context.phase.removeprefix('on_')} {context.group}")

    tools = ToolSet("desk", **{"control": "open_group", **options})
    tools.register_group("db", "Look things up", on_activate=hook, on_deactivate=hook)
    tools.register_group("write", "Change rows", parent="db", on_activate=hook, on_deactivate=hook)
    tools.register_group("shop", "Sell things")
    tools.register_exclusion("db", "shop")

    @tools.tool()
    def ping() -> str:
        """Answer at once."""
        return "pong"

    @tools.tool(group="db")
    def query(limit: int) -> dict[str, Any]:
        """Return rows."""
        return {"rows": limit}

    @tools.tool(group="db.write")
    def insert(config: str) -> str:
        """Insert a row."""
        return f"inserted {config}"

    @tools.tool(group="shop")
    def picture() -> ToolResult:
        """Return a picture."""
        image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        return ToolResult(({"type": "text", "text": "a pixel"}, image))

    @tools.tool(group="shop")
    def sell() -> str:
        """Sell."""
        raise ToolError("nothing left to sell")

    @tools.tool(group="shop")
    def seen(context: Context) -> str:
        """Name what the framework passes on."""
        return type(context.request).__name__

    return tools


def kinds() -> ToolSet:
    """A tool whose result has content of every kind."""
    tools = ToolSet("kinds")
    blob = {"uri": "file:///a.pdf", "mimeType": "application/pdf", "blob": "JVBERg=="}
    blocks: list[dict[str, Any]] = [
        {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "a text"}},
        {"type": "resource", "resource": blob},
        {"type": "resource_link", "uri": "file:///b.txt", "name": "b"},
        {"type": "new", "of": "a later version"},
    ]
    tools.register("all", lambda: ToolResult(tuple(blocks)), description="Return all kinds")
    tools.register("list", lambda: ToolResult(structured=[1]), description="Return a list")
    return tools


def opening(*groups: str) -> Step:
    return [("open_group", {"group": group}) for group in groups]


def closing(group: str) -> Step:
    return [("close_group", {"group": group})]


def identities() -> Callable[[], str]:
    """Return a function that returns a new id for a call each time."""
    numbers = count()
    return lambda: f"c{next(numbers)}"
