"""What things cost, each a command: `python -m benchmarks.NAME [--json]`."""
