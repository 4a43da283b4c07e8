"""vLLM's side of `tree_sampling`; `make setup-vllm` makes the Python it runs in.

The engine runs in this process, in single precision, with prefix caching. It keeps keys and
values from turn to turn of one job, and begins each job with none, as after a change of weights.
"""

import time
from collections.abc import Sequence

from vllm import LLM, SamplingParams, TokensPrompt

from benchmarks.jobs import Jobs
from benchmarks.sampling_work import Ids, work_of


def main() -> None:
    """Do jobs until none come."""
    jobs = Jobs()
    settings = jobs.settings
    engine = LLM(
        model=settings["model"],
        skip_tokenizer_init=True,
        dtype="float32",
        max_model_len=settings["positions"],
        max_num_seqs=settings["sequences"],
        enable_prefix_caching=True,
        disable_log_stats=True,
        seed=0,
    )

    def sample(contexts: Sequence[Ids], new_tokens: int) -> list[Ids]:
        asked = SamplingParams(
            temperature=1.0,
            max_tokens=new_tokens,
            ignore_eos=True,
            detokenize=False,
            logprobs=0,  # of the sampled token, which learning needs; as TRL and verl ask for
        )
        prompts = [TokensPrompt(prompt_token_ids=list(context)) for context in contexts]
        found = engine.generate(prompts, asked, use_tqdm=False)
        return [list(answer.outputs[0].token_ids) for answer in found]

    jobs.answer(ready=True)
    for job in jobs:
        engine.reset_prefix_cache()
        begun = time.process_time()
        tokens = work_of(job).done(sample, settings["vocabulary"])
        jobs.answer(seconds=time.process_time() - begun, tokens=tokens)


if __name__ == "__main__":
    main()
