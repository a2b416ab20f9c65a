"""How a request names its session: each address finds it, and how its caller refers to it (SPEC DEL-1 to DEL-6).

legacy.py     the session of a connection          principal.py  that of an authenticated caller
handle.py     that of a handle, or of a selection  signed.py     handles that are the state itself
reference.py  how its caller refers to it afterwards
"""
