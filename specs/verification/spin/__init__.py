"""Model checking of concurrent transitions with SPIN: `python -m verification.spin` (SPEC SES-2, HOOK-5 to 7, PER-3).

==============  ============================================================================
activation.pml  clients that plan, await hooks and commit, under four protocols
life.pml        clients whose requests arrive, wait, run hooks, are cancelled and undone, while the catalog changes
writing.py      what both models have of the rows of the machine
checking.py     the variants of the models with their expected verdicts, and how to run them
==============  ============================================================================

It needs `spin` and `gcc`. `specs/PROOFS.md` says what is checked and what is not.
"""
