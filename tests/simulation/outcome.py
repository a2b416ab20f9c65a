"""The result of a run of a world."""

from __future__ import annotations

from collections import Counter
from typing import Any

from attrs import define, field


@define
class Outcome:
    """What came of a world.

    Attributes:
        wrong: What is wrong with it.
        counted: What has happened how often.
        states: The states that its sessions were in.
        digest: The same for two runs of a plan.
        seconds: How long it lasted, in its own time.
        awaits: How often replicas waited.
        log: What happened.
        turned: The draws of the loop that changed the order of tasks.
    """

    wrong: list[str] = field(factory=list[str])
    counted: Counter[str] = field(factory=Counter[str])
    states: set[Any] = field(factory=set[Any])
    digest: tuple[Any, ...] = ()
    seconds: float = 0.0
    awaits: int = 0
    log: list[str] = field(factory=list[str])
    turned: list[int] = field(factory=list[int])
