"""Toolfold in other frameworks, one module for each; each needs the extra of its name.

fastmcp        `group_server`: a FastMCP server with its tools in groups
langchain      `ToolfoldToolset`: the tools of a tool set in an agent, as middleware
openai_agents  `ToolfoldToolset`: as a server in process
pydantic_ai    `ToolfoldToolset`: as a toolset
otel           `instrument`: spans and metrics of a tool set, by OpenTelemetry
frameworks     what the three for agents share

Nothing is imported here. Servers of the MCP SDK itself are grouped by `toolfold_adapters.mcp.group_server`.
"""
