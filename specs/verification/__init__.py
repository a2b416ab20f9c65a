"""The verification of the specification and of the kit itself; not shipped.

table, links         traceability of clauses to tests, and mentions of clauses as links
systems              wider systems, and the states of a system
library/             the library itself, as the kit reaches it
mutants/             mutants of an implementation, each of which the kit must catch
source_mutants       mutants of the library's own source, as data
verdicts, blindfold  evidence that verdicts can be trusted
proofs/              proofs for forests of any size, with z3
spin/                model checking of concurrent transitions
rows, quint/         the rows of the machine as data, and the models that are made of them; Quint's is run
life                 the life of transitions of a stored session, explored
"""
