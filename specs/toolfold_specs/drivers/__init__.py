"""Drivers: ways to reach an implementation.

process.py   a server in a process of its own           link.py   a line to any MCP server, for code that is not async
fixture.py   an MCP server made for the kit             asis.py   any other MCP server, as it is
"""
