"""A server that mounts another, grouped one, which mounts a third; prints what a client of each lists, as JSON."""

# mypy: disable-error-code="untyped-decorator, misc"
# pyright: reportMissingImports=false

import json
from typing import Any

import anyio
from fastmcp import Client, FastMCP

from toolfold_adapters.integrations.fastmcp import group_server, in_group

games, dice, club = FastMCP("games"), FastMCP("dice"), FastMCP("club")


@dice.tool
def roll() -> int:
    """Roll a die."""
    return 4


@games.tool
def chess() -> str:
    """Play chess."""
    return "mate"


@games.tool(meta=in_group("prizes"))
def win() -> str:
    """Win."""
    return "won"


@games.tool(tags={"bar"})
def drink() -> str:
    """Drink."""
    return "cheers"


@club.tool
def ping() -> str:
    """Answer."""
    return "pong"


group_server(dice, {"luck": "*"})
games.mount(dice)
group_server(games, {"play": ["chess", "drink"]})
club.mount(games, namespace="games")
group_server(club, "tags")


async def shown(server: Any, groups: tuple[str, ...]) -> Any:
    """Return what a client is listed at first, and in each group: names and `_meta`."""
    first, *more = [await _listed(server, ()), *[await _listed(server, (group,)) for group in groups]]
    return [sorted(first), *(sorted(one.items() - first.items()) for one in more)]


async def _listed(server: Any, groups: tuple[str, ...]) -> dict[str, str]:
    async with Client(server, mode="legacy") as client:
        for group in groups:
            await client.call_tool("open_group", {"group": group})
        return {tool.name: json.dumps(tool.meta) for tool in await client.list_tools()}


async def main() -> None:
    """Print what clients of the outer server and of the one in it list."""
    everything = [await shown(club, ("play", "luck", "prizes", "bar")), await shown(games, ("play", "luck", "prizes"))]
    print(json.dumps(everything))


anyio.run(main)
