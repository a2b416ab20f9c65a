"""How fast and how small: `python -m tests.benchmarks` prints one table. Not part of the test suite."""
