"""The clients in front of a gateway: what they ask, and what their servers answer (SPEC GWY-1, GWY-7)."""
