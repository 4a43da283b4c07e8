"""What the sampler says it did is what the learner finds that it did."""

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM

from retrograde.backends import light, light_reading
from retrograde.backends.lean import Lean, lean_of
from retrograde.backends.route import Flat
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.rows import Row
from retrograde.policies.protocol import Sampling

from .tiny import (
    ARCHITECTURES,
    KINDS,
    SIZE,
    STOP,
    VOCABULARY,
    architecture,
    learner,
    model,
    policy,
    sequences,
)

CONTEXTS, _ = sequences(6, seed=3)
REPEATED = [context for context in CONTEXTS for _ in range(3)]


def as_rows(contexts, answers):
    return [
        Row(context, answer.ids, answer.logprobs, 1.0, 0, 0, (0, 0, i, i))
        for i, (context, answer) in enumerate(zip(contexts, answers, strict=True))
    ]


def gap(rows, scores):
    return max(
        abs(now - then)
        for row, logp in zip(rows, scores, strict=True)
        for now, then in zip(logp, row.behaviour_logp, strict=True)
    )


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", KINDS)
async def test_sampled_and_recomputed_logprobs_agree(kind, attention, temperature):
    made = model(kind, attention=attention)
    answers = await policy(made).sample(REPEATED, Sampling(temperature, 8), 1)
    assert len({answer.ids for answer in answers}) > 12
    assert {answer.stopped for answer in answers} == {True, False}
    rows = as_rows(REPEATED, answers)
    assert gap(rows, learner(made, temperature=temperature).score(rows)) < 1e-5
    other = learner(made, temperature=1.7 - temperature)  # the control
    assert gap(rows, other.score(rows)) > 1e-2


async def test_the_policys_own_score_is_at_temperature_1():
    acting = policy(model())
    answers = await acting.sample(REPEATED, Sampling(1.0, 8), 1)
    scores = await acting.score(REPEATED, [answer.ids for answer in answers])
    assert gap(as_rows(REPEATED, answers), scores) < 1e-5


async def test_temperature_0_takes_the_likeliest_token_each_time():
    made = model()
    answers = await policy(made).sample(CONTEXTS, Sampling(0.0, 6), 1)
    for context, answer in zip(CONTEXTS, answers, strict=True):
        seen, expected = list(context), []
        while len(expected) < 6 and not STOP & set(expected):
            with torch.inference_mode():
                logits = made(torch.tensor([seen])).logits[0, -1]
            expected.append(int(logits.argmax()))
            seen.append(expected[-1])
        assert answer.ids == tuple(expected)
    rows = as_rows(CONTEXTS, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5  # of the unscaled distribution


@pytest.mark.parametrize("limit", [1, 2, 8])
async def test_an_answer_ends_with_its_stop_token_or_its_limit(limit):
    answers = await policy(model()).sample(REPEATED * 4, Sampling(1.0, limit), 2)
    for answer in answers:
        assert len(answer.ids) == len(answer.logprobs) <= limit
        assert not STOP & set(answer.ids[:-1])
        assert answer.stopped == (answer.ids[-1] in STOP)
        assert answer.stopped or len(answer.ids) == limit
    if limit == 8:  # every stop id counts
        assert {answer.ids[-1] for answer in answers if answer.stopped} == STOP


async def test_a_shared_prefill_is_like_a_separate_one():
    """Equal contexts are run once; apart, in any batch, they give the same distribution."""
    acting = policy(model())
    together = await acting.sample([CONTEXTS[0]] * 5, Sampling(1.0, 8), 4)
    scores = await acting.score([CONTEXTS[0]] * 5, [answer.ids for answer in together])
    assert gap(as_rows([CONTEXTS[0]] * 5, together), scores) < 1e-5
    greedy = Sampling(0.0, 8)
    alone = [(await acting.sample([context], greedy, 1))[0] for context in CONTEXTS]
    mixed = await acting.sample(REPEATED, greedy, 1)
    for i, answer in enumerate(mixed):
        assert answer.ids == alone[i // 3].ids
        assert answer.logprobs == pytest.approx(alone[i // 3].logprobs, abs=1e-5)


PREFIX = tuple(1 + i % (VOCABULARY - 1) for i in range(96))
TAILS = [(), (7,), (7, 8, 9, 10, 11, 3), (1, 2), (7, 8), (7,)]
FAMILIES = {
    "alike": [(*PREFIX, *tail) for tail in TAILS[1:]],
    "inside": [(*PREFIX, *tail) for tail in TAILS],  # one is all that the others have in common
    "short": [(*PREFIX[:-1], token) for token in (5, 6, 5)],
    "little": [(*PREFIX[:3], *tail) for tail in TAILS],
    "nothing": [(token,) for token in (1, 2, 1)],
}


def watched(acting):
    """Tokens of each pass of a policy's model, which is taken for a heavy one."""
    acting.lean = None
    seen = []
    acting.model.get_decoder().register_forward_pre_hook(
        lambda _module, _words, named: seen.append(named["input_ids"].numel()), with_kwargs=True
    )
    return seen


@pytest.mark.parametrize("contexts", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_what_contexts_share_is_run_once(name, contexts):
    made = architecture(name, dtype=torch.float32)
    acting = policy(made)
    seen = watched(acting)
    answers = await acting.sample(contexts, Sampling(1.0, 8), 1)
    rows = as_rows(contexts, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5
    # The last token of a context is run with the answer: its scores are wanted.
    prefixes = {c[:i] for c in contexts for i in range(1, len(c))}
    assert seen[0] == (len(prefixes) or len(contexts))
    greedy = await acting.sample(contexts, Sampling(0.0, 8), 1)
    for context, answer in zip(contexts, greedy, strict=True):
        (alone,) = await policy(made).sample([context], Sampling(0.0, 8), 1)
        assert answer.ids == alone.ids


@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_a_turn_that_follows_runs_only_what_is_new(name):
    made = architecture(name, dtype=torch.float32)
    acting = policy(made)
    seen = watched(acting)
    first = await acting.sample(CONTEXTS, Sampling(1.0, 8), 1)
    onward = [
        (*context, *answer.ids, 9, 10, 11) for context, answer in zip(CONTEXTS, first, strict=True)
    ]
    seen.clear()
    answers = await acting.sample(onward, Sampling(1.0, 8), 2)
    rows = as_rows(onward, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5
    assert seen[0] <= 3 * len(onward)  # the token sampled last and two of three: not the rest
    seen.clear()
    again = await acting.sample(onward, Sampling(0.0, 8), 3)
    assert seen[0] == len(onward)  # siblings: nothing is left to be read
    rows = as_rows(onward, again)
    assert gap(rows, learner(made).score(rows)) < 1e-5


async def test_keys_and_values_never_outlive_their_weights():
    made = model()
    acting = policy(made)
    await acting.sample(CONTEXTS, Sampling(1.0, 8), 1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.05)
    acting.load({name: p.detach() for name, p in made.named_parameters()}, 1)
    answers = await acting.sample(CONTEXTS, Sampling(1.0, 8), 1)
    rows = as_rows(CONTEXTS, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5
    # The control: with what was computed under the weights before, it is another distribution.
    store, acting.store.clear = acting.store, lambda: None
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.mul_(1.3)
    acting.load({name: p.detach() for name, p in made.named_parameters()}, 2)
    answers = await acting.sample(CONTEXTS, Sampling(1.0, 8), 1)
    rows = as_rows(CONTEXTS, answers)
    assert gap(rows, learner(made).score(rows)) > 1e-3
    assert store is acting.store


async def test_a_finished_answers_place_is_taken_by_the_next():
    made = model()
    acting = policy(made, max_tokens_per_microbatch=100)
    seen = watched(acting)
    answers = await acting.sample(REPEATED, Sampling(1.0, 8), 5)
    rows = as_rows(REPEATED, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5
    tokens = sum(len(answer.ids) for answer in answers)
    reads = [n for n in seen if n > 0]
    assert max(reads) <= 100
    assert sum(reads) < 2 * tokens + sum(map(len, CONTEXTS))  # few places stand empty


@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_a_small_store_changes_nothing(name):
    made = architecture(name, dtype=torch.float32)
    small, large = policy(made, kv_budget_bytes=1), policy(made)
    contexts = list(CONTEXTS)
    for turn in range(3):
        one = await small.sample(contexts, Sampling(0.0, 6), turn)
        other = await large.sample(contexts, Sampling(0.0, 6), turn)
        assert [answer.ids for answer in one] == [answer.ids for answer in other]
        rows = as_rows(contexts, one)
        assert gap(rows, learner(made).score(rows)) < 1e-5
        contexts = [(*c, *a.ids, 9) for c, a in zip(contexts, one, strict=True)]
    for acting in (small, large):
        await acting.sample([(1, 2, 3)], Sampling(0.0, 6), 0)
    assert small.store.dropped > 0 == large.store.dropped


async def test_a_small_budget_splits_the_batch_and_loses_nobody():
    made = model()
    whole = await policy(made).sample(REPEATED, Sampling(0.0, 8), 1)
    split = await policy(made, max_tokens_per_microbatch=25).sample(REPEATED, Sampling(0.0, 8), 1)
    assert [answer.ids for answer in split] == [answer.ids for answer in whole]
    for one, other in zip(whole, split, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


async def test_tokens_are_drawn_from_the_distribution_that_is_recorded():
    made, count = model(), 4000
    context = CONTEXTS[1]
    answers = await policy(made).sample([context] * count, Sampling(0.7, 1), 5)
    with torch.inference_mode():
        expected = (made(torch.tensor([context])).logits[0, -1] / 0.7).softmax(-1)
    drawn = torch.tensor([answer.ids[0] for answer in answers]).bincount(minlength=VOCABULARY)
    noise = (expected * (1 - expected) / count).sqrt()
    assert ((drawn / count - expected).abs() <= 4 * noise + 1e-4).all()
    for answer in answers:
        assert answer.logprobs[0] == pytest.approx(float(expected[answer.ids[0]].log()), abs=1e-5)


async def test_the_same_seed_gives_the_same_answers_and_another_does_not():
    acting = policy(model())
    first = await acting.sample(REPEATED, Sampling(1.0, 8), 1)
    assert await acting.sample(REPEATED, Sampling(1.0, 8), 1) == first
    assert await acting.sample(REPEATED, Sampling(1.0, 8), 2) != first


async def test_the_programs_own_random_numbers_are_neither_used_nor_moved():
    acting = policy(model())
    torch.manual_seed(1)
    first = await acting.sample(REPEATED, Sampling(1.0, 8), 1)
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(1), after)
    torch.manual_seed(99)
    assert await acting.sample(REPEATED, Sampling(1.0, 8), 1) == first


async def test_new_weights_act_at_once():
    """Nothing of the old ones is remembered, prefill or other."""
    old, new = model(seed=0), model(seed=1)
    acting = policy(old)
    await acting.sample(REPEATED, Sampling(0.0, 8), 1)
    acting.load(dict(new.named_parameters()), 1)
    assert acting.version == 1
    fresh = await policy(new).sample(REPEATED, Sampling(0.0, 8), 1)
    assert await acting.sample(REPEATED, Sampling(0.0, 8), 1) == fresh


async def test_a_policy_is_a_copy_of_its_model():
    made = model()
    acting = policy(made)
    before = await acting.sample(REPEATED, Sampling(0.0, 8), 1)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.zero_()
    assert await acting.sample(REPEATED, Sampling(0.0, 8), 1) == before
    assert not any(parameter.requires_grad for parameter in acting.model.parameters())


def test_a_later_version_with_the_very_same_weights_is_refused():
    made = model()
    acting = policy(made)
    with pytest.raises(ValueError, match="version 1 of the weights equals version 0 bit by bit"):
        acting.load(dict(made.named_parameters()), 1)
    assert acting.version == 0
    acting.load(dict(made.named_parameters()), 0)  # the same version again is fine
    changed = {name: tensor.clone() for name, tensor in made.named_parameters()}
    changed["model.norm.weight"][0] += 1e-6
    acting.load(changed, 1)
    assert acting.version == 1


async def test_contexts_that_cannot_be_answered_are_refused():
    acting = policy(model())
    with pytest.raises(ValueError, match="no tokens"):
        await acting.sample([(1,), ()], Sampling(1.0, 8), 1)
    with pytest.raises(ValueError, match=r"121 tokens .* up to 8 .* 128 positions"):
        await acting.sample([(1,) * 121], Sampling(1.0, 8), 1)
    (answer,) = await acting.sample([(1,) * 120], Sampling(1.0, 8), 1)
    assert answer.ids


async def test_padding_with_a_stop_token_is_harmless():
    """The smallest stop token pads where anything is padded, and contexts are full of them."""
    acting: TransformersPolicy = policy(model())
    assert min(STOP) == 3
    contexts = [(3, 5, 3, 1), (3,), (1, 2, 3, 4, 5, 3)]
    answers = await acting.sample(contexts, Sampling(1.0, 8), 1)
    assert (
        gap(as_rows(contexts, answers), await acting.score(contexts, [a.ids for a in answers]))
        < 1e-5
    )


LIGHT = ("llama", "qwen2", "qwen3")
"""Architectures that a light model's operations are known of."""


def read_by(monkeypatch):
    """Tokens of each level that is read from now on."""
    seen = []

    class Watched(light_reading.Level):
        def __init__(self, *parts):
            super().__init__(*parts)
            seen.append(int(self.new_SQ.sum()))

    monkeypatch.setattr(light_reading, "Level", Watched)
    return seen


@pytest.mark.parametrize("contexts", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("name", LIGHT)
async def test_a_light_model_reads_once_and_says_what_a_heavy_one_says(name, contexts, monkeypatch):
    made = architecture(name, dtype=torch.float32)
    light, heavy = policy(made), policy(made)
    assert light.lean is not None
    heavy.lean = None
    seen = read_by(monkeypatch)
    drawn = await light.sample(contexts, Sampling(1.0, 8), 1)
    assert sum(seen) == len({c[:i] for c in contexts for i in range(1, len(c))})
    # The luck of each answer is its own, so they are the same answers.
    for one, other in zip(drawn, await heavy.sample(contexts, Sampling(1.0, 8), 1), strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)
        assert one.entropies == pytest.approx(other.entropies, abs=1e-5)
    seen.clear()
    onward = [(*c, *a.ids, 9, 10, 11) for c, a in zip(contexts, drawn, strict=True)]
    answers = await light.sample(onward, Sampling(1.0, 8), 2)
    assert sum(seen) <= 3 * len(onward)  # the token sampled last and two of three: not the rest
    rows = as_rows(onward, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5


async def test_with_little_memory_a_light_model_takes_turns(monkeypatch):
    made = model()
    whole, small = policy(made), policy(made, kv_budget_bytes=20_000, max_tokens_per_microbatch=8)
    seen = read_by(monkeypatch)
    answers = await small.sample(REPEATED, Sampling(1.0, 8), 5)
    assert max(seen) <= max(8, *map(len, CONTEXTS))
    expected = await whole.sample(REPEATED, Sampling(1.0, 8), 5)
    assert [answer.ids for answer in answers] == [answer.ids for answer in expected]
    rows = as_rows(REPEATED, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5


async def test_a_long_context_that_has_to_wait_costs_nobody_anything():
    made = model()
    contexts = [(1, 2, 3), (1, 3), (2, 1), *[(3, *[1, 2] * 20), (3, *[2, 1] * 20)], (4, 1)]
    room = 3 * (2 + 8) * policy(made).lean.token_bytes  # for three short ones
    small = policy(made, kv_budget_bytes=room)
    answers = await small.sample(contexts, Sampling(1.0, 8), 5)
    expected = await policy(made).sample(contexts, Sampling(1.0, 8), 5)
    assert [answer.ids for answer in answers] == [answer.ids for answer in expected]


def run_by(monkeypatch):
    """Rows of each pass of few operations."""
    seen = []
    run = Lean.__call__

    def watched_run(lean, ids, *more):
        seen.append(len(ids))
        return run(lean, ids, *more)

    monkeypatch.setattr(Lean, "__call__", watched_run)
    return seen


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
async def test_while_answers_say_the_same_they_are_one(temperature, monkeypatch):
    monkeypatch.setattr(light, "IDLE", 0.0)
    acting = policy(model())
    await acting.sample(REPEATED * 4, Sampling(0.0, 1), 2)  # contexts are read
    seen = run_by(monkeypatch)
    answers = await acting.sample(REPEATED * 4, Sampling(temperature, 8), 2)
    ran = [
        (context, answer.ids[:said])
        for context, answer in zip(REPEATED * 4, answers, strict=True)
        for said in range(len(answer.ids))
    ]
    assert sum(seen) == len(set(ran)) < len(ran)
    assert temperature == 0.0 or len(set(ran)) > len({said for said in ran if not said[1]})
    rows = as_rows(REPEATED * 4, answers)
    assert temperature != 1.0 or gap(rows, learner(model()).score(rows)) < 1e-5


async def test_a_level_of_next_to_nothing_is_run_with_the_one_above_it(monkeypatch):
    contexts = [(1, 2, *tail, 3) for tail in ((5, 6, 7), (5, 6, 8), (5, 7, 7), (6,), (6, 6))]
    seen = read_by(monkeypatch)
    found = []
    for again, new in ((0, [2, 2, 4, 2]), (128, [10])):
        monkeypatch.setattr(light_reading, "AGAIN", again)
        seen.clear()
        answers = await policy(model()).sample(contexts, Sampling(1.0, 8), 2)
        found.append(answers)
        # 1 2; behind it 5 and 6; behind those 6, 7 7 and 6; 7 and 8: a pass each, or one for all
        assert seen == new
    for one, other in zip(*found, strict=True):
        assert one.ids == other.ids
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-5)


def test_only_what_comes_to_the_same_is_run_with_few_operations():
    assert lean_of(architecture("qwen3", dtype=torch.float32)) is not None
    assert lean_of(architecture("gemma3", dtype=torch.float32)) is None
    changed = architecture("qwen3", dtype=torch.float32)
    changed.model.layers[0].mlp.act_fn = torch.nn.ReLU()
    assert lean_of(changed) is None
    watched_model = architecture("qwen3", dtype=torch.float32)
    watched_model.model.layers[0].register_forward_hook(lambda *_: None)
    assert lean_of(watched_model) is None


@pytest.mark.parametrize("name", ARCHITECTURES)
async def test_without_shared_prefixes_the_same_is_said(name):
    """The way of architectures that a trie cannot be led along, on ones that it can."""
    made = architecture(name, dtype=torch.float32)
    plain, sharing = policy(made), policy(made)
    plain.store, plain.route = None, Flat(plain.model, min(STOP))
    for contexts in (CONTEXTS, REPEATED):
        one = await plain.sample(contexts, Sampling(1.0, 8), 3)
        other = await sharing.sample(contexts, Sampling(1.0, 8), 3)
        assert [answer.ids for answer in one] == [answer.ids for answer in other]
        actions = [answer.ids for answer in one]
        scores = await plain.score(contexts, actions)
        for a, b in zip(scores, await sharing.score(contexts, actions), strict=True):
            assert a == pytest.approx(b, abs=1e-5)


async def test_an_architecture_that_caps_its_scores_is_run_flat():
    config = Gemma2Config(**SIZE, num_attention_heads=4, num_key_value_heads=2, head_dim=8)
    made = Gemma2ForCausalLM(config).eval()
    assert made.config.attn_logit_softcapping
    acting = policy(made)
    assert acting.store is None
    answers = await acting.sample(CONTEXTS, Sampling(1.0, 8), 1)
    rows = as_rows(CONTEXTS, answers)
    assert gap(rows, learner(made).score(rows)) < 1e-5
