"""The servers behind a gateway: what they offer, and the connections to them (SPEC GWY-1, GWY-3, GWY-4)."""
