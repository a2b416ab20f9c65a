"""Adapters that deliver a tool set: over MCP, as a gateway in front of existing servers, on the command line."""
