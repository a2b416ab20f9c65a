"""The library itself as the kit reaches it.

driver, quiet   the core in process, and the event loop that it runs in
stored          the core with its sessions in a store, which another process goes on with
server          the server over MCP, with the driver protocol
"""
