"""Drivers: ways to reach an implementation.

toolfold.py  Toolfold's core, in process             quiet.py        a loop that can be run until nothing goes on
fixture.py   an MCP server made for the kit          protocol.py     what such a server has
blackbox.py  any other MCP server, a black box        description.py  what is known of such a server's groups
link.py      a line to any MCP server                sessions.py     what drivers over MCP have in common
process.py   a server in a process of its own        replies.py      what comes of asking it
"""
