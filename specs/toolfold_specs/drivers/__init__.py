"""Drivers: ways to reach an implementation.

remote.py      a driver in another language          messages.py     the driver protocol, by its schema
piped.py       the same, a command                   tool.py         the same, behind a tool over MCP
over_mcp.py    whichever driver a server needs       sessions.py     what drivers over MCP have in common
fixture.py     an MCP server made for the kit        protocol.py     the protocol over MCP
blackbox.py    any other MCP server, a black box     description.py  what is known of such a server's groups
link.py        the way to a server                   connection.py   one client of it
process.py     a server in a process of its own      failures.py     failures, each in one sentence
replies.py     the outcome of a request              in_process.py   tool sets of toolfold
"""
