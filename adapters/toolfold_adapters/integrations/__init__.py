"""Toolfold in other frameworks, one module for each; each needs the extra of its name.

    fastmcp.py      `group_server`: a FastMCP server with its tools in groups

Nothing is imported here. Servers of the MCP SDK itself are grouped by `toolfold_adapters.mcp.group_server`.
"""
