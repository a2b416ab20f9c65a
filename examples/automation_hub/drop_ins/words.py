"""A plugin: a file with functions decorated as tools."""

from toolfold import tool


@tool(annotations={"readOnlyHint": True})
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
