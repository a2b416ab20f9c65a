"""Search on public task sets: how many of the tools that a task needs are found, and what a model reads for that."""
