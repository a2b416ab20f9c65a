"""Prefixes: what of a conversation a transition changes, in every delivery (SPEC PFX-1).

    python -m tests.prefixes               # every system of up to three groups, in every delivery

conversations  what a model reads of a conversation in each delivery
"""
