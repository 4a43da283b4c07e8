"""Floor 3: what a rollout is worth, where the environment does not say or is not asked."""
