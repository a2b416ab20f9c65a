"""pydantic-ai's code mode, given a toolset like any agent (`python -m examples.code_mode.with_pydantic_ai`)."""

from __future__ import annotations

import warnings
from typing import Any

import anyio
from pydantic_ai import AbstractToolset, Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.code_mode import CodeMode

from examples.code_mode import Approve, shop, show
from toolfold_adapters.integrations.pydantic_ai import ToolfoldToolset

SNIPPETS = (
    "orders__open()",
    """
answers = [await orders__place(item='tea', count=2)]
cellar__open()
try:
    answers.append(await orders__place(item='milk'))
except Exception as error:
    answers.append(str(error))
answers
""",
    "await cellar__bottles()",
)
"""Code mode has functions of what is listed when the model is asked, so what a snippet opens the next one uses.

Tools that open and close groups are called one at a time, which code mode has without `await`.
"""


async def in_pydantic_ai(approve: Approve) -> list[Any]:
    """Return the results of the snippets that a model writes."""
    results: list[Any] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        returned = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
        results.extend(part.content for part in returned)
        if len(results) == len(SNIPPETS):
            return ModelResponse([TextPart("It is done.")])
        return ModelResponse([ToolCallPart("run_code", {"code": SNIPPETS[len(results)]})])

    def is_risky(ctx: Any, tool: Any, arguments: dict[str, Any]) -> bool:
        approve(tool.name, arguments)
        return False

    toolset: AbstractToolset[Any] = ToolfoldToolset(shop()).approval_required(is_risky)
    agent = Agent(FunctionModel(model), deps_type=object, toolsets=[toolset], capabilities=[CodeMode()])
    await agent.run("Order tea, then count the bottles")
    return results


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "CodeMode: tool .* has no return schema")
    anyio.run(show, in_pydantic_ai)
