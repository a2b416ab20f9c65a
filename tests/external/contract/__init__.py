"""Toolfold before the working group's checks for deterministic groups."""
