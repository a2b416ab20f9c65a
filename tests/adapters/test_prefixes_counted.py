"""What a server counts of broken prefixes agrees with the conversations that hosts send (SPEC PFX-1)."""

from __future__ import annotations

import pytest

from tests.isolation.deliveries import tool_set
from tests.isolation.relation import tour
from tests.prefixes.conversations import HOSTS
from toolfold_specs.prefixes import TABLE, billed_again
from toolfold_specs.systems import systems


@pytest.mark.spec("PFX-1")
@pytest.mark.parametrize("delivery", TABLE)
async def test_the_prefixes_that_a_server_counts_are_those_that_break(delivery: str) -> None:
    tools, broken, tokens = tool_set(system := next(systems(2))), 0, 0
    tools.count_usage(lambda: 0.0)
    async with HOSTS[delivery](tools) as host:
        before = await host.prefix()
        for step in tour(system):
            await host.call(f"{step.verb}_group", {"group": step.about})
            after = await host.prefix()
            tokens += (again := billed_again(before, after))
            broken += again > 0
            before = after
    assert tools.usage is not None
    counted = tools.usage.prefixes.values()
    assert sum(each.broken for each in counted) == broken
    assert sum(each.tokens for each in counted) <= tokens
    assert all(each.tokens for each in counted)
