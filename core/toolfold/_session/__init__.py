"""The async shell: sessions, and how they change.

session                  the face: reads, calls and changes of one client or conversation
executor, hooks          plan, hooks, commit
reentry                  who may change a session now
runtime                  what the sessions of one tool set share, and which are open
events, observers        what happens, and who is given it
usage                    what is used: the one set of counters
state                    facts, and the form of a state as JSON
store, journal           what keeps sessions beyond one process, and what a session reads and writes there
upkeep                   how many sessions there may be, and when they end; tasks beside those that started them
sessions                 the sessions of a kind that are in a store
"""
