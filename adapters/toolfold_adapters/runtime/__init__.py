"""One runtime for all hosts, sessions and agents of a user on a machine (SPEC GWY-14 to GWY-16).

relay.py    what a host starts: passes messages between its pipes and the runtime, and starts that if need be
starts.py   how it starts it, where no other relay does
place.py    where the runtime is found: a folder of the user's own, with a socket
standby.py  its copy, which takes its place when it is killed
left.py     the servers of a runtime that was killed, which the next one ends
connection.py  its side of a connection
kept.py     its log, sessions and answers, which are removed when they are old
runtime.py  the process that has the gateways, and serves each relay as a client of its own
servers.py  what it says of the servers behind it: who shares them, and what that saves

Nothing is imported here, and a relay imports the standard library alone: a host waits for its first answer, and there
is one relay for each of its sessions.
"""
