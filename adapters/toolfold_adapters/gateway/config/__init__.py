"""The configuration of a gateway, as a file or in Python, and those of clients (SPEC GWY-2, GWY-9).

settings.py  a configuration, as values            clients.py  the words and variables of clients
read.py      a file, and again when it changes
"""
