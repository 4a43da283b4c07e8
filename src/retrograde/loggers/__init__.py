"""Loggers that people have already: each is told what `metrics.jsonl` is told."""
