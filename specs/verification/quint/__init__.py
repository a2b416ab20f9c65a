"""The specification as a module of Quint, which is run here (SPEC TRC-1).

regions.qnt   all but the rows and the systems, which `verification.rows` adds in specs/quint/regions.qnt

`python -m verification.quint` checks that module by simulation, and writes the example traces beside it.
"""
