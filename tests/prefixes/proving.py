"""Every transition of a small system, and what it changes of the serialised conversation (SPEC PFX-1)."""

from __future__ import annotations

from attrs import frozen

from tests.isolation.deliveries import tool_set
from tests.isolation.relation import tour
from toolfold_specs.prefixes import TABLE, billed_again, wrong
from toolfold_specs.reference import System

from .conversations import HOSTS


@frozen
class Proof:
    """What was found of one system in one delivery.

    Attributes:
        transitions: How many requests there were.
        broken: How many of them changed something before the newest message.
        violations: What the table does not allow, in words.
    """

    transitions: int
    broken: int
    violations: tuple[str, ...]


async def proof_of(delivery: str, system: System) -> Proof:
    """Return what the transitions of a system change in a delivery; between them a tool of each group is called."""
    row, transitions, broken, violations = TABLE[delivery], 0, 0, list[str]()
    paths = system.paths()
    async with HOSTS[delivery](tool_set(system)) as host:
        before = await host.prefix()
        for number, step in enumerate(tour(system)):
            await host.call(f"{step.verb}_group", {"group": step.about})
            after = await host.prefix()
            transitions += 1
            broken += billed_again(before, after) > 0
            if what := wrong(row, before, after):
                violations.append(f"{system}, transition {number}, {step}: {what}")
            await host.call(f"{paths[number % len(paths)].replace('.', '__')}__tool", {})
            before = await host.prefix()
            if what := wrong(row, after, before):
                violations.append(f"{system}, call {number}: {what}")
    return Proof(transitions, broken, tuple(violations))
