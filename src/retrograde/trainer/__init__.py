"""Floor 6: the loop, and what a run needs to be trusted and resumed."""
