"""What verifies the specification and the kit itself; not shipped."""
