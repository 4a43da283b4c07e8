"""Floor 2: from what was said to the token ids the policy is shown."""
