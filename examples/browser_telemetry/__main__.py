"""Show what a client is listed while a page reports more and more: `python -m examples.browser_telemetry`."""

from itertools import islice
from time import perf_counter

import anyio

from toolfold import Session

from . import page_tools
from .events import visit
from .telemetry import CAPACITY, Telemetry


def show(title: str, session: Session) -> None:
    """Print the tools with their modes and counts."""
    print(f"\n{title}")
    for spec in session.list_tools().tools:
        parameter = spec.modes.parameter if spec.modes else None
        modes = spec.input_schema["properties"][parameter]["enum"] if parameter else []
        counts = spec.definition.get("_meta", {}).get("data_counts", {})
        texts = [f"{mode} ({counts[mode]})" if mode in counts else mode for mode in modes]
        print(f"  {spec.name:<10} {', '.join(texts) or '-'}")


async def demonstrate() -> None:
    """Print the list as it changes."""
    telemetry, events = Telemetry(), visit(seed=7)
    tools = page_tools(telemetry, events)
    async with tools.open_session() as session:
        show("A new session, and nothing has happened yet:", session)
        await session.call("observe", {"what": "errors"})
        show("After the first successful observe:", session)
        await session.call("configure", {"action": "visit", "amount": 5})
        show("After five events:", session)
        telemetry.record(*islice(events, 20 * CAPACITY))
        show("After so many that the buffers are full:", session)
        start = perf_counter()
        session.list_tools()
        print(f"\nThat list took {(perf_counter() - start) * 1e6:.0f} µs.")
    async with tools.open_session() as session:
        show("Another session, which has observed nothing:", session)


anyio.run(demonstrate)
