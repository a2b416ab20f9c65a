"""A model as a player: any that pydantic-ai reaches, by its name and with its key (SPEC EVA-2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from attrs import define

from toolfold import ConfigError
from toolfold.spi import extras_named

from .surfaces import Surface

with extras_named():
    from pydantic_ai import AbstractToolset, Agent, RunContext, ToolDefinition, ToolFailed, UsageLimits
    from pydantic_ai import capture_run_messages as captured
    from pydantic_ai.exceptions import UnexpectedModelBehavior, UsageLimitExceeded, UserError
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model, infer_model
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.toolsets import ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

BASE = "Do what you are asked with the tools that you have. If none of them can do it, say so and call none."
REQUESTS = 30
"""How many requests a model may make for one task."""
_AN_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))


def model_of(name: str) -> Model:
    """Return the model of a name such as `anthropic:claude-sonnet-4-5`.

    Raises:
        ConfigError: There is no such model, or its key or its package is missing.
    """
    try:
        return infer_model(name)
    except (UserError, ValueError, ImportError) as error:
        raise ConfigError(f"The model {name!r} can't be used: {error}") from error


@define(eq=False)
class SurfaceTools(AbstractToolset[object]):
    """What a surface shows, as the toolset of an agent: listed anew before each request."""

    surface: Surface

    @property
    def id(self) -> str | None:
        """None is needed."""
        return None

    async def get_tools(self, ctx: RunContext[object]) -> dict[str, ToolsetTool[object]]:
        """Return the tools that the model reads now."""
        return {
            name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=name,
                    description=one["description"],
                    parameters_json_schema=dict(one["inputSchema"]),
                    sequential=True,
                ),
                max_retries=ctx.max_retries,
                args_validator=_AN_OBJECT,
            )
            for name, one in (await self.surface.definitions()).items()
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[object], tool: ToolsetTool[object]
    ) -> str:
        """Return the answer as the model reads it; raises `ToolFailed` with an error."""
        answer = await self.surface.call(name, tool_args)
        if answer.is_error:
            raise ToolFailed(answer.text)
        return answer.text


async def play(model: Model, surface: Surface, seed: int) -> tuple[str | None, float | None]:
    """Let a model do the task of a surface, and return what stopped it, if anything, and what it cost in dollars.

    The tokens are those that the provider reports; the cost is by the prices that come with pydantic-ai, and `None` for
    a model that they do not have.
    """
    instructions = "\n\n".join(filter(None, [BASE, surface.instructions]))
    agent = Agent(model, instructions=instructions, toolsets=[SurfaceTools(surface)], output_type=str)
    stopped: str | None = None
    with captured() as messages:
        try:
            limits = UsageLimits(request_limit=REQUESTS)
            await agent.run(surface.task.ask, usage_limits=limits, model_settings=ModelSettings(seed=seed))
        except (UsageLimitExceeded, UnexpectedModelBehavior) as error:
            stopped = f"the model stopped: {error}"
    responses = [one for one in messages if isinstance(one, ModelResponse)]
    surface.requests = len(responses)
    surface.input_tokens = sum(one.usage.input_tokens for one in responses)
    surface.output_tokens = sum(one.usage.output_tokens for one in responses)
    surface.context = responses[-1].usage.input_tokens if responses else 0
    return stopped, _cost(responses)


def _cost(responses: Iterable[ModelResponse]) -> float | None:
    try:
        return float(sum(one.cost().total_price for one in responses))
    except (LookupError, ValueError, AssertionError):  # no price, or no usage, or no name is known
        return None
