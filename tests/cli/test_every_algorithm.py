"""Every method there is, on every embedded world: it trains, or says before any work why not."""

import json
import math

import pytest

from retrograde.algorithms.fit import REMEDIES, obstacles
from retrograde.algorithms.options import options_of
from retrograde.algorithms.registry import ALGORITHMS
from retrograde.backends.embedded import WarmStart, warm_started
from retrograde.cli import settings
from retrograde.data.offer import Offer
from retrograde.environments import registry
from retrograde.environments.hop import Hop
from retrograde.environments.protocol import Forking
from retrograde.environments.registry import ENVIRONMENTS

EMBEDDED = ("hop", "lake", "market")
EVERY = [(name, world) for name in ALGORITHMS for world in EMBEDDED]
FITTING = [
    (name, world)
    for name, world in EVERY
    if not obstacles(ALGORITHMS[name](), ENVIRONMENTS[world]())
]
OTHERS = [pair for pair in EVERY if pair not in FITTING]
SHORTEST = {"hop": {"hops": 1}}
"""Options under which a world is won now and then by a model that was shown little of it."""


@pytest.fixture(scope="session")
def taught(tmp_path_factory):
    """A directory for each world, with a model that was shown a little of it."""
    lessons = WarmStart(steps=60, batch=32, warmup_steps=4, learning_rate=1e-2, flat_every=0)
    found = {}
    for world in EMBEDDED:
        shortest = ENVIRONMENTS[world](**SHORTEST.get(world, {}))
        model, tokenizer = warm_started(shortest, lessons, lambda *_: None)
        found[world] = tmp_path_factory.mktemp(world)
        model.save_pretrained(found[world])
        tokenizer.save_pretrained(found[world])
    return found


@pytest.mark.parametrize(("name", "world"), FITTING)
def test_it_trains(name, world, retrograde, taught, place):
    options = [f"--environment.{key}={value}" for key, value in SHORTEST.get(world, {}).items()]
    if "min_signal" in options_of(ALGORITHMS[name]):
        options.append("--algorithm.min-signal=1")
    tasks = "6" if world == "hop" else "2"  # where few of the taught one's answers are right
    said = retrograde(
        "train", "--algorithm", name, "--environment", world, "--model", taught[world], *options,
        "--steps", "2", "--prompts", tasks, "--eval-episodes", "1", "--eval-every", "0",
        "--algorithm.learning-rate", "1e-3", "--quiet", "--out", "run",
    )  # fmt: skip
    assert said.code == 0, said.err
    metrics = (place / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in metrics.splitlines()]
    assert lines[-1]["step"] == 2
    assert all(math.isfinite(value) for line in lines for value in line.values())
    first = next(where for other, where in FITTING if other == name)
    assert lines[-1]["policy_version"] > 0 or world != first
    assert (place / "run" / "checkpoints" / "step-000002").is_dir()


@pytest.mark.parametrize(("name", "world"), OTHERS)
def test_where_it_cannot_it_says_what_is_missing(name, world, retrograde, place):
    said = retrograde("train", "--algorithm", name, "--environment", world)
    assert said.code == 2
    plain = " ".join(said.err.replace("│", " ").split())
    assert f"{name} cannot run on the environment {world}" in plain
    missing = set(ALGORITHMS[name]().needs) - ENVIRONMENTS[world]().offers
    assert missing
    for offer in missing:
        assert REMEDIES[offer] in plain
        assert f"Offer.{offer.name} in its offers" in plain
    can = plain.split("Methods that can: ")[1].split(", ")
    assert [other for other, where in FITTING if where == world] == can
    assert not list(place.iterdir())


class Bare(Hop):
    """hop, if it told nothing but an outcome and could not be forked."""

    name = "bare"
    forking = Forking.NONE
    offers = frozenset()


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_world_that_offers_nothing_is_refused_or_taken(name, retrograde, place, monkeypatch):
    worlds = {**registry.ENVIRONMENTS, "bare": Bare}
    monkeypatch.setattr(registry, "ENVIRONMENTS", worlds)
    monkeypatch.setattr(settings, "ENVIRONMENTS", worlds)
    algorithm = ALGORITHMS[name]()
    if not algorithm.needs and not algorithm.grow.forks:
        assert settings.parse_train(["--algorithm", name, "--environment", "bare"]).algorithm
        return
    said = retrograde("train", "--algorithm", name, "--environment", "bare")
    plain = " ".join(said.err.replace("│", " ").split())
    assert said.code == 2
    assert ("neither fork nor replay" in plain) == algorithm.grow.forks
    for offer in Offer:
        assert (f"Offer.{offer.name}" in plain) == (offer in algorithm.needs)
    assert not list(place.iterdir())


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_name_that_is_nearly_right_is_recognised(name, retrograde):
    for wrong in (name[:-1] + "x", name + "o", name.replace("po", "op", 1)):
        if wrong in ALGORITHMS:
            continue
        said = retrograde("train", "--algorithm", wrong)
        plain = " ".join(said.err.replace("│", " ").split())
        assert said.code == 2
        assert f"no algorithm is named '{wrong}'" in plain
        assert "did you mean" in plain
        near = plain.split("did you mean ")[1].split("?")[0].replace(",", " ").split()
        assert near
