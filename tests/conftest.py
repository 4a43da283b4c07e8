"""What every test runs under: one thread, checked shapes, and the same examples each time."""

import os

# The models here are tiny: a second thread gains little on an idle machine, and on a busy one the
# threads wait for each other many times longer than they compute. Subprocesses inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Shapes written in annotations are checked on every call. Only these three: on the dataclasses
# of other floors beartype draws from `random` inside Hypothesis strategies and fails the run.
install_import_hook(
    ["retrograde.ops", "retrograde.losses", "retrograde.data.batch"], "beartype.beartype"
)

torch.set_num_threads(1)

settings.register_profile(
    "same_every_time",
    derandomize=True,
    deadline=None,
    max_examples=int(os.environ.get("RETROGRADE_EXAMPLES", "50")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same_every_time")


@pytest.fixture(autouse=True)
def all_cores_for_real_models(request, monkeypatch):
    """Slow tests run models that are worth a second thread."""
    if request.node.get_closest_marker("slow") is None:
        yield
        return
    monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(os.cpu_count() or 1)
    yield
    torch.set_num_threads(1)
