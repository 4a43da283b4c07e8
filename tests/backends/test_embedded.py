"""The embedded policy: made once, the same everywhere, and nothing special."""

import asyncio
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from retrograde.backends import embedded
from retrograde.backends.embedded import (
    WarmStart,
    embedded_directory,
    embedded_tokenizer,
    new_model,
    warm_started,
)
from retrograde.backends.models import load_model
from retrograde.backends.recommended import EMBEDDED
from retrograde.environments.hop import Hop
from retrograde.environments.lake import Lake

BRIEF = WarmStart(steps=3, batch=4, warmup_steps=1, flat_every=2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(embedded, "WARM_STARTS", {"hop": BRIEF, "lake": BRIEF})
    return tmp_path / "retrograde" / "warm-starts"


@pytest.fixture
def told():
    return []


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def test_a_warm_start_is_made_once(cache, told):
    def progress(*what):
        told.append(what)

    first = embedded_directory(Hop(), progress)
    assert told[-1] == ("warm start on hop", 1.0)
    assert {what for what, _ in told} == {"demonstrations of hop", "warm start on hop"}
    told.clear()
    assert embedded_directory(Hop(), progress) == first
    assert not told
    assert [path.name for path in cache.iterdir()] == [first.name]  # nothing unfinished is left
    loaded = load_model(str(first), EMBEDDED)
    assert 50_000 < loaded.model.num_parameters() < 1_000_000


def test_what_changes_its_outcome_changes_its_place(cache, monkeypatch):
    def place(world):
        return embedded_directory(world, lambda *_: None)

    places = {place(Hop()), place(Hop(hops=2)), place(Hop(context="full")), place(Lake())}
    monkeypatch.setitem(embedded.WARM_STARTS, "hop", replace(BRIEF, seed=1))
    places.add(place(Hop()))
    assert len(places) == 5


def test_an_interrupted_warm_start_leaves_nothing_that_looks_whole(cache):
    def interrupt(what, _share):
        if what.startswith("warm"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        embedded_directory(Hop(), interrupt)
    assert not list(cache.glob("hop-*"))
    assert (embedded_directory(Hop(), lambda *_: None) / "config.json").exists()


def test_a_warm_start_is_the_same_every_time():
    one, _ = warm_started(Hop(hops=1), BRIEF, lambda *_: None)
    torch.manual_seed(5)
    two, _ = warm_started(Hop(hops=1), BRIEF, lambda *_: None)
    assert torch.equal(weights(one), weights(two))
    other, _ = warm_started(Hop(hops=1), replace(BRIEF, seed=1), lambda *_: None)
    assert not torch.equal(weights(one), weights(other))


def test_imitation_makes_the_teachers_words_likelier():
    def surprise(model):
        pairs = asyncio.run(
            embedded._demonstrations(
                Hop(), embedded_tokenizer(), WarmStart(steps=1, batch=32, seed=9), lambda *_: None
            )
        )
        with torch.inference_mode():
            logp = embedded.action_logp(
                model, [pair.context for pair in pairs], [pair.action for pair in pairs], 1.0, 0
            )
        return -float(torch.cat(logp).mean())

    fresh = new_model(len(embedded_tokenizer()), 0)
    taught, _ = warm_started(Hop(), replace(BRIEF, steps=12, batch=16), lambda *_: None)
    assert surprise(taught) < surprise(fresh) - 1


def test_fresh_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    one = weights(new_model(30, 0))
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    torch.manual_seed(2)
    assert torch.equal(weights(new_model(30, 0)), one)
    assert not torch.equal(weights(new_model(30, 1)), one)


def test_worlds_that_are_not_plain_data_are_refused(cache):
    class Bare:
        name = "bare"

    with pytest.raises(ValueError, match="bare: a warm start needs an environment that is plain"):
        embedded_directory(Bare(), lambda *_: None)


def test_a_batch_in_parts_trains_the_same_up_to_rounding():
    world = Hop(context="full")  # contexts of unequal length
    one, four, other = (
        weights(warm_started(world, replace(BRIEF, batch=16, parts=parts, seed=seed), _ignored)[0])
        for parts, seed in ((1, 0), (4, 0), (1, 1))
    )
    assert (one - four).abs().mean() < 1e-6
    assert (one - other).abs().mean() > 1e-2


def test_parts_are_of_like_length_and_leave_nothing_out():
    shown = [((7,) * n, (1,)) for n in (5, 1, 4, 2, 3)]
    parts = embedded._parts(shown, 2)
    assert [[len(context) for context, _ in part] for part in parts] == [[1, 2, 3], [4, 5]]
    assert embedded._parts(shown, 1) == [shown]


def test_a_world_with_few_tasks_is_demonstrated_on_those():
    class Few(Hop):
        asked: ClassVar = set()

        def size(self, split):
            return 3

        def task(self, split, index):
            assert index < 3
            self.asked.add(index)
            return super().task(split, index)

    warm_started(Few(), BRIEF, _ignored)
    assert Few.asked == {0, 1, 2}


def _ignored(*_):
    pass
