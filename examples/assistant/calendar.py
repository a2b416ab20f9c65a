"""The calendar of the assistant: events in a file, and what can be done with them."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import Field

from toolfold import ToolError, group, tool

from .mail import DATA

Id = Annotated[str, Field(description="The event's id, as calendar_list gives it")]
Moment = Annotated[str, Field(description="Date and time, as YYYY-MM-DDTHH:MM")]


@group(description="Calendar: list, add, move and remove events, and find free time")
class Calendar:
    """A calendar of its own, read from the file once; nothing is written back."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Any]] = {
            event["id"]: event for event in json.loads((DATA / "calendar.json").read_text(encoding="utf-8"))
        }

    def _found(self, id: str) -> dict[str, Any]:
        if id not in self._events:
            raise ToolError(f"There is no event {id!r}; look for it with calendar_list.")
        return self._events[id]

    @tool(flat=True)
    def calendar_list(
        self,
        first: Annotated[str, Field(description="First day, as YYYY-MM-DD")],
        last: Annotated[str, Field(description="Last day, as YYYY-MM-DD")],
    ) -> list[dict[str, Any]]:
        """List the events of some days, in order of time."""
        found = [event for event in self._events.values() if first <= event["start"][:10] <= last]
        return sorted(found, key=lambda event: event["start"])

    @tool(flat=True)
    def calendar_add(
        self,
        title: Annotated[str, Field(description="What the event is called")],
        start: Moment,
        end: Moment,
        place: Annotated[str, Field(description="Where it takes place")] = "",
    ) -> str:
        """Add an event and return its id."""
        id = f"e{len(self._events) + 1}"
        self._events[id] = {"id": id, "title": title, "start": start, "end": end, "place": place}
        return id

    @tool(flat=True)
    def calendar_move(self, id: Id, start: Moment, end: Moment) -> str:
        """Move an event to another time."""
        self._found(id).update(start=start, end=end)
        return f"{id} is moved."

    @tool(flat=True)
    def calendar_remove(self, id: Id) -> str:
        """Remove an event."""
        del self._events[self._found(id)["id"]]
        return f"{id} is removed."

    @tool(flat=True)
    def calendar_is_free(self, start: Moment, end: Moment) -> bool:
        """Tell whether no event overlaps with a span of time."""
        return not any(event["start"] < end and start < event["end"] for event in self._events.values())
