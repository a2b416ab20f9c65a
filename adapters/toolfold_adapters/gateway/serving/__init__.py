"""The clients in front of a gateway: what they ask, and what their servers answer (SPEC GWY-1, GWY-7).

downstream.py  the clients, as upstreams know them    forward.py   requests there, and answers back
asking.py      logins that a caller has to make
dialogue.py    questions of upstreams, between eras   requests.py  requests that a gateway answers itself
extensions.py  what servers have beside the protocol
pages.py       pages that upstreams have users visit  tasks.py     calls whose results are fetched later
                                                      watched_tasks.py  their states, to who subscribes
"""
