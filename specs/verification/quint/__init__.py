"""The specification as a module of Quint, which is run here (SPEC TRC-1).

regions.qnt   all but the rows and the systems, which `verification.rows` adds in specs/quint/regions.qnt
life.qnt      all but the rows of the life of a transition, which it adds in specs/quint/life.qnt

`python -m verification.quint` checks those modules by simulation, and writes the example traces of regions beside them.
"""
