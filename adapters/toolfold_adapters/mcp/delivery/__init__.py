"""How requests are answered: the one delivery finds the state of a request, and asks the core.

delivery.py  list, call, prompt and read             legacy.py       the sessions of legacy connections
proxy.py     the tools that call other tools         disclosure.py   the states of clients that fetch groups
answers.py   what the library itself says            render.py       what goes on the wire
skills.py    entries for clients of the extension for skills
"""
