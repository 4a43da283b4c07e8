"""Floor 4: where rollouts grow, and the growing."""
