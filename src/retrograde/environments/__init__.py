"""Floor 2: worlds to act in, seeded, asynchronous, and forked from any point."""
