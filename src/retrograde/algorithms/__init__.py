"""Floor 5: algorithms, each a short declaration."""
