"""Proofs for forests of any size, with z3 (SPEC CNF-6): `python -m verification.proofs`.

============  ==================================================================================
logic.py      the vocabulary, and the few questions that are put to z3; nothing else imports it
rules.py      the axioms of a catalog; SPEC 4 as updates of a state; the core's table as another
theorems.py   the theorems as data, with their clauses
mutants.py    wrong rules and missing axioms, each with the theorem that they refute
proving.py    `prove`, and the controls: no premise is vacuous, and every mutant is refuted
report.py     all of it as a table or as JSON
============  ==================================================================================

`specs/PROOFS.md` tells what is proved, and what is not.
"""
