"""Extensions of the protocol, in the shape of the SDK's `Extension`: those of a server, and the groups of another one.

groups.py          the draft for groups, and `toolbox.v1`  skills.py  entries of skills
offered_groups.py  the groups of another server            offer.py   what an extension adds to a server

Drafts, each off unless asked for:

drafts.py         all of them, by name           ttl.py            lists that can't change within a time
tags.py           definition tags                  tagged_client.py  a client that knows them
upstream_tags.py  those of a gateway's servers     card.py           the server card over HTTP
called.py         the tools that a call is of      resolution.py     what a call would do
required.py       what tools need of clients
"""
