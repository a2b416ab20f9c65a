"""How requests are answered: each delivery finds the session or snapshot of a request, and asks the core.

session.py   delivery from sessions                   handle.py       delivery under handles
legacy.py    the sessions of legacy connections       proxy.py        the tools that call other tools
disclosure.py  delivery to clients that fetch groups
answers.py   what the library itself says            render.py       what goes on the wire: own, and others' as it came
skills.py    entries for clients of the extension for skills
"""
