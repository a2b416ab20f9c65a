"""Model checking of concurrent transitions with SPIN: `python -m verification.spin` (SPEC SES-2, HOOK-7, PER-3).

==============  ============================================================================
activation.pml  clients that plan, await hooks and commit, under four protocols
checking.py     the variants of the models with their expected verdicts, and how to run them
==============  ============================================================================

It needs `spin` and `gcc`. `specs/PROOFS.md` says what is checked and what is not.
"""
