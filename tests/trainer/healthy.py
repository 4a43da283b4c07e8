"""Figures that `retrograde train` wrote on runs that did well: the default, and on lake."""

from pathlib import Path

HERE = Path(__file__).parent
METRICS = (HERE / "healthy_hop.jsonl").read_text().splitlines()
LAKE = (HERE / "healthy_lake.jsonl").read_text().splitlines()
