"""What the benchmarks share in their environment: a store for each task, and calls as the benchmarks make them."""
# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from inspect_ai.model import ChatMessageAssistant, ModelOutput, execute_tools
from inspect_ai.solver import TaskState
from inspect_ai.tool import Tool, ToolCall, ToolDef
from inspect_ai.util import Store
from inspect_ai.util._store import init_subtask_store, suspend_store_events


class Benchmark(Protocol):
    """Tools, tasks on them, and what judges the state that is left: one for each set of tasks."""

    def definitions(self) -> list[dict[str, Any]]:
        """Return the tools."""
        ...

    def tasks(self) -> list[dict[str, Any]]:
        """Return the tasks: `id`, `ask`, and `calls` that solve them, each by the `assistant` or by the `user`."""
        ...

    def begin(self, task: str, attack: str | None) -> None:
        """Begin a task in a fresh state, with the texts of an attack in it, if one is named."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Return the answer to a call: its `text`, and whether it is an `error`."""
        ...

    async def score(self) -> dict[str, Any]:
        """Return what the benchmark's checkers say of the state: whether the task is `done`, and why it is not."""
        ...


def definition(name: str, tool: Tool) -> dict[str, Any]:
    """Return a tool as a server lists it."""
    made = ToolDef(tool)
    return {
        "name": name,
        "description": made.description,
        "inputSchema": made.parameters.model_dump(mode="json", exclude_none=True),
    }


async def made_call(tools: Mapping[str, Tool], name: str, arguments: Mapping[str, Any]) -> tuple[ToolCall, str, bool]:
    """Return a call as it stands in a conversation, what it answered, and whether that is an error."""
    call = ToolCall(id="1", function=ToolDef(tools[name]).name, arguments=dict(arguments), type="function")
    said = ChatMessageAssistant(content="", tool_calls=[call])
    with suspend_store_events():  # a record of what changed, which takes most of the time
        answered = (await execute_tools([said], [tools[name]])).messages[0]
    return call, answered.error.message if answered.error else answered.text, bool(answered.error)


def begin_store() -> Store:
    """Return a store in which nothing is yet, which the tools find from now on."""
    init_subtask_store(made := Store())
    return made


def finished(metadata: dict[str, Any], messages: list[Any], said: str) -> TaskState:
    """Return the state of a task that is over, as scorers read it."""
    return TaskState(
        model="none/none",
        sample_id="1",
        epoch=1,
        input="",
        messages=messages,
        output=ModelOutput.from_content("none", said),
        metadata=metadata,
    )
