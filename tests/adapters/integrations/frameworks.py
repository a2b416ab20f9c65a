"""How each framework runs a script, by the test model that it has, or in LangChain's case describes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from agents import Agent as SDKAgent
from agents import RunConfig, Runner
from agents.items import ToolCallOutputItem
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.adapters.integrations.support import Framework, Result, Step, identities
from toolfold_adapters.integrations import langchain, openai_agents, pydantic_ai

UNTRACED = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")


def function_model(result: Result, steps: Sequence[Step]) -> FunctionModel:
    """Return pydantic-ai's test model for a script; it records the tools that it is given."""
    script, identity = iter(steps), identities()

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        result.listed.append(sorted(tool.name for tool in info.function_tools))
        calls = next(script, None)
        if calls is None:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart(name, args, tool_call_id=identity()) for name, args in calls])

    return FunctionModel(respond)


async def with_pydantic_ai(tools: Any, *steps: Step, history: Sequence[Any] = (), **options: Any) -> Result:
    result = Result()
    toolset: Any = pydantic_ai.ToolfoldToolset(tools, **options)
    agent = Agent(function_model(result, steps), toolsets=[toolset], retries=3)
    done = await agent.run("Go on", message_history=list(history))
    result.messages = done.all_messages()
    result.answers = [
        part.model_response_str(wrap_if_error=False)
        for message in done.new_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    return result


def scripted(steps: Sequence[Step]) -> ScriptedModel:
    """Return the test model of the OpenAI Agents SDK for a script."""
    identity = identities()
    turns = [[function_call(name, args, call_id=identity()) for name, args in calls] for calls in steps]
    return ScriptedModel([*turns, [assistant_message("done")]])


async def with_openai_agents(tools: Any, *steps: Step, history: Sequence[Any] = (), **options: Any) -> Result:
    model = scripted(steps)
    async with openai_agents.ToolfoldToolset(tools, history=history, **options) as toolset:
        agent = SDKAgent("desk", model=model, mcp_servers=[toolset])
        done = await Runner.run(agent, "Go on", run_config=UNTRACED)
    outputs = [cast("Any", item) for item in done.new_items if isinstance(item, ToolCallOutputItem)]
    return Result(
        [sorted(tool.name for tool in call.tools) for call in model.calls],
        [text_of(item.raw_item["output"]) for item in outputs],
        [*history, *done.new_items],
    )


class ScriptedChat(BaseChatModel):
    """A chat model that follows a script and records the tools that it is bound to."""

    steps: Iterator[Step]
    listed: Any = ()
    identity: Callable[[], str]
    bound: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.model_copy(update={"bound": tuple(sorted(tool.name for tool in tools))})

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.listed.append([*self.bound])
        calls = [{"name": name, "args": args, "id": self.identity()} for name, args in next(self.steps, ())]
        message = AIMessage(content="" if calls else "done", tool_calls=cast("Any", calls))
        return ChatResult(generations=[ChatGeneration(message=message)])


async def with_langchain(tools: Any, *steps: Step, history: Sequence[Any] = (), **options: Any) -> Result:
    listed: list[list[str]] = []
    model = ScriptedChat(steps=iter(steps), listed=listed, identity=identities())
    agent = create_agent(model, middleware=[langchain.ToolfoldToolset(tools, **options)])
    done = await agent.ainvoke(cast("Any", {"messages": [*history, HumanMessage("Go on")]}))
    messages = done["messages"]
    answers = [message for message in messages[len(history) :] if isinstance(message, ToolMessage)]
    return Result(listed, [text_of(one.content) for one in answers], messages)


def text_of(content: Any) -> str:
    """Return the texts in the content of an answer."""
    if isinstance(content, str):
        return content
    parts = [content] if isinstance(content, Mapping) else content
    return "\n".join(str(part["text"]) for part in parts if "text" in part)


FRAMEWORKS: Mapping[str, Framework] = {
    "pydantic-ai": with_pydantic_ai,
    "openai-agents": with_openai_agents,
    "langchain": with_langchain,
}
