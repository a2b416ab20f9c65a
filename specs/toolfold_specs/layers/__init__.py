"""The layers of the kit, one module each."""
