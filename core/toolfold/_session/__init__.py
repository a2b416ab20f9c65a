"""How the state of a session changes, and where it is stored.

session                  `Session`, and its `State`: reads, calls and changes
context                  what handlers and hooks are given of it
stored, upkeep           those that a store has; how many there may be, and when they end
perform                  changes of its groups, one at a time, each one effect after the other
runtime                  what the sessions of one tool set share
events, observers        what happens, and who is given it
usage, prefixes          what is used: the one set of counters; what of it breaks the beginning of conversations
state                    facts, and the form of a state as JSON
store, journal           where sessions outlive a process, and what a session reads and writes there
records                  the rules of a stored session's record, as pure functions
"""
