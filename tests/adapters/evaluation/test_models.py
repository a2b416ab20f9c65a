"""Models as players: what they read, what they call, what is counted, and what is absent without a key."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from tests.adapters.evaluation.support import played
from toolfold import ConfigError
from toolfold_adapters.evaluation import model
from toolfold_adapters.evaluation.models import REQUESTS

pytestmark = pytest.mark.spec("EVA-2")


def calling(*calls: tuple[str, dict[str, Any]], seen: list[Any] | None = None) -> FunctionModel:
    """A model that makes calls one after the other, and then ends; it notes what it reads."""

    def respond(messages: list[Any], info: Any) -> ModelResponse:
        if seen is not None:
            seen.append((sorted(tool.name for tool in info.function_tools), info.instructions, info.model_settings))
        made = sum(isinstance(message, ModelResponse) for message in messages)
        if made == len(calls):
            return ModelResponse([TextPart("It is done.")])
        name, arguments = calls[made]
        return ModelResponse([ToolCallPart(name, arguments)])

    return FunctionModel(respond)


async def test_a_model_plays_with_what_an_arm_shows() -> None:
    seen: list[Any] = []
    calls = [("open_group", {"group": "weather"}), ("weather__air_quality", {"place": "milan"})]
    (record,) = await played("air", player=model("mine", 5, given=calling(*calls, seen=seen)), arm="native")
    assert (record.done, record.kind, record.player) == (True, "model", "mine")
    assert (record.requests, record.calls) == (3, 2)
    assert record.input_tokens > record.context > 0
    assert record.cost is None
    assert record.versions.keys() >= {"pydantic-ai-slim", "genai-prices"}
    names, instructions, settings = seen[0]
    assert names == ["close_group", "find_tools", "open_group"]
    assert "weather" in instructions
    assert settings["seed"] == 5
    assert "weather__air_quality" in seen[1][0]


async def test_a_model_that_is_refused_goes_on() -> None:
    calls = [("call_tool", {"name": "weather__air_quality", "arguments": {"place": "Milan"}})]
    (record,) = await played("air", player=model("mine", 0, given=calling(*calls)))
    assert (record.requests, record.done) == (2, False)


async def test_a_model_has_the_view_of_a_host() -> None:
    seen: list[Any] = []
    await played("taxi", player=model("mine", 0, "copilot", given=calling(seen=seen)))
    assert "Groups of tools" not in seen[0][1]


async def test_a_model_that_does_not_end_is_stopped_and_what_it_read_is_counted() -> None:
    calls = [("find_tools", {"query": "air"})] * (REQUESTS + 5)
    (record,) = await played("air", player=model("mine", 0, given=calling(*calls)))
    assert record.problems[0].startswith("the model stopped (requests): ")
    assert record.requests == REQUESTS
    assert not record.done


async def test_a_model_that_calls_all_that_it_sees_does_what_is_forbidden() -> None:
    (record,) = await played("lost-card", player=model("test", 0, given=TestModel()), arm="everything", size=20)
    assert not record.done
    assert record.reached == {"asked": 1}


def test_without_a_key_there_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="'anthropic:claude-sonnet-4-5' can't be used: Set the `ANTHROPIC_API_KEY`"):
        model("anthropic:claude-sonnet-4-5", 0)
    with pytest.raises(ConfigError, match="Unknown model"):
        model("nosuch:model", 0)
