"""The verification of the specification and of the kit itself; not shipped."""
