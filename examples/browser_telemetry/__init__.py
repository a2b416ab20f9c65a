"""Tools over what a browser reports about a page: document B, progressive disclosure by available data.

Most are composite tools and offer the modes for which the buffers have data. Until the first successful `observe`,
only `observe` and `query_dom` are available.

    python -m examples.browser_telemetry
    toolfold serve examples.browser_telemetry:tools
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Annotated, Any

from pydantic import Field

from toolfold import Mode, Modes, ToolError, ToolSet, View, success_of

from .events import Event, visit
from .reports import ANALYSES, ARTEFACTS, OBSERVATIONS, query
from .telemetry import Telemetry

DISCLOSED = "disclosed"
READS = {"readOnlyHint": True}
Amount = Annotated[int, Field(ge=1, le=10_000)]


def count_of(name: str) -> Callable[[View], int]:
    """Return a function that counts the entries of a buffer, in the state of the request."""
    return lambda view: int(getattr(view.state, name))


def has(name: str) -> Callable[[View], bool]:
    """Return a predicate: whether a buffer has entries."""
    return lambda view: bool(getattr(view.state, name))


def filled(name: str) -> Mode:
    """Return a mode that is available while a buffer has entries, with their count."""
    return Mode(available=has(name), count=count_of(name))


OBSERVE = Modes(
    "what",
    {
        "errors": Mode(count=count_of("errors")),
        "logs": Mode(count=count_of("logs")),
        "network": filled("network"),
        "websocket_events": filled("websocket_events"),
        "websocket_status": filled("websocket_status"),
        "actions": filled("actions"),
        "vitals": filled("vitals"),
        "page": Mode(),
    },
)
ANALYZE = Modes(
    "target",
    {
        "performance": filled("vitals"),
        "api": filled("api"),
        "accessibility": Mode(),
        "changes": Mode(available=has("changes")),
        "timeline": filled("actions"),
    },
)
GENERATE = Modes(
    "format",
    {
        "reproduction": filled("actions"),
        "test": filled("actions"),
        "pr_summary": Mode(available=has("summarised")),
        "sarif": Mode(),
        "har": filled("network"),
    },
)
CONFIGURE = Modes("action", {"visit": Mode(), "clear": Mode(), "capacity": Mode()})


def page_tools(telemetry: Telemetry, events: Iterable[Event] = ()) -> ToolSet:
    """Return the tools over a page's buffers; `configure` can let the visitor go on, which records more `events`."""
    # The page reports events on the event loop, so the buffers are read there too.
    tools = ToolSet("browser-telemetry", state=telemetry.counts, run_in_thread=False)
    telemetry.on_change = tools.notify_list_changed
    tools.register_group(DISCLOSED, "Analyses and artefacts", opens_on=success_of("observe"), transient=True)
    to_come: Iterator[Event] = iter(events)

    @tools.tool(modes=OBSERVE, annotations=READS)
    def observe(what: str, limit: Amount = 20) -> dict[str, Any]:
        """Look at what the page has reported: the newest of one kind."""
        items = OBSERVATIONS[what](telemetry)
        return {"total": len(items), "items": items[-limit:]}

    @tools.tool(annotations=READS)
    def query_dom(path: str) -> dict[str, Any]:
        """Find elements of the current page by a path such as .//button."""
        try:
            return {"elements": query(path)}
        except (SyntaxError, KeyError) as error:
            raise ToolError(f"{path!r} is not a path to elements; write one such as .//button.") from error

    @tools.tool(group=DISCLOSED, flat=True, modes=ANALYZE, annotations=READS)
    def analyze(target: str) -> dict[str, Any]:
        """Analyze the observations."""
        return {target: ANALYSES[target](telemetry)}

    @tools.tool(group=DISCLOSED, flat=True, modes=GENERATE, annotations=READS)
    def generate(format: str) -> dict[str, Any]:
        """Generate an artefact from the observations, for people or other programs."""
        return {format: ARTEFACTS[format](telemetry)}

    @tools.tool(group=DISCLOSED, flat=True, modes=CONFIGURE)
    def configure(action: str, amount: Amount = 50) -> str:
        """Let the visitor go on for a number of events, clear all buffers, or set the capacity of each."""
        match action:
            case "visit":
                happened = list(islice(to_come, amount))
                telemetry.record(*happened)
                return f"{len(happened)} more events."
            case "clear":
                telemetry.clear()
                return "The buffers are empty."
            case _:
                telemetry.clear(capacity=amount)
                return f"The buffers are empty, with room for {amount} entries each."

    return tools


def tools() -> ToolSet:
    """Return the tools of a page that has reported nothing yet."""
    return page_tools(Telemetry(), visit(seed=7))
