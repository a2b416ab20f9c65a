"""Additions to MCP: keys of `_meta`, an argument and a header (SPEC DEL-2, DEL-11, CTL-4, GWY-6)."""

from __future__ import annotations

HANDLE_META = "dev.toolfold/handle"
HANDLE_HEADER = "toolfold-handle"
NO_HANDLE = ""
"""The handle in an answer that refuses the one that the request itself carried."""
CHANGE_META = "dev.toolfold/change"
"""In an answer of a control tool: the change, as structured data."""
DISCARDED_META = "dev.toolfold/discarded"
"""In lists and answers: groups that were open under a handle and that the catalog no longer allows."""
ALWAYS_LOAD_META = "anthropic/alwaysLoad"
"""In definitions: a client that puts tools behind a search of its own must not do so with this one (SPEC GWY-6)."""
GROUP_META = "dev.toolfold/group"
"""In the definition of a tool of an existing server: the path of the group that its author puts it in."""
MOUNTED_META = "dev.toolfold/mounted-groups"
"""In a definition within a process: the groups of a tool in the mounted server that it comes from; never sent."""
