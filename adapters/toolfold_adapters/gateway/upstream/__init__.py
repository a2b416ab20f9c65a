"""The servers behind a gateway: what they offer, and the connections to them (SPEC GWY-1, GWY-3, GWY-4).

upstream.py       one server: what it offers, and its connections   life.py     the life of a connection, as a table
link.py           one connection, and the task that holds it        wire.py     messages over it, unchanged
notifications.py  what comes beside answers                         http.py     messages to URLs
definitions.py    what it offers: asked for, and what can be used   transports.py  processes
stderr.py         why a process ended, by what it wrote             awaited.py  which requests wait for an answer
relisting.py      when lists that change often are read again       logins.py   logins at URLs, and their tokens
redirect.py       where a login sends the browser                   pool.py     servers that several gateways share
direct.py         requests over pipes, past the SDK                 handshake.py  in which era a server is spoken to
tokens.py         where the tokens of a login are stored
"""
