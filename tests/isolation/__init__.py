"""Non-interference: what one caller does is nothing to another (SPEC ISO-1).

    python -m tests.isolation               # every system of up to three groups, in every delivery, and the mutants

relation    what a caller observes, and the relation: as much with another caller as without
deliveries  callers in process, over MCP in each way that a request names its session, and through a gateway
mutants     servers each of which leaks one thing
"""
