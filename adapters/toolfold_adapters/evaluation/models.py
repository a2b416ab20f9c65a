"""A model as a player: any that pydantic-ai reaches, by its name and key or at an address (SPEC EVA-2).

What goes wrong with a request is a result of its task: the run goes on with the next one. Only where nothing answered
yet does a run end, since the address, the key or the name of the model is wrong then.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from anyio import move_on_after
from attrs import define, field

from toolfold import ConfigError
from toolfold.spi import extras_named, frozen, table

from .choosing import Chooser, chosen_in, lines_of, schema_of
from .suggesting import LONGEST, Writer
from .surfaces import Exchange, Malformed, Played, Stopped, Surface, Why

with extras_named("evaluate"):
    from pydantic_ai import (
        AbstractToolset,
        Agent,
        NativeOutput,
        RunContext,
        StructuredDict,
        ToolDefinition,
        ToolFailed,
        UsageLimits,
    )
    from pydantic_ai import exceptions as failures
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models import Model, ModelRequestParameters, infer_model
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.toolsets import ToolsetTool
    from pydantic_core import SchemaValidator, core_schema

BASE = "Do what you are asked with the tools that you have. If none of them can do it, say so and call none."
CHOOSE = "Which of these does what is requested? Answer with its name."
WRITE = "Write what a person asks for who needs what is described: one short sentence, with the words of everyday life."
REQUEST = "request"
REQUESTS = 30
"""How many requests a model may make for one task."""
MALFORMED = 5
"""How many malformed calls a model may make in one task."""
_AN_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
_OVERFLOW = re.compile(r"context.{0,40}(size|length|window|limit)|too many tokens|prompt is too long", re.IGNORECASE)
WHY: tuple[tuple[type[Exception], Why], ...] = (
    (failures.ModelContextWindowExceededError, "context"),
    (failures.ContentFilterError, "refusal"),
    (failures.OutputTokenLimitExceeded, "output"),
    (failures.ModelTimeoutError, "time"),
    (failures.ModelRequestTimeout, "time"),
    (failures.ModelConnectionError, "unreachable"),
    (failures.ModelAuthenticationError, "unreachable"),
    (failures.ModelNotFoundError, "unreachable"),
    (failures.UsageLimitExceeded, "requests"),
    (failures.AgentRunError, "error"),
)
"""What ended a task, by the error of pydantic-ai; the first row that fits counts."""


@frozen(kw_only=True)
class Settings:
    """How a model is asked; what is `None` is as the provider has it.

    Attributes:
        max_tokens: How many tokens it may write in one request.
        temperature: How far it strays from the likeliest token.
        context: How many tokens it may read in one request, by our count; a longer one is not sent.
        timeout: How many seconds one task may take.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    context: int | None = None
    timeout: float | None = None


def model_of(name: str, base_url: str | None = None) -> Model:
    """Return the model of a name such as `anthropic:claude-sonnet-4-5`, or of one that an address serves.

    At `base_url` is an API with the chat completions of OpenAI. It gets the key in `OPENAI_API_KEY`, if there is one.

    Raises:
        ConfigError: There is no such model, or its key or its package is missing.
    """
    try:
        if base_url is None:
            return infer_model(name)
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        key = os.environ.get("OPENAI_API_KEY") or "none"
        return OpenAIChatModel(name, provider=OpenAICompatibleProvider("local", base_url=base_url, api_key=key))
    except ImportError as error:
        raise ConfigError(
            f'The model {name!r} needs a package that is missing: pip install "toolfold[evaluate]", or, for other '
            f"providers than Anthropic and those with OpenAI's API: {error}"
        ) from error
    except (failures.UserError, ValueError) as error:
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


@define
class Notes:
    """What was exchanged with a model in one task."""

    responses: list[ModelResponse] = field(factory=list[ModelResponse])
    exchanges: list[Exchange] = field(factory=list[Exchange])
    texts: list[str] = field(factory=list[str])
    malformed: list[Malformed] = field(factory=list[Malformed])


class CheckedModel(WrapperModel):
    """A model of whose answers a malformed one is an error of its request, whatever fails to read it."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer; raises `UnexpectedModelBehavior` where it can't be read."""
        try:
            return await super().request(messages, model_settings, model_request_parameters)
        except (failures.AgentRunError, failures.UserError):
            raise
        except Exception as error:
            text = f"a malformed answer ({type(error).__name__}: {error})"
            raise failures.UnexpectedModelBehavior(text) from error


class NotedModel(CheckedModel):
    """A model whose requests are counted as they are sent, and whose answers are noted."""

    def __init__(self, wrapped: Model, surface: Surface, notes: Notes, context: int | None) -> None:
        super().__init__(wrapped)
        self.surface, self.notes, self.context = surface, notes, context

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Return the answer; raises `Stopped` where a limit of ours ends the task."""
        surface, notes = self.surface, self.notes
        if len(notes.malformed) > MALFORMED:
            raise Stopped("malformed", f"{len(notes.malformed)} malformed calls, {notes.malformed[-1].problem}")
        offered = await surface.request()
        if self.context is not None and surface.context > self.context:
            raise Stopped("context", f"about {surface.context:,} tokens do not fit in {self.context:,}")
        response = await super().request(messages, model_settings, model_request_parameters)
        notes.responses.append(response)
        usage = response.usage
        notes.exchanges.append(Exchange(sent=surface.context, read=usage.input_tokens, written=usage.output_tokens))
        for part in response.parts:
            if isinstance(part, TextPart) and part.content:
                notes.texts.append(part.content)
                surface.said.append(part.content)
            elif isinstance(part, ToolCallPart) and (problem := _problem(part, offered)):
                written = part.args if isinstance(part.args, str) else part.args_as_json_str()
                notes.malformed.append(Malformed(part.tool_name, written, problem))
                surface.said.append(written)
        return response


def _problem(call: ToolCallPart, offered: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the form of a call, before anything is asked whether it may be made."""
    if call.tool_name not in offered:
        return f"there is no tool {call.tool_name!r}"
    try:
        given = json.loads(call.args or "{}") if isinstance(call.args, str | None) else call.args
    except (ValueError, RecursionError):
        return "its arguments are no JSON"
    return None if table(given) is not None else "its arguments are no object"


async def play(model: Model, surface: Surface, seed: int, settings: Settings | None = None) -> Played:
    """Let a model do the task of a surface, and return what was exchanged, what stopped it, and the cost in dollars.

    The tokens that it reads are those that the provider reports; beside them are those that were sent, as we count
    them. The cost is by the prices that come with pydantic-ai, and `None` for a model that they do not have.
    """
    asked, notes = settings or Settings(), Notes()
    surface.said.append(BASE)
    agent = Agent(
        NotedModel(model, surface, notes, asked.context),
        instructions="\n\n".join(filter(None, [BASE, surface.instructions])),
        toolsets=[SurfaceTools(surface)],
        output_type=str,
        retries={"tools": REQUESTS, "output": 1},
    )
    stopped: Stopped | None = None
    with move_on_after(asked.timeout) as limit:
        try:
            limits = UsageLimits(request_limit=REQUESTS)
            await agent.run(surface.task.ask, usage_limits=limits, model_settings=_settings(asked, seed))
        except Stopped as error:
            stopped = error
        except failures.AgentRunError as error:
            stopped = Stopped(_why(error), _words(error))
    if limit.cancelled_caught:
        stopped = _late(asked)
    return Played(
        why=stopped.why if stopped else None,
        stopped=stopped.said if stopped else None,
        cost=_cost(notes.responses),
        exchanges=tuple(notes.exchanges),
        texts=tuple(notes.texts),
        malformed=tuple(notes.malformed),
    )


def chooser_of(model: Model, seed: int, settings: Settings | None = None) -> Chooser:
    """Return what has a model choose a name: its answer is constrained to be one of them.

    The chooser raises `Stopped` for a request that goes wrong, and `ConfigError` if the model is not reached.
    """
    asked = settings or Settings()

    async def choose(request: str, offered: Mapping[str, str]) -> str | None:
        output = StructuredDict(schema_of([*offered]), name="choice")
        agent = Agent(CheckedModel(model), instructions=CHOOSE, output_type=NativeOutput(output), retries=0)
        prompt = f"{lines_of(offered)}\n\nRequest: {request}"
        return chosen_in(await _answer(agent, prompt, model, asked, seed), offered)

    return choose


def writer_of(model: Model, seed: int, settings: Settings | None = None) -> Writer:
    """Return what has a model write a request for what a tool does.

    The writer returns `None` for one that goes wrong; it raises `ConfigError` if the model is not reached.
    """
    asked = settings or Settings()
    text = {"type": "string", "minLength": 1, "maxLength": LONGEST}
    schema = {"type": "object", "properties": {REQUEST: text}, "required": [REQUEST], "additionalProperties": False}
    output = NativeOutput(StructuredDict(schema, name="request"))
    agent = Agent(CheckedModel(model), instructions=WRITE, output_type=output, retries=0)

    async def write(about: str) -> str | None:
        try:
            answer = await _answer(agent, f"Described: {about}", model, asked, seed)
        except Stopped:
            return None
        written = (table(answer) or {}).get(REQUEST)
        return written if isinstance(written, str) else None

    return write


async def _answer(agent: Agent[None, Any], prompt: str, model: Model, asked: Settings, seed: int) -> Any:
    """Return what a model answers to one question; raises `Stopped` if that goes wrong."""
    with move_on_after(asked.timeout):
        try:
            return (await agent.run(prompt, model_settings=_settings(asked, seed))).output
        except failures.AgentRunError as error:
            if _why(error) == "unreachable":
                raise ConfigError(f"The model {model.model_name!r} can't be used: {_words(error)}") from error
            raise Stopped(_why(error), _words(error)) from error
    raise _late(asked)


def _late(asked: Settings) -> Stopped:
    return Stopped("time", f"it was not done after {asked.timeout:g} seconds")


def _settings(asked: Settings, seed: int) -> ModelSettings:
    settings = ModelSettings(seed=seed)
    if asked.max_tokens is not None:
        settings["max_tokens"] = asked.max_tokens
    if asked.temperature is not None:
        settings["temperature"] = asked.temperature
    return settings


def _why(error: Exception) -> Why:
    if isinstance(error, failures.ModelHTTPError) and _OVERFLOW.search(str(error.body)):
        return "context"  # llama.cpp and Ollama have words of their own for it
    return next(why for kind, why in WHY if isinstance(error, kind))


def _words(error: Exception) -> str:
    """Return what an error says: for one of HTTP the status and the provider's message."""
    if isinstance(error, failures.UsageLimitExceeded):
        return f"it was not done after {REQUESTS} requests"
    if not isinstance(error, failures.ModelHTTPError):
        return str(error)
    body = table(error.body) or {}
    said = (table(body.get("error")) or body).get("message") or error.body or ""
    return f"HTTP {error.status_code}: {said}"


def _cost(responses: Iterable[ModelResponse]) -> float | None:
    try:
        return float(sum(one.cost().total_price for one in responses))
    except (LookupError, ValueError, AssertionError):  # no price, or no usage, or no name is known
        return None
