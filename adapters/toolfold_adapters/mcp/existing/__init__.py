"""Groups for a server that exists already (SPEC INT-1).

grouped.py   `group_server`: its tools listed and called as groups say   grouping.py  the groups and names of its tools
"""
