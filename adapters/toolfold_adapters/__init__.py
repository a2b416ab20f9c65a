"""Adapters that deliver a tool set.

    mcp/        over MCP, to clients of both eras       gateway/    groups in front of an existing MCP server
    inprocess/  to a model in an agent's own loop       manifests.py  groups of tools in JSON files
    tokens.py   approximate costs of definitions        names.py    the names that clients and models accept
    signals.py  signals and standard streams of a program that serves
    sdk.py      the only module that uses private parts of the `mcp` SDK

Nothing is imported here, so that each needs only its own extra.
"""
