"""Proofs for forests of any size, with z3 (SPEC CNF-6): `python -m verification.proofs`.

============  ==================================================================================
logic.py      the vocabulary and the queries; the only module that imports z3
rules.py      the axioms of a catalog; SPEC 4 as updates of a state; the core's table likewise
theorems.py   the theorems as data, with their clauses
mutants.py    wrong rules and missing axioms, each with the theorem that it refutes
proving.py    `prove`, and the controls: no premise is vacuous, and every mutant is refuted
induction.py  what holds for any number of requests, depth and count: bases and steps
examination.py   all proofs, as a table or as JSON
============  ==================================================================================

`specs/PROOFS.md` says what is proved and what is not.
"""
