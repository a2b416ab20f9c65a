"""A naive reference of the activation rules, written for reading; it imports nothing from the library."""
