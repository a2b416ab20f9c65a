"""Arguments and results against JSON Schema, at a bounded cost."""
