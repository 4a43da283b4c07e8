"""Floor 2: who gets credit. Pure functions of trees."""
