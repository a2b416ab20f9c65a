"""List, call and change groups as an agent's process does, with one framework: `peers.agents FRAMEWORK`.

Each line of standard input is an operation and a number, such as `list 100`; the answer is a line with a number. It
imports nothing but the framework, so that any interpreter runs it that has that. Time is processor time.
"""
# pyright: reportMissingImports=false

import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from functools import cache
from time import process_time
from typing import Any, Protocol

from . import typed_tools

GROUPS = 50
TOOL = "tool_1"
ARGUMENTS = {"path": "here", "order": "one"}


class Agent(Protocol):
    """A session of an agent, with one of the groups open."""

    async def list(self) -> int:
        """Make the definitions for the model, and return how many tools there are."""
        ...

    async def call(self) -> None:
        """Call a tool of the first group."""
        ...

    async def change(self, number: int) -> None:
        """Open the group of that number, and close the one that was open."""
        ...


class Toolfold:
    """A conversation of Toolfold."""

    def __init__(self) -> None:
        self._conversation: Any = None
        self._open = ""

    async def start(self, tools: Any) -> Agent:
        """Return it with the first group open."""
        from toolfold_adapters.inprocess import Conversation

        self._conversation = await Conversation(tools).start()
        await self.change(0)
        return self

    async def list(self) -> int:
        """Return the number of definitions."""
        return len(self._conversation.tools("openai"))

    async def call(self) -> None:
        """Call a tool."""
        result = await self._conversation.call(f"g0__{TOOL}", ARGUMENTS)
        assert result.content[0]["text"] == "done", result

    async def change(self, number: int) -> None:
        """Change the open group."""
        previous, self._open = self._open, f"g{number}"
        await self._conversation.session.transition(
            activate=[self._open], deactivate=[previous] if previous not in ("", self._open) else []
        )


class PydanticAI:
    """Toolsets of pydantic-ai, of which a function chooses those of the group that the application says is open."""

    def __init__(self) -> None:
        self._context: Any = None
        self._toolset: Any = None
        self._tools: dict[str, Any] = {}

    async def start(self, toolsets: Any) -> Agent:
        """Return it with the first group open."""
        from pydantic_ai import RunContext
        from pydantic_ai.toolsets import DynamicToolset  # type: ignore[attr-defined, unused-ignore]
        from pydantic_ai.usage import RunUsage

        self._context = RunContext(deps={"open": 0}, model=_model(), usage=RunUsage())
        dynamic: Any = DynamicToolset(lambda context: toolsets[context.deps["open"]])
        self._toolset = await dynamic.for_run(self._context)
        return self

    async def list(self) -> int:
        """Return the number of definitions."""
        self._toolset = await self._toolset.for_run_step(self._context)
        self._tools = await self._toolset.get_tools(self._context)
        return len([tool.tool_def for tool in self._tools.values()])

    async def call(self) -> None:
        """Call a tool of the last list, as the tool manager of an agent does: validate, then run."""
        tool = self._tools[TOOL]
        arguments = tool.args_validator.validate_python(ARGUMENTS)
        assert await self._toolset.call_tool(TOOL, arguments, self._context, tool) == "done"

    async def change(self, number: int) -> None:
        """Change the open group: the application's own state."""
        self._context.deps["open"] = number


@cache
def _model() -> Any:
    """Return the model that all sessions share."""
    from pydantic_ai.models.test import TestModel

    return TestModel()


class AgentScope:
    """A toolkit of AgentScope with a tool group for each, and the state of an agent."""

    def __init__(self) -> None:
        self._toolkit: Any = None
        self._state: Any = None

    async def start(self, toolkit: Any) -> Agent:
        """Return it with the first group open."""
        from agentscope.state import AgentState  # type: ignore[import-not-found]

        self._toolkit, self._state = toolkit, AgentState()
        await self.change(0)
        return self

    async def list(self) -> int:
        """Return the number of definitions."""
        return len(await self._toolkit.get_tool_schemas(self._state.tool_context.activated_groups))

    async def call(self) -> None:
        """Call a tool."""
        await self._call(TOOL, ARGUMENTS)

    async def change(self, number: int) -> None:
        """Change the open group by the toolkit's own tool."""
        await self._call("reset_tools", {f"g{number}": True})

    async def _call(self, name: str, arguments: dict[str, Any]) -> None:
        from agentscope.message import ToolCallBlock  # type: ignore[import-not-found]

        call = ToolCallBlock(id="1", name=name, input=json.dumps(arguments))
        async for answer in self._toolkit.call_tool(call, self._state):
            assert answer.state != "error", answer


KINDS: dict[str, Callable[[], Any]] = {"toolfold": Toolfold, "pydantic-ai": PydanticAI, "agentscope": AgentScope}


class Worker:
    """What each operation does; they return seconds, or bytes."""

    def __init__(self, framework: str) -> None:
        self._kind = KINDS[framework]
        made = typed_tools.functions(GROUPS * typed_tools.TOOLS_PER_GROUP)
        self._offered = typed_tools.REGISTER[framework](made)
        self._changes = 0

    async def start(self) -> None:
        """Open the session that is measured; every group once, for what is cached of each."""
        self._agent = await self._kind().start(self._offered)
        for number in [*range(1, GROUPS), 0]:
            await self._agent.change(number)
            assert await self._agent.list() < 2 * typed_tools.TOOLS_PER_GROUP
        await self._agent.call()

    async def list(self, times: int) -> float:
        """Return the seconds of a list when nothing has changed."""
        return await _mean(times, lambda _: self._agent.list())

    async def call(self, times: int) -> float:
        """Return the seconds of a call."""
        return await _mean(times, lambda _: self._agent.call())

    async def change(self, times: int) -> float:
        """Return the seconds to change the open group, with the list of the new one."""

        async def change(number: int) -> None:
            await self._agent.change((number + 1) % GROUPS)
            await self._agent.list()

        seconds = await _mean(times, change)
        await self._agent.change(0)
        self._changes += times
        return seconds

    async def growth(self, times: int) -> float:
        """Return the bytes that a session gains for each of many changes, after as many others."""

        async def change(times: int) -> int:
            for number in range(times):
                await self._agent.change((number + 1) % GROUPS)
            await self._agent.change(0)
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        before = await change(times)
        gained = await change(times) - before
        tracemalloc.stop()
        return gained / times

    async def memory(self, sessions: int) -> float:
        """Return the bytes of an open session, beside many others that share the tools."""
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        opened = [await self._kind().start(self._offered) for _ in range(sessions)]
        for agent in opened:
            await agent.list()
        gc.collect()
        taken = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return taken / len(opened)


async def _mean(times: int, job: Callable[[int], Awaitable[Any]]) -> float:
    gc.collect()
    gc.disable()
    try:
        start = process_time()
        for number in range(times):
            await job(number)
        return (process_time() - start) / times
    finally:
        gc.enable()


async def main(framework: str) -> None:
    """Answer until standard input ends."""
    worker = Worker(framework)
    await worker.start()
    print("ready", flush=True)
    for line in sys.stdin:
        operation, number = line.split()
        print(await getattr(worker, operation)(int(number)), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
