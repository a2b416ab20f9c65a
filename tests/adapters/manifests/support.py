"""Manifests for tests, good ones and every kind of broken one, and how they are loaded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from toolfold import ToolSet
from toolfold_adapters.manifests import ManifestReport, load_manifests

SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
META = {"_meta": True, "display_name": "Google Gmail", "description": "Email tools"}


def entry(name: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}", "function": f"js_{name}", "parameters": SCHEMA, **more}


def write(folder: Path, **files: Any) -> None:
    """Write files named after the arguments; a text or bytes as they are, anything else as JSON."""
    for name, content in files.items():
        raw = content if isinstance(content, str | bytes) else json.dumps(content)
        (folder / f"{name}.json").write_bytes(raw if isinstance(raw, bytes) else raw.encode())


def every(name: str) -> Callable[..., Any]:
    """A handler for every name, which answers with it."""
    return lambda arguments: f"{name}: {arguments}"


def load(folder: Path, handlers: Any = every, **options: Any) -> tuple[ToolSet, ManifestReport]:
    tools = ToolSet("assistant", control="load_tool_group")
    return tools, load_manifests(tools, folder, handlers=handlers, **options)


def but_one(name: str) -> Callable[..., Any] | None:
    """A handler for every name but one."""
    return None if name.endswith("unhandled") else every(name)


BAD_ENTRIES: Mapping[str, tuple[Any, str, str]] = {
    "no object": ("text", "entry 2", "must be an object"),
    "null": (None, "entry 2", "must be an object"),
    "no name": ({"parameters": SCHEMA}, "entry 2", "no name"),
    "name that is no text": (entry(5), "entry 2", "name must be a string"),
    "invalid name": (entry("b c"), "entry 2 (b c)", "not a valid name"),
    "dotted name": (entry("other.b"), "entry 2 (other.b)", "its group must agree"),
    "invalid schema": (entry("b", parameters={"type": "objekt"}), "entry 2 (b)", "not valid JSON Schema"),
    "schema of something else": (entry("b", parameters={"type": "array"}), "entry 2 (b)", 'root type "object"'),
    "schema that is none": (entry("b", parameters=[]), "entry 2 (b)", "must be a JSON object"),
    "description that is no text": (entry("b", description=5), "entry 2 (b)", "description is int"),
    "wrong annotations": (entry("b", annotations={"readOnlyHint": "yes"}), "entry 2 (b)", "readOnlyHint"),
    "wrong icons": (entry("b", icons=5), "entry 2 (b)", "icons must be a list"),
    "wrong tags": (entry("b", tags="read"), "entry 2 (b)", "tags must be a list"),
    "wrong hidden": (entry("b", hidden="no"), "entry 2 (b)", "hidden must be true or false"),
    "meta elsewhere": (META, "entry 2", "_meta element must be the first"),
    "meta that is neither": (entry("b", _meta="x"), "entry 2 (b)", "meta must be a JSON object"),
    "duplicate": (entry("a"), "entry 2 (a)", "'a' is registered already"),
    "name of the loader": (entry("load_tool_group"), "entry 2 (load_tool_group)", "registered already"),
    "no handler": (entry("unhandled"), "entry 2 (unhandled)", "no handler for 'unhandled' or 'js_unhandled'"),
}
"""An entry between good ones, where it is reported, and how."""

BAD_FILES: Mapping[str, tuple[Any, str, str]] = {
    "not JSON": ('[\n  {"name": "a" 1}\n]', "line 2, column 16", "not valid JSON"),
    "nothing": ("", "line 1, column 1", "not valid JSON"),
    "not UTF-8": (b'["\xff"]', "byte 2", "not a text in UTF-8"),
    "nested without end": ("[" * 100_000, "file", "nested too deeply"),
    "a number without end": ("[" + "9" * 5_000 + "]", "file", "nested too deeply"),
    "a text": ('"tools"', "file", "must contain an array"),
    "an object that is no tool": ({"tools": []}, "file", "must contain an array"),
    "a tool with a schema of something else": (entry("core", parameters=[]), "file", "must be a JSON object"),
    "an empty array": ([], "group", "no tools"),
    "a group of nothing but meta": ([META], "group", "no tools"),
}
"""What a file holds, where it is reported, and how."""
