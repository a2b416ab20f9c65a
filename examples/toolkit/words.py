"""A module as a toolkit: decorated functions are tools; they take nothing, the arguments, or also the context."""

from __future__ import annotations

from typing import Any

from toolfold import Context, tool

__toolkit__ = {"category": "Words"}


@tool(annotations={"read_only_hint": True})
def alphabet() -> str:
    """The letters, in order. It takes no arguments, and its name is the function's."""
    return "abcdefghijklmnopqrstuvwxyz"


@tool(
    annotations={"read_only_hint": True},
    input={
        "message": {"type": "string", "required": True, "description": "What to say"},
        "repeat": {"type": "integer", "min": 1, "max": 10, "default": 1},
        "tone": {"type": "enum", "values": ["plain", "loud"], "default": "plain"},
    },
)
def say(arguments: dict[str, Any]) -> str:
    """Say something. A field specification: defaults fill in what is left out."""
    message = arguments["message"].upper() if arguments["tone"] == "loud" else arguments["message"]
    return " ".join([message] * arguments["repeat"])


@tool(annotations={"read_only_hint": True})
@tool(
    input="""
    {"type": "object",
     "properties": {"text": {"type": "string", "minLength": 1}, "word": {"type": "string"}},
     "required": ["text"]}
    """
)
def count_words(arguments: dict[str, Any], context: Context) -> dict[str, Any]:
    """Count words, all or one. A JSON text: the arguments are validated and passed on unchanged."""
    words = arguments["text"].split()
    counted = [word for word in words if word == arguments.get("word", word)]
    return {"counted_by": context.name, "words": len(counted)}


@tool(title="Lengths of words", annotations={"read_only_hint": True})
def lengths(text: str) -> list[int]:
    """The length of each word. Annotated parameters are the natural form: the schema follows from them."""
    return [len(word) for word in text.split()]
