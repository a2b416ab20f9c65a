"""Toolfold in other frameworks, one module for each; each needs the extra of its name.

    fastmcp.py        `group_server`: a FastMCP server with its tools in groups
    langchain.py      `ToolfoldToolset`: the tools of a tool set in an agent, as middleware
    openai_agents.py  `ToolfoldToolset`: as a server in process
    otel.py           `instrument`: spans and metrics of a tool set, by OpenTelemetry
    pydantic_ai.py    `ToolfoldToolset`: as a toolset
    frameworks.py     what the three for agents share

Nothing is imported here. Servers of the MCP SDK itself are grouped by `toolfold_adapters.mcp.group_server`.
"""
