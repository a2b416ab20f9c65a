"""A class as a toolkit: its methods share the state of the instance."""

from __future__ import annotations

from typing import Any

from toolfold import ToolError, prompt, resource, resource_template, tool, toolkit

TITLE = {"type": "string", "required": True, "min_length": 1, "description": "The title of the note"}


@toolkit(category="Notes")
class Notes:
    """Short texts by title."""

    def __init__(self) -> None:
        self._texts = {"welcome": "Ask the catalog for tools that no list shows."}

    @tool(input={"title": TITLE}, annotations={"read_only_hint": True})
    def read_note(self, arguments: dict[str, Any]) -> str:
        """Read a note."""
        return self._text(arguments["title"])

    @tool(
        input={
            "title": TITLE,
            "text": {"type": "string", "required": True},
            "mode": {"type": "enum", "values": ["replace", "append"], "default": "replace"},
            "labels": {"type": ("array", "string"), "max_items": 3, "default": []},
        },
        output={"title": "string", "length": {"type": "integer", "required": True, "min": 0}},
    )
    def write_note(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Write a note, or add to one."""
        title = arguments["title"]
        before = self._texts.get(title, "") if arguments["mode"] == "append" else ""
        labels = "".join(f" #{label}" for label in arguments["labels"])
        self._texts[title] = before + arguments["text"] + labels
        return {"title": title, "length": len(self._texts[title])}

    @tool(visible=False, category="Housekeeping", annotations={"destructive_hint": True})
    def forget_notes(self) -> int:
        """Throw all notes away; return how many there were."""
        count = len(self._texts)
        self._texts.clear()
        return count

    @prompt(arguments=[{"name": "title", "required": True, "description": "The title of the note"}])
    def summarise(self, arguments: dict[str, str]) -> str:
        """Sum a note up in a sentence."""
        return f"Sum this up in one sentence:\n\n{self._text(arguments['title'])}"

    @resource("note://index", mime_type="text/plain")
    def index(self) -> str:
        """The titles of all notes."""
        return "\n".join(sorted(self._texts))

    @resource_template("note://texts/{title}", mime_type="text/plain", hidden=True)
    def text(self, arguments: dict[str, str]) -> str:
        """The text of a note."""
        return self._text(arguments["title"])

    def _text(self, title: str) -> str:
        if title not in self._texts:
            raise ToolError(f"There is no note {title!r}; the titles are: {', '.join(sorted(self._texts)) or 'none'}.")
        return self._texts[title]
