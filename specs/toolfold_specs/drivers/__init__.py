"""Drivers: ways to reach an implementation.

toolfold.py  Toolfold's core, in process             quiet.py        a loop that can be run until nothing goes on
remote.py    a driver in another language             messages.py     the driver protocol, by its schema
piped.py     the same, a command                      tool.py         the same, behind a tool over MCP
fixture.py   an MCP server made for the kit           protocol.py     the protocol over MCP
blackbox.py  any other MCP server, a black box        description.py  what is known of such a server's groups
link.py      a line to any MCP server                sessions.py     what drivers over MCP have in common
process.py   a server in a process of its own        replies.py      what comes of asking it
"""
