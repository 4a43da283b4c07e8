"""Games against opponents who are scripted, and how players are rated."""
