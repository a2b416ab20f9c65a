"""What the tests of document B's server share: an event of each kind, and what a client is listed of its tools."""

from examples.browser_telemetry.events import Action, Console, Frame, Request, Socket, Vitals
from tests.examples.callers import Caller

ENTRY = Console(1, "info", "ready")
ERROR = Console(2, "error", "price is undefined")
BODY = Request(3, "GET", "/api/items", 200, 12)
FRAME = Frame(4, "wss://shop.test", "in", "{}")
CONNECTION = Socket(5, "wss://shop.test", "open")
ACTION = Action(6, "click", "#checkout")
SNAPSHOT = Vitals(7, 1200, 90, 0.02)

PARAMETERS = {"observe": "what", "analyze": "target", "generate": "format", "configure": "action"}


async def modes_of(client: Caller, name: str) -> list[str]:
    """Return the modes that the list has for a tool; none if the tool is not listed."""
    definition = (await client.listed()).get(name)
    if definition is None:
        return []
    found: list[str] = definition["inputSchema"]["properties"][PARAMETERS[name]]["enum"]
    return found


async def observe(client: Caller, what: str = "logs") -> None:
    """Make an observation, which must succeed."""
    assert not (await client.call("observe", {"what": what}))[0]


async def counts(client: Caller) -> dict[str, dict[str, int]]:
    """Return what the list says of how much there is, for the tools that say anything."""
    metas = {name: definition.get("_meta") for name, definition in (await client.listed()).items()}
    return {name: meta["data_counts"] for name, meta in metas.items() if meta and "data_counts" in meta}
