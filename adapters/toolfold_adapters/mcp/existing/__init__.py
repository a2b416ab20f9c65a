"""Groups for a server that exists already (SPEC INT-1).

server.py    `group_server`: its lists and calls, with groups in front
grouping.py  the groups and names of its tools, and how they are registered
"""
