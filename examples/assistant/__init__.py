"""An assistant with many tools that loads the groups it needs: document C built on the core.

Its core tools are typed functions (`core.py`); its fourteen groups are manifests with the tools that the document
names (`manifests/`, `store.py`). `python -m examples.assistant` runs a conversation with a scripted model and prints
what grouping saves, next to the document's own estimates. The tools can be served too: `toolfold serve
examples.assistant:tools`.
"""

from __future__ import annotations

from pathlib import Path

from toolfold import ToolSet
from toolfold_adapters.manifests import load_manifests

from .core import Core
from .store import Store

MANIFESTS = Path(__file__).with_name("manifests")


def build() -> ToolSet:
    """Return the tools, with their own data."""
    store = Store.read()
    # Tools on the store are quick, and no two may change the same record at the same time. It is a model that reads
    # their answers, so schemas of these would only make the list longer.
    tools = ToolSet(
        "assistant", control="load_tool_group", on_hidden="hint", run_in_thread=False, structured_output=False
    )
    tools.include(Core(store))
    load_manifests(tools, MANIFESTS, handlers=store.handler, strict=True)
    return tools


tools = build()
