"""The library itself as the kit reaches it.

driver, quiet   the core in process, and the event loop that it runs in
server          the server over MCP, with the driver protocol
"""
