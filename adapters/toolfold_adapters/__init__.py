"""Adapters that deliver a tool set.

    mcp/        over MCP, to clients of both eras       gateway/    groups in front of an existing MCP server
    cli/        the command line, `toolfold`            targets.py  what it serves and inspects
    demo.py     the bundled example and its story       tokens.py   what definitions cost, about
    modules.py  a tool set in a module or a file        manifests.py  groups of tools in JSON files
    sdk.py      the one place that touches private parts of the `mcp` SDK

Nothing is imported here, so that each needs only its own extra.
"""
