"""Tokens per second of sampling on shared contexts, against what a user would run instead.

All have the same weights, in single precision, and the same number of threads; all sample at
temperature 1 from the whole distribution until the last token that was asked for. We and vLLM give
log-probabilities, too; the others do not, and are spared that. Everybody begins a piece of work
with nothing kept, as after a change of the weights; in an episode, who can keeps the keys and
values of earlier turns. transformers' `generate` cannot: it prefills each turn's contexts anew,
and in the first case those of each sibling. CPU seconds are compared, of one process each.

vLLM has no kernel for the embedded policy's heads of 16 dimensions, so it is given the same model
with 16 zeros in each: what it says is the same up to rounding.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace

import torch
from transformers import ContinuousBatchingConfig, GenerationConfig, PreTrainedModel

from benchmarks.measure import Figure, main, ratio
from benchmarks.models import chosen
from benchmarks.rival import (
    VLLM,
    MissingRivalError,
    Rival,
    RivalFailedError,
    alternating,
    each,
    left_out,
    measured_here,
)
from benchmarks.sampling_work import WORKS, Ids, Sample, Work
from benchmarks.wide_heads import saved
from retrograde.backends.sampler import TransformersPolicy
from retrograde.policies.protocol import Sampling

OURS = "retrograde"
GENERATE = "generate"
CONTINUOUS = "continuous batching"
AGAINST = {GENERATE: 3.0, CONTINUOUS: None, VLLM.name: 1.5}
"""What is asked of tokens per second, ours over theirs."""
SMOLLM2_AGAINST_VLLM = 1.0
PROBE_TOKENS = 2
"""Of the work with which it is found out whether a rival runs here at all."""
PAGE, BATCH_TOKENS = 32, 1024
"""Of the continuous batching."""
LEAST_HEAD = 32
"""Dimensions of the narrowest attention head that vLLM has a kernel for on CPUs."""
NEVER = -1
"""What it calls a stop token that cannot come."""


def ours(policy: TransformersPolicy) -> Sample:
    """Our sampler."""

    def sample(contexts: Sequence[Ids], new_tokens: int) -> list[Ids]:
        asked = Sampling(temperature=1.0, max_new_tokens=new_tokens)
        answers = asyncio.run(policy.sample([tuple(c) for c in contexts], asked, seed=0))
        return [list(answer.ids) for answer in answers]

    return sample


def settings(new_tokens: int, **more: object) -> GenerationConfig:
    """Sampling from everything, to the last token."""
    return GenerationConfig(
        do_sample=True, temperature=1.0, top_k=0, top_p=1.0, max_new_tokens=new_tokens,
        pad_token_id=0, **more,
    )  # fmt: skip


@torch.inference_mode()
def generate(model: PreTrainedModel, contexts: Sequence[Ids], new_tokens: int) -> list[Ids]:
    """What a user of transformers writes: equal contexts are given once, with their number."""
    distinct = list(dict.fromkeys(tuple(context) for context in contexts))
    siblings = len(contexts) // len(distinct)
    ids = torch.tensor(distinct)
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        generation_config=settings(new_tokens, num_return_sequences=siblings),
    )
    return found[:, ids.shape[1] :].tolist()


def continuous(model: PreTrainedModel, contexts: Sequence[Ids], new_tokens: int) -> list[Ids]:
    """The continuous batching of transformers, which shares blocks of equal contexts.

    Its cache is as large as this call needs. Left to itself it takes what memory there is, and then
    each step on a CPU takes seconds.
    """
    longest = max(map(len, contexts)) + new_tokens
    room = ContinuousBatchingConfig(
        page_size=PAGE,
        num_blocks=len(contexts) * (longest // PAGE + 2),
        max_batch_tokens=BATCH_TOKENS,
    )
    found = model.generate_batch(
        [list(context) for context in contexts],
        generation_config=settings(new_tokens, eos_token_id=NEVER),
        continuous_batching_config=room,
        progress_bar=False,
    )
    return [list(answer.generated_tokens) for answer in found.values()]


@dataclass
class Contest:
    """Everyone who samples with one model."""

    model: PreTrainedModel
    vllm: Rival | None

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return self.model.config.get_text_config().vocab_size

    def cases(self, work: Work) -> dict[str, Callable[[], float]]:
        """CPU seconds for a piece of work, by who does it."""
        never = frozenset({self.vocabulary})  # a stop token that cannot come
        policy = TransformersPolicy(self.model, never)

        def us() -> None:
            policy.forget()
            work.done(ours(policy), self.vocabulary)

        def by(sample: Callable[[PreTrainedModel, Sequence[Ids], int], list[Ids]]) -> None:
            work.done(lambda contexts, new: sample(self.model, contexts, new), self.vocabulary)

        cases = {
            OURS: measured_here(us),
            GENERATE: measured_here(lambda: by(generate)),
            CONTINUOUS: measured_here(lambda: by(continuous)),
        }
        if self.vllm is not None:
            rival = self.vllm
            cases[VLLM.name] = lambda: float(rival.asked(asdict(work))["seconds"])
        return cases


def figures(
    case: str,
    seconds: Mapping[str, Sequence[float]],
    tokens: int,
    targets: Mapping[str, float],
    missing: Sequence[str] = (),
) -> list[Figure]:
    """Ours over each rival's tokens per second; the first says all of them, and who is missing."""
    said = "; ".join([f"tokens/s: {each(seconds, tokens)}", *missing])
    found: list[Figure] = []
    for name, taken in seconds.items():
        if name != OURS:
            what = f"tokens per second over {name}"
            median, lowest, highest = ratio(taken, seconds[OURS])
            note = "" if found else said
            target = targets.get(name)
            found.append(
                Figure("tree_sampling", case, what, median, lowest, highest, target, note=note)
            )
    return found


def what_stops(case: Callable[[], float]) -> str:
    """What stops a rival from doing a piece of work here; nothing, if it does it."""
    try:
        case()
    except (ImportError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def started(model: PreTrainedModel, stack: ExitStack, threads: int) -> Rival | str:
    """VLLM with the same weights, or why there is none."""
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    saved(model, folder, least_head=LEAST_HEAD)
    config = model.config.get_text_config()
    longest = max(
        work.context_tokens + work.turns * (work.new_tokens + work.observation_tokens)
        for work in WORKS.values()
    )
    asked = {
        "model": folder,
        "vocabulary": config.vocab_size,
        "positions": longest,
        "sequences": max(work.contexts * work.siblings for work in WORKS.values()),
    }
    try:
        return stack.enter_context(Rival(VLLM, asked, threads=threads))
    except (MissingRivalError, RivalFailedError) as error:
        return str(error)


def measured(asked: argparse.Namespace) -> list[Figure]:
    """All of it."""
    found: list[Figure] = []
    for name, model in chosen(quick=asked.quick).items():
        targets = {n: target for n, target in AGAINST.items() if target is not None}
        if name != "embedded":
            targets[VLLM.name] = SMOLLM2_AGAINST_VLLM
        with ExitStack() as stack:
            rival = started(model, stack, asked.threads)
            absent = [rival] if isinstance(rival, str) else []
            contest = Contest(model, None if isinstance(rival, str) else rival)
            for work in WORKS.values():
                missing = list(absent)
                cases = contest.cases(work)
                probe = replace(work, new_tokens=PROBE_TOKENS)
                why = what_stops(contest.cases(probe)[CONTINUOUS])
                if why:
                    missing.append(f"{CONTINUOUS} is left out: {why}")
                    del cases[CONTINUOUS]
                for note in missing:
                    left_out(note)
                seconds = alternating(cases, asked.repetitions)
                found += figures(f"{name}, {work.name}", seconds, work.tokens, targets, missing)
    return found


if __name__ == "__main__":
    main(__doc__, measured)
