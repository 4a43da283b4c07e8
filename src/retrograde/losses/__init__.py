"""Floor 2: what is minimised, given log-probabilities and advantages."""
