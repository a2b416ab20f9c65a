"""A file of outcomes, line by line: a run that was ended goes on where it was, and processes can share the work."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import attrs
from attrs import define, field

Outcome = TypeVar("Outcome", bound=attrs.AttrsInstance)


@define
class Record:
    """Outcomes by what was played, kept in a file if there is one, which is for one state of the code."""

    path: Path | None = None
    kept: dict[str, Any] = field(factory=dict[str, Any])

    def __attrs_post_init__(self) -> None:
        """Read what the file has."""
        if self.path is not None and self.path.exists():
            self.kept.update(map(json.loads, self.path.read_text(encoding="utf-8").splitlines()))

    async def once(self, kind: type[Outcome], play: Callable[..., Awaitable[Outcome]], *given: Any) -> Outcome:
        """Return how what is given goes, which is played if that is not known yet; given first is where."""
        key = json.dumps([one["id"] if isinstance(one, dict) else one for one in given])
        if key in self.kept:
            return kind(**self.kept[key])
        outcome = await play(*given[1:])
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, attrs.asdict(outcome)]) + "\n")
        return outcome
