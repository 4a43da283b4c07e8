"""Where variance comes from: estimators worked by hand, and a world whose shares are known."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from tests.rollouts.worlds import chat, ids

from retrograde.data.seeds import derived
from retrograde.environments.market import WANTED, Market
from retrograde.policies.protocol import Answer, Sampling
from retrograde.policies.scripted import ScriptedPolicy
from retrograde.rendering.history import Renderer
from retrograde.rollouts.grow import Grower

script = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "variance_shares.py"))
Size, Retaking, measured = script["Size"], script["Retaking"], script["measured"]
sums_of, shares_of, estimates = script["sums_of"], script["shares_of"], script["estimates"]
break_even, printed = script["break_even"], script["printed"]


def shares(*tasks, times=2):
    return shares_of(np.array([sums_of(np.array(task, float)) for task in tasks]).sum(0), times)


def test_the_estimators_worked_by_hand():
    # Two states, two answers each, each taken twice.
    # State 0: answers (0, 2) and (4, 6): variances 2 and 2; q = 1, 5, var_j(q) = 8; v = 3.
    # State 1: answers (10, 10) and (12, 8): variances 0 and 8; q = 10, 10, var_j(q) = 0; v = 10.
    # sigma_d2 = (2 + 2 + 0 + 8) / 4 = 3.  a2 = (8 + 0) / 2 - 3 / 2 = 2.5.
    # var_i(v) = 7^2 / 2 = 24.5, and sigma_V2 = 24.5 - 4 / 2 = 22.5.
    found = shares([[[0, 2], [4, 6]], [[10, 10], [12, 8]]])
    assert (found.sigma_d2, found.a2, found.sigma_V2) == (3.0, 2.5, 22.5)
    assert found.ratio == pytest.approx(22.5 / 5.5)


def test_tasks_are_pooled_by_what_they_add_worked_by_hand():
    # To the task above comes one with a single state: answers (0, 4), (0, 0): variances 8 and 0;
    # q = 2, 0, var_j(q) = 2. Over three states, sigma_d2 = (2 + 4 + 4) / 3 and
    # a2 = (8 + 0 + 2) / 3 - (10 / 3) / 2. One state has no variance: sigma_V2 stays as it was.
    found = shares([[[0, 2], [4, 6]], [[10, 10], [12, 8]]], [[[0, 4], [0, 0]]])
    assert found.sigma_d2 == pytest.approx(10 / 3)
    assert found.a2 == pytest.approx(10 / 3 - 10 / 6)
    assert found.sigma_V2 == 22.5
    # What differs between tasks is nobody's share.
    shifted = shares([[[0, 2], [4, 6]], [[10, 10], [12, 8]]], [[[90, 94], [90, 90]]])
    assert shifted == found


def test_nothing_is_known_of_states_that_are_always_alone():
    found = shares([[[0, 2], [4, 6]]])
    assert (found.sigma_d2, found.a2) == (2.0, 7.0)  # var_j(q) = 8, less 2 / 2
    assert np.isnan(found.sigma_V2)
    assert np.isnan(shares_of(np.zeros(5), 2).sigma_d2)


def test_the_estimators_are_unbiased_for_few_siblings():
    # R = V + A + d with variances 4, 1 and 9; two of each, so every correction matters.
    chance, count = np.random.default_rng(0), 20_000
    V = chance.normal(0, 2, (count, 2, 1, 1))
    A = chance.normal(0, 1, (count, 2, 2, 1))
    d = chance.normal(0, 3, (count, 2, 2, 2))
    tasks = V + A + d
    found = shares(*tasks)
    each = np.array([[(s := shares(t)).sigma_V2, s.a2, s.sigma_d2] for t in tasks[:4000]])
    errors = each.std(0) / count**0.5
    for got, truth, error in zip(
        (found.sigma_V2, found.a2, found.sigma_d2), (4, 1, 9), errors, strict=True
    ):
        assert abs(got - truth) < 4 * error
    # Without the corrections they would be far off: 4 + 1/2 + 9/4 and 1 + 9/2.
    assert errors.max() < 0.1


def test_the_break_even():
    # (K + 1) / 2 + 1 / n - 1: for n = 4 it is 1.25 at K = 3, and 4.75 at K = 10.
    assert [break_even(k, 4) for k in (3, 4, 6, 10)] == [1.25, 1.75, 2.75, 4.75]


def torn(context, seed):
    """Right every other time."""
    words = chat().decode(context)
    if WANTED not in words:
        return ids("open")
    wanted = words.rpartition(WANTED)[2].split("<")[0].split()[0]
    return ids(f"trade {wanted if derived('torn', seed) % 2 else 'nothing'}")


def market_grower(market, policy):
    return Grower(market, Renderer(chat(), market.context), policy, Sampling(1.0, 12))


async def test_a_market_whose_shares_are_known():
    # R = luck +- 1/2, plus two deals, each worth 1/2 with probability 1/2: variance 1/16 each.
    # Turn 0: nothing was drawn before it and the one answer is always the same; all that varies
    #   comes after, the luck included: sigma_d2 = 1/4 + 2/16.
    # Turn 1: the luck came before. a2 = 1/16, and one deal is still to come: sigma_d2 = 1/16.
    # Turn 2: luck and a deal came before, nothing comes after.
    truth = {0: (0, 6 / 16, 0), 1: (4 / 16, 1 / 16, 1 / 16), 2: (5 / 16, 0, 1 / 16)}
    market, size = Market(turns=3), Size(trunks=3, answers=3, times=2)
    growing = market_grower(market, Retaking(ScriptedPolicy(torn)))
    found = []
    for first in range(0, 300, 20):
        tasks = [market.task("train", i) for i in range(first, first + 20)]
        found += await measured(growing, tasks, size, seed=derived("known", first))
    assert all(returns.shape == (3, 3, 2) for each in found for returns in each.values())
    *records, mean = estimates(found, size, seed=0)
    for record in records:
        expected = truth[record["turn"]]
        for name, value in zip(("sigma_V2", "sigma_d2", "a2"), expected, strict=True):
            assert abs(record[name] - value) <= 4 * record[f"{name}_se"] + 1e-12, (record, name)
            assert record[f"{name}_se"] < 0.04
    assert records[2]["sigma_d2"] == pytest.approx(0, abs=1e-12)  # nothing comes after the last
    assert records[1]["ratio"] == pytest.approx(2, rel=0.25)
    assert mean["turn"] == "all"
    assert mean["sigma_d2"] == pytest.approx(np.mean([r["sigma_d2"] for r in records]))
    assert mean["states"] == 3 * 3 * 300
    # Above (3 + 1) / 2 + 1 / 8 - 1 = 1.125, siblings pay.
    lines = printed([*records, mean], 3, 8).splitlines()
    assert [line.split()[-1] for line in lines[1:4]] == ["no", "yes", "yes"]
    assert "1.12" in lines[-1]


async def test_every_answer_is_taken_again_from_the_very_state_it_was_given_in():
    market, size = Market(turns=3, luck=0.0), Size(trunks=2, answers=3, times=3)
    growing = market_grower(market, Retaking(ScriptedPolicy(torn)))
    (found,) = await measured(growing, ["train-0"], size, seed=1)
    # After the last turn nothing is drawn: the same answer to the same state earns the same.
    last = found[2]
    assert (last == last[:, :, :1]).all()
    assert len(np.unique(last[:, :, 0])) > 1


async def test_a_policy_told_to_retake_speaks_for_itself_afterwards():
    policy = Retaking(ScriptedPolicy(lambda context, seed: (7,)))
    policy.told = [Answer((1,), (-1.0,), stopped=True), Answer((2,), (-1.0,), stopped=True)]
    with pytest.raises(ValueError, match="told 2 answers, and asked for 1"):
        await policy.sample([(5,)], Sampling(), 0)
    policy.told = [Answer((1,), (-1.0,), stopped=True)]
    said = [(await policy.sample([(5,)], Sampling(), 0))[0].ids for _ in range(2)]
    assert said == [(1,), (7,)]


@pytest.mark.parametrize("name", ["trunks", "answers", "times"])
def test_a_variance_needs_two(name):
    with pytest.raises(ValueError, match=f"{name}: at least 2 are needed for a variance, got 1"):
        Size(**{name: 1})


def test_the_script_writes_what_it_prints(tmp_path, monkeypatch, capsys):
    from tests.trainer.runs import taught_lake

    model, tokenizer = taught_lake()
    model.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    words = ["--environment", "lake", "--environment.slip", "--model", str(tmp_path / "model")]
    assert script["main"]([*words, "--tasks", "3", "--trunks", "2", "--out", str(tmp_path)]) == 0
    result = json.loads((tmp_path / "variances-lake-slip-True.json").read_text())
    assert result["environment_settings"]["slip"] is True
    assert result["K"] == len(result["turns"]) - 1
    assert result["turns"][0]["states"] == 6
    said = capsys.readouterr().out
    assert f"{result['turns'][0]['sigma_d2']:.4f}" in said
