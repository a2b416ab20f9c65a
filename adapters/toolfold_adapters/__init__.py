"""Adapters that deliver a tool set.

mcp/                     over MCP, to clients of both eras
gateway/                 groups in front of existing MCP servers
inprocess/               to a model in an agent's own loop
integrations/            in other frameworks
stores/                  engines that hold sessions beyond one process
evaluation/              whether offering tools in groups helps to get tasks done
manifests, catalogs      groups of tools in JSON files, and a whole catalog in one file
skills                   groups made of folders with a SKILL.md
search, sentences        rankers for `find_tools`, and the models of sentences that two of them use
stored_usage, status     what is used, written to a store, and how servers and stores are doing
names, tokens            the names that clients and models accept, keys of `_meta`, the cost of definitions
hosts                    the programs that people run servers in, as data
processes                starting processes, and ending them with their children
signals, starting        signals and standard streams of a program that serves, and what it loads
lines, sdk               messages over standard streams, and what is used of private parts of the `mcp` SDK

Nothing is imported here, so that each needs only its own extra.
"""
