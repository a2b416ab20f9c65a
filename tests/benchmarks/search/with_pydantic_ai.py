"""Rank by pydantic-ai's own tool search; run in an environment that has pydantic-ai. See `recall`."""
# pyright: reportMissingImports=false

import json
import sys
from typing import Any

from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets._tool_search import keywords_search_fn

asked = json.load(sys.stdin)
tools = [
    ToolDefinition(name=name, description=tool.get("description"), parameters_json_schema=tool["inputSchema"])
    for name, tool in asked["tools"]
]
context: Any = None  # which the search by keywords does not look at
rankings = [keywords_search_fn(context, [query], tools)[: asked["limit"]] for query in asked["queries"]]
print(json.dumps({"rankings": rankings}))
