"""Floor 1: records. What happened, and what is trained on."""
