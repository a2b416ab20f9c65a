"""What a gateway is told: its configuration, those of clients, and what was approved (SPEC GWY-2, GWY-9, GWY-11)."""
