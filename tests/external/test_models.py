"""A real model without a key or a network is a player among others (SPEC EVA-4)."""

from __future__ import annotations

import anyio
import pytest

from tests.external.models.serving import served
from toolfold import ToolSet
from toolfold_adapters.evaluation import Plan, Record, Task, World, model, run
from toolfold_adapters.evaluation.tasks import Expected


@pytest.mark.spec("EVA-4")
def test_a_model_from_a_package_plays_a_task_and_its_record_names_its_weights(models: None) -> None:
    tools = ToolSet("house", control="none")
    schema = {"type": "object", "properties": {"room": {"type": "string"}}, "required": ["room"]}
    tools.register("turn_on_light", lambda _: None, description="Turn on the light in a room", input_schema=schema)
    call = Expected.model_validate({"tool": "turn_on_light", "free": {"room": "kitchen"}})
    task = Task(id="light", ask="Turn on the light in the kitchen.", calls=(call,))

    async def played(address: str, name: str) -> Record:
        player = model(name, 0, base_url=address, timeout=300.0)
        plan = Plan(world=World(tools.catalog), tasks=[task], players=[player], arms=("everything",))
        (record,) = [one async for one in run(plan)]
        return record

    with served() as (address, name):
        record = anyio.run(played, address, name)
    assert record.player.startswith("needle3-")
    assert record.why != "unreachable"
    assert record.exchanges
    assert [(tool, given["room"]) for tool, given in record.transcript][:1] == [("turn_on_light", "kitchen")]
