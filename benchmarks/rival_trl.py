"""TRL's side of `iteration`; `make setup-trl` makes the Python it runs in.

GRPOTrainer plays hop through `environment_factory`: what the policy says is a call of the only
tool, `say`, unless it is an answer, which ends the episode. A job is so many iterations of the
trainer, with everything that one takes from prompts to new weights.
"""

import time
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.hop_calls import HopTools, earned, taught
from benchmarks.jobs import Jobs
from retrograde.environments.hop import Hop, HopEpisode, Question


class Told(TrainerCallback):
    """Makes an iteration when there is a job for it, and ends when there is none."""

    def __init__(self, jobs: Jobs, rollouts: int) -> None:
        """Wait for the first."""
        self.jobs = jobs
        self.rollouts = rollouts
        self.left = 0
        self.begun = self.tokens = self.turns = self.earned = 0.0

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Wait for a job, if none is under way."""
        if not self.left:
            job = self.jobs.next()
            if job is None:
                raise SystemExit
            self.left, self.tokens, self.turns, self.earned = job["iterations"], 0.0, 0.0, 0.0
            self.begun = time.process_time()

    def on_log(self, *_: Any, logs: dict[str, float], **__: Any) -> None:
        """An iteration is over: its figures are there."""
        if "completions/mean_length" not in logs:
            return
        # The mean is over rollouts, of the tokens that the policy said.
        self.tokens += logs["completions/mean_length"] * self.rollouts
        self.turns += (1 + logs["tools/call_frequency"]) * self.rollouts
        self.earned += logs["reward"] * self.rollouts
        self.left -= 1
        if not self.left:
            seconds = time.process_time() - self.begun
            self.jobs.answer(
                seconds=seconds,
                tokens=round(self.tokens),
                turns=round(self.turns),
                earned=self.earned,
            )


def rows(tasks: list[str]) -> Dataset:
    """Prompts as TRL wants them, and the tasks that they open."""
    environment = Hop()
    opened = [HopEpisode(task, Question.of(task, environment.hops)).opening() for task in tasks]
    return Dataset.from_list(
        [
            {"prompt": [{"role": m.role, "content": m.content} for m in messages], "task": task}
            for task, messages in zip(tasks, opened, strict=True)
        ]
    )


def main() -> None:
    """Do jobs until none come."""
    jobs = Jobs()
    settings = jobs.settings
    torch.set_num_threads(settings["threads"])
    rollouts = settings["prompts"] * settings["siblings"]
    environment = Hop()
    arguments = GRPOConfig(
        output_dir=settings["out"],
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,  # it would only cost time
        learning_rate=settings["learning_rate"],
        lr_scheduler_type="constant",
        max_grad_norm=1.0,
        per_device_train_batch_size=rollouts,  # the whole batch at once, one optimizer step
        gradient_accumulation_steps=1,
        num_generations=settings["siblings"],
        num_iterations=1,
        max_completion_length=settings["completion"],
        max_tool_calling_iterations=environment.hops,
        generation_kwargs={"max_new_tokens": environment.max_new_tokens},
        temperature=1.0,
        beta=0.0,
        epsilon=0.2,
        shuffle_dataset=False,
        max_steps=len(settings["tasks"]) // settings["prompts"],
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=settings["model"],
        reward_funcs=earned,
        args=arguments,
        train_dataset=rows(settings["tasks"]),
        processing_class=taught(settings["model"]),
        environment_factory=HopTools,
        callbacks=[Told(jobs, rollouts)],
    )
    jobs.answer(ready=True)
    trainer.train()


if __name__ == "__main__":
    main()
