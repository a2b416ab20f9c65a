"""Tools over what a browser tells of a page: document B, progressive disclosure by the data that there is.

Each tool is a composite one, and offers the modes for which there is something in the buffers. Until the first
successful `observe` there are only `observe` and `query_dom`.

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
    """Count what a buffer holds, in the one reading of the request."""
    return lambda view: int(getattr(view.state, name))


def has(name: str) -> Callable[[View], bool]:
    """Tell whether a buffer holds anything."""
    return lambda view: bool(getattr(view.state, name))


def filled(name: str) -> Mode:
    """Make a mode that is of use while a buffer holds something, and says how much."""
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
    """Return the tools over a page's buffers; `configure` can let the visitor go on, which makes `events` happen."""
    # The page tells of events on the event loop, so what reads the buffers runs there too.
    tools = ToolSet("browser-telemetry", state=telemetry.counts, run_in_thread=False)
    telemetry.on_turn = tools.notify_list_changed
    tools.register_group(DISCLOSED, "What to do with what was observed", opens_on=success_of("observe"), transient=True)
    to_come: Iterator[Event] = iter(events)

    @tools.tool(modes=OBSERVE, annotations=READS)
    def observe(what: str, limit: Amount = 20) -> dict[str, Any]:
        """Look at what the page has reported: the newest of one kind."""
        items = OBSERVATIONS[what](telemetry)
        return {"total": len(items), "items": items[-limit:]}

    @tools.tool(annotations=READS)
    def query_dom(path: str) -> dict[str, Any]:
        """Find elements of the page as it is now, by a path such as .//button."""
        try:
            return {"elements": query(path)}
        except (SyntaxError, KeyError) as error:
            raise ToolError(f"{path!r} is not a path to elements; write one such as .//button.") from error

    @tools.tool(group=DISCLOSED, flat=True, modes=ANALYZE, annotations=READS)
    def analyze(target: str) -> dict[str, Any]:
        """Find out what follows from what was observed."""
        return {target: ANALYSES[target](telemetry)}

    @tools.tool(group=DISCLOSED, flat=True, modes=GENERATE, annotations=READS)
    def generate(format: str) -> dict[str, Any]:
        """Make something of what was observed, for people and other programs."""
        return {format: ARTEFACTS[format](telemetry)}

    @tools.tool(group=DISCLOSED, flat=True, modes=CONFIGURE)
    def configure(action: str, amount: Amount = 50) -> str:
        """Let the visitor go on for a number of events, forget all that was reported, or set what each buffer holds."""
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
                return f"The buffers are empty; each holds {amount}."

    return tools


def tools() -> ToolSet:
    """Return the tools of a page that has reported nothing yet."""
    return page_tools(Telemetry(), visit(seed=7))
