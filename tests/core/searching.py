"""A tool set that can be searched, and what its sessions find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolfold import (
    Ranker,
    Ranking,
    SearchDocument,
    Session,
    ToolSet,
)

SCHEMA = {
    "type": "object",
    "properties": {"where": {"type": "string", "description": "harbour"}, "deep": {"properties": {"inner": {}}}},
}


def by_shared_words(documents: Sequence[SearchDocument]) -> Ranking:
    """Rank by the number of words of the query that the texts of a tool have."""

    def ranked(query: str) -> list[str]:
        asked = set(query.split())
        counts = {
            one.name: len(asked & set(f"{one.description} {one.parameters} {one.groups} {one.name}".split()))
            for one in documents
        }
        return sorted((name for name, count in counts.items() if count), key=lambda name: (-counts[name], name))

    return ranked


async def answer() -> str:
    return "ok"


def fleet(search: Ranker = by_shared_words, **options: Any) -> ToolSet:
    """A tool set with groups within groups, exclusive ones, and tools that a search must not show."""
    tools = ToolSet("fleet", search=search, **{"control": "open_group", **options})
    tools.register_group("ship", "About ships")
    tools.register_group("ship.crew", "About sailors")
    tools.register_group("east", "Eastern ports")
    tools.register_group("west", "Western ports")
    tools.register_exclusion("east", "west")
    for group, name, text in (
        (None, "ping", "see whether anybody answers"),
        ("ship", "steer", "steer a vessel"),
        ("ship.crew", "hire", "hire a sailor for a vessel"),
        ("east", "dock", "dock a vessel"),
        ("west", "dock", "dock a vessel"),
    ):
        tools.register(name, answer, description=text, input_schema=SCHEMA, group=group)
    return tools


async def found(session: Session, query: str, **more: Any) -> list[str]:
    """Return the names of the tools that a search finds."""
    result = await session.call("find_tools", {"query": query, **more})
    assert not result.is_error, result.text
    tools: list[str] = result.structured["found"]
    return tools
