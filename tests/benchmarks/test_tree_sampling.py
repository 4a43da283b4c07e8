"""What is sampled, and what is made of the seconds."""

import json
from dataclasses import asdict

import pytest
from benchmarks.models import embedded
from benchmarks.sampling_work import EPISODES, SIBLINGS, Work, work_of
from benchmarks.tree_sampling import AGAINST, OURS, Contest, figures, generate, ours, what_stops

from retrograde.backends.sampler import TransformersPolicy

VOCABULARY = 109


class Recorder:
    """Answers with its number of the call, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, contexts, new_tokens):
        self.asked.append([list(context) for context in contexts])
        return [[len(self.asked)] * new_tokens for _ in contexts]


def test_the_work_is_of_the_size_that_is_claimed():
    assert SIBLINGS.tokens == 4 * 8 * 32 == 1024
    assert EPISODES.tokens == 8 * 6 * 32 == 1536
    for work in (SIBLINGS, EPISODES):
        assert work.done(Recorder(), VOCABULARY) == work.tokens


def test_siblings_get_one_context_each():
    recorder = Recorder()
    SIBLINGS.done(recorder, VOCABULARY)
    (contexts,) = recorder.asked
    assert len(contexts) == 32
    assert {len(context) for context in contexts} == {256}
    assert [contexts[8 * i : 8 * i + 8] for i in range(4)] == [
        [contexts[8 * i]] * 8 for i in range(4)
    ]
    assert len({tuple(context) for context in contexts}) == 4


def test_an_episode_goes_on_from_its_own_answers():
    recorder = Recorder()
    EPISODES.done(recorder, VOCABULARY)
    # 256, and 32 of the answer and 32 of the observation more in each of the five turns after it.
    assert [len(contexts[0]) for contexts in recorder.asked] == [256, 320, 384, 448, 512, 576]
    for turn, (before, after) in enumerate(
        zip(recorder.asked, recorder.asked[1:], strict=False), start=1
    ):
        for short, long in zip(before, after, strict=True):
            assert long[: len(short) + 32] == short + [turn] * 32


def test_work_is_the_same_for_everyone_and_survives_the_way_to_another_process():
    first, second = Recorder(), Recorder()
    EPISODES.done(first, VOCABULARY)
    work_of(json.loads(json.dumps(asdict(EPISODES)))).done(second, VOCABULARY)
    assert first.asked == second.asked


def test_an_answer_cut_short_is_no_answer():
    with pytest.raises(ValueError, match="an answer of 31 tokens, and 32 were asked for"):
        SIBLINGS.done(lambda contexts, new: [[0] * (new - 1) for _ in contexts], VOCABULARY)


def test_we_and_generate_do_the_work():
    model, work = embedded(), Work("tiny", 2, 3, 8, 4, turns=2, observation_tokens=2)
    policy = TransformersPolicy(model, frozenset({VOCABULARY}))
    assert work.done(ours(policy), VOCABULARY) == 2 * 3 * 2 * 4
    assert work.done(lambda c, new: generate(model, c, new), VOCABULARY) == 2 * 3 * 2 * 4
    assert all(Contest(model, None).cases(work)[name]() > 0 for name in (OURS, "generate"))


def test_a_missing_rival_has_no_figure_but_a_note():
    absent = "vLLM is left out: `make setup-vllm` installs it"
    (figure,) = figures("embedded", {OURS: [1.0], "generate": [2.0]}, 10, AGAINST, [absent])
    assert figure.what == "tokens per second over generate"
    assert figure.note == f"tokens/s: retrograde 10, generate 5; {absent}"


def test_what_stops_a_rival_is_said():
    assert what_stops(lambda: 1.0) == ""

    def broken():
        raise ValueError("an answer of 0 tokens, and 2 were asked for")

    assert what_stops(broken) == "ValueError: an answer of 0 tokens, and 2 were asked for"


def test_a_ratio_is_of_seconds_side_by_side():
    seconds = {OURS: [1.0, 2.0, 1.0], "generate": [3.0, 8.0, 2.0], "vLLM": [1.0, 2.0, 4.0]}
    targets = {name: target for name, target in AGAINST.items() if target is not None}
    over_generate, over_vllm = figures("embedded", seconds, 100, targets)
    # 3/1, 8/2 and 2/1; and 1/1, 2/2 and 4/1.
    assert (over_generate.lowest, over_generate.ratio, over_generate.highest) == (2.0, 3.0, 4.0)
    assert over_generate.reached
    assert over_generate.note == "tokens/s: retrograde 100, generate 33, vLLM 50"
    assert (over_vllm.ratio, over_vllm.target, over_vllm.reached) == (1.0, 1.5, False)
    assert (
        figures("embedded", {OURS: [1.0], "continuous batching": [2.0]}, 1, targets)[0].reached
        is None
    )
