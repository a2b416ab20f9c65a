"""Concurrent steps, model-checked with SPIN (SPEC SES-2, HOOK-7, PER-3): `python -m verification.spin`.

==============  ============================================================================
activation.pml  the model: clients that plan, await hooks and commit, under four protocols
checking.py     the variants of the model with what is expected of each, and how they are run
==============  ============================================================================

It needs `spin` and `gcc`. `specs/PROOFS.md` tells what is shown, and what is not.
"""
