"""Servers over HTTP: the application, what guards it, who may call it, and how it is operated (SPEC DEL-10).

application.py  `http_app`: to be mounted                    guards.py     hosts, origins and sizes that are refused
auth.py         who may call a server, and see its page      oauth.py      tokens of an OAuth server
operation.py    connections, probes, and the end of a server
sessions.py     legacy sessions: how many, and those in a store
"""
