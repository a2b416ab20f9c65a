"""One tool set in three agent frameworks, with models that follow a script (`python -m examples.agents`).

pydantic-ai, the OpenAI Agents SDK and LangChain can each withhold tools from a model until it asks for them. Which
tools need others, which must not be there together, what is set up with them and taken down after them, and how many
there may be at once, is known to the tools alone: here it is declared once, and holds in all three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anyio
from agents import Agent as SDKAgent
from agents import RunConfig, Runner
from agents.testing import ScriptedModel, assistant_message, function_call
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from toolfold import ListBudget, ToolSet
from toolfold_adapters.integrations import langchain, openai_agents, pydantic_ai
from toolfold_adapters.tokens import approximate_tokens


def office(log: Callable[[str], None]) -> ToolSet:
    """Return the tools of a shop's back office: eleven, most of them in groups."""
    budget = ListBudget(BUDGET, approximate_tokens)
    tools = ToolSet("office", control="open_group", list_budget=budget, evict="oldest")
    tools.register_group("orders", "Look at orders")
    tools.register_group(
        "refunds",
        "Pay money back",
        parent="orders",
        on_activate=lambda: log("a transaction begins"),
        on_deactivate=lambda: log("the transaction is committed"),
    )
    tools.register_group("reports", "Figures of the month")
    tools.register_group("stock", "What is on the shelves")
    tools.register_group("mail", "Write to customers")
    tools.register_exclusion("orders.refunds", "reports")  # no figures while money is moving

    def answer(text: str) -> Callable[[], str]:
        return lambda: text

    for group, name, text in (
        (None, "clock", "It is noon."),
        ("orders", "find", "Order 7: one lamp, broken."),
        ("orders", "history", "Two orders."),
        ("orders.refunds", "refund", "Order 7 is paid back."),
        ("orders.refunds", "voucher", "A voucher is on its way."),
        ("reports", "sales", "312 lamps."),
        ("reports", "returns", "4 lamps."),
        ("stock", "count", "17 lamps."),
        ("stock", "order", "100 lamps are ordered."),
        ("mail", "draft", "Dear customer, …"),
        ("mail", "send", "Sent."),
    ):
        tools.register(name, answer(text), description=f"{name.capitalize()} ({group or 'always there'})", group=group)
    return tools


BUDGET = 500
"""How long the list of tools may be, in tokens."""

SCRIPT: Sequence[tuple[str, dict[str, Any]]] = (
    ("open_group", {"group": "orders.refunds"}),
    ("open_group", {"group": "orders"}),
    ("orders__find", {}),
    ("open_group", {"group": "orders.refunds"}),
    ("orders__refunds__refund", {}),
    ("open_group", {"group": "reports"}),
    ("open_group", {"group": "stock"}),
    ("open_group", {"group": "mail"}),
    ("mail__send", {}),
)


Outcome = tuple[list[list[str]], list[str]]
"""The names of the tools that the model was given at each step, and the answers to its calls."""


async def with_pydantic_ai(tools: ToolSet) -> Outcome:
    """Run the script with pydantic-ai."""
    listed: list[list[str]] = []
    script = iter(SCRIPT)

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        listed.append([tool.name for tool in info.function_tools])
        call = next(script, None)
        return ModelResponse(parts=[TextPart("Done.") if call is None else ToolCallPart(*call)])

    agent = Agent(FunctionModel(model), toolsets=[pydantic_ai.ToolfoldToolset(tools)])
    done = await agent.run("Order 7 arrived broken.")
    parts = [part for message in done.new_messages() for part in message.parts]
    return listed, [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


async def with_openai_agents(tools: ToolSet) -> Outcome:
    """Run the script with the OpenAI Agents SDK."""
    calls = [function_call(name, args, call_id=str(number)) for number, (name, args) in enumerate(SCRIPT)]
    model = ScriptedModel([*([call] for call in calls), [assistant_message("Done.")]])
    async with openai_agents.ToolfoldToolset(tools) as toolset:
        agent = SDKAgent("office", model=model, mcp_servers=[toolset])
        config = RunConfig(tracing_disabled=True, tool_not_found_behavior="return_error_to_model")
        done = await Runner.run(agent, "Order 7 arrived broken.", max_turns=20, run_config=config)
    outputs: list[Any] = [item for item in done.new_items if item.type == "tool_call_output_item"]
    return [[tool.name for tool in call.tools] for call in model.calls], [item.output["text"] for item in outputs]


async def with_langchain(tools: ToolSet) -> Outcome:
    """Run the script with LangChain."""
    model = ScriptedChat(listed=[])
    agent: Any = create_agent(model, middleware=[langchain.ToolfoldToolset(tools)])
    done = await agent.ainvoke({"messages": [HumanMessage("Order 7 arrived broken.")]})
    return model.listed, [message.text for message in done["messages"] if isinstance(message, ToolMessage)]


class ScriptedChat(BaseChatModel):
    """A chat model that follows the script."""

    listed: Any
    bound: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self.model_copy(update={"bound": tuple(tool.name for tool in tools)})

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        step = len(self.listed)
        self.listed.append([*self.bound])
        calls = [{"name": name, "args": args, "id": str(step)} for name, args in SCRIPT[step : step + 1]]
        message = AIMessage(content="" if calls else "Done.", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=message)])


async def main() -> None:
    """Run the script in each framework; print what happens once, since it is the same in all."""
    frameworks = {"pydantic-ai": with_pydantic_ai, "openai-agents": with_openai_agents, "langchain": with_langchain}
    runs: dict[str, tuple[Outcome, list[str]]] = {}
    for name, run in frameworks.items():
        hooks: list[str] = []
        runs[name] = await run(office(hooks.append)), hooks
    (listed, answers), hooks = runs["pydantic-ai"]
    print("tools  the model calls              and is answered")
    for (tool, args), given, answer in zip(SCRIPT, listed, answers, strict=False):
        print(f"{len(given):>5}  {' '.join((tool, *args.values())):27}  {answer.splitlines()[0]}")
    everything = [tool for tool in office(print).catalog.tools.values() if tool.control is None]
    same = [name for name, run in runs.items() if run == runs["pydantic-ai"]]
    print(f"""
Hierarchy:  refunds were refused until orders were open.
Hooks:      with the refunds, {", and with the reports, ".join(hooks)}.
Exclusion:  the reports closed the refunds.
Budget:     the mail did not fit beside the orders, which were open for longest.
Without groups, each step has all {len(everything)} tools. So it went in {", ".join(same)}.""")


if __name__ == "__main__":
    anyio.run(main)
