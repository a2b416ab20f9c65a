"""Mutation testing of the core's four deciding modules; `python -m tests.mutation` runs it."""
