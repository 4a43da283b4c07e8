"""Floor 2: how many steps, on which rows, how large."""
