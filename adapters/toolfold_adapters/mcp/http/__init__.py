"""Servers over HTTP: the application, what guards it, who may call it, and how it is operated (SPEC DEL-10).

application.py  `http_app`: to be mounted          guards.py    hosts, origins and sizes that are refused
operation.py    probes, and the end of a server    operator.py  the operator's page
auth.py         who may call a server              oauth.py     tokens of an OAuth server
"""
