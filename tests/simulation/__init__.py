"""A deterministic simulation of the whole system, from a seed (SPEC STO-9).

    python -m tests.simulation --seeds 10000     # that many worlds, each from the next seed
    python -m tests.simulation --seed 4711       # one of them, with what happened

loop       an event loop with virtual time, whose order is drawn, and extents of tasks that are killed or cancelled
plan       what happens in a world, drawn from its seed: requests and faults as data
audit      what is wrong with what a store answers, or is asked
disk       the store that all replicas share: slow, away, or without its last writes
desk       the tool set of each replica, and what its hooks do to the world
replicas   the processes that serve it, which are killed and started again
judging    the oracle: what answers, hooks and traces of real runs have to be
worlds     runs a plan, and says what is wrong
outcome    the result of a run
suppliers  servers behind a gateway, which change, lag and end
network    HTTP to a server, whose messages are lost, cut, repeated and late
guests     clients of both eras on that network, who are asked, and follow their lists
wire       clients of replicas on that network, and who intrudes
gateways   the worlds that have a gateway
shrinking  makes a plan that fails as small as it can be
cancelling cancels an operation, or kills its process, at each of its awaits, by number
meetings   has a request of a session come between any two awaits of another one
mutants    mutants of the source, which the worlds have to find
"""
