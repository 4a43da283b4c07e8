"""What every test runs under: checked shapes, two threads, and the same examples each time."""

import os

import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Shapes written in annotations are checked on every call. Only these three: on the dataclasses
# of other floors beartype draws from `random` inside Hypothesis strategies and fails the run.
install_import_hook(
    ["retrograde.ops", "retrograde.losses", "retrograde.data.batch"], "beartype.beartype"
)

torch.set_num_threads(min(2, os.cpu_count() or 1))

settings.register_profile(
    "same_every_time",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same_every_time")
