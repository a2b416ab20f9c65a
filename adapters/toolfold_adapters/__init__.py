"""Adapters that deliver a tool set.

mcp/                     over MCP, to clients of both eras
gateway/                 groups in front of existing MCP servers
inprocess/               to a model in an agent's own loop
integrations/            in other frameworks
stores/                  engines that hold sessions beyond one process
runtime/                 one process for all hosts and sessions of a user, and the relay that each host starts
search/                  rankers for `find_tools`
manifests/               groups of tools from JSON files, one file, or their names
observe/                 what is used, and how servers and stores are doing
transport/               messages over standard streams and HTTP, and the programs at both ends
evaluation/              whether offering tools in groups helps to get tasks done
skills, profiles         groups of tools from a SKILL.md; profiles of files, each within that of its parent
files, names, tokens     data in files, names that clients and models accept, keys of `_meta`, costs of definitions
clock                    which clock measures what
hosts, tally, compiling  the programs that people run servers in; counting what has a limit; what clients can compile

A module stands here if several of the folders use it. Nothing is imported here, so that each needs only its own extra.
"""
