"""Floor 3: what a policy is to everything above."""
