"""The settings of a run, and where it stands."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from retrograde.data.rows import Row
from retrograde.data.tree import Group
from retrograde.ops.cut import Cut
from retrograde.rollouts.limits import Limits

EVALUATIONS = 6
"""Evaluations in a run that does not say how often, the one at its start left out."""
BUDGETS = ("steps", "max_env_steps", "max_tokens", "max_seconds")
"""Settings that say how long a run goes on."""
SAVING_SHARE = 0.1
"""Of its time, that a run spends on checkpoints if it does not say how often."""


@dataclass(frozen=True, slots=True)
class Run:
    """How long, how much at once, and what is kept."""

    steps: int | None = None
    """Iterations; None for as many as the other budgets allow."""
    max_env_steps: int | None = None
    """Stop after the iteration in which this many turns have been generated."""
    max_tokens: int | None = None
    """Stop after the iteration in which this many tokens have been generated."""
    max_seconds: float | None = None
    """Stop after the iteration in which this many seconds have gone by; evaluations and
    checkpoints, which are no part of learning, do not count."""
    seed: int = 0
    """Of tasks, worlds, sampling and the order of minibatches."""
    prompts: int | None = None
    """Tasks an iteration; None takes what the model recommends."""
    temperature: float = 1.0
    """Answers are sampled, and scored by the learner, at this temperature."""
    top_k: int = 0
    """Answers are drawn from the k likeliest tokens, and scored so; 0 for all."""
    top_p: float = 1.0
    """Answers are drawn from the fewest tokens that are together as likely, and scored so."""
    min_p: float = 0.0
    """Answers are drawn from tokens at least so likely relative to the likeliest, and scored so."""
    weight_decay: float = 0.0
    """AdamW's."""
    eval_every: int | None = None
    """Iterations between evaluations; None for about six in a run. 0 for start and end only."""
    eval_first: int = 0
    """Number of the first held-out task that is played."""
    eval_episodes: int | None = None
    """Held-out tasks an evaluation; None takes what the model recommends."""
    save_every: int | None = None
    """Iterations between checkpoints (save_steps, save_freq); None for each iteration, or as often
    as takes a tenth of the time. One is always written at the start, at the end, when the run
    is stopped, and of what did best so far."""
    keep_checkpoints: int = 2
    """Older checkpoints are removed (save_total_limit), but not the best."""
    keep_best: str | None = "eval/success"
    """The checkpoint in whose evaluation this was highest is kept (metric_for_best_model); None
    for none."""
    keep_rollouts: int = 4
    """Groups an iteration whose trees are stored; -1 for all."""
    max_tokens_per_microbatch: int = 32768
    """Padded tokens in one forward pass."""
    turn_seconds: float = 60.0
    """Time limit of each call into the environment."""
    episode_seconds: float = 600.0
    """Time limit of all actions of an episode together."""
    reward_seconds: float = 120.0
    """Time limit of a reward function, for one turn."""
    max_observation_tokens: int = 2048
    """What the environment says at a time is cut in the middle if it is longer."""
    max_context_tokens: int | None = None
    """An episode ends, truncated, before a context and the longest answer to it pass this; None
    takes the model's number of positions."""
    threaded: bool = False
    """Call the environment in threads of its own: for environments that block."""

    def __post_init__(self) -> None:
        least = {"steps": 0, "max_env_steps": 1, "max_tokens": 1, "prompts": 1, "eval_every": 0}
        least |= {
            "save_every": 1,
            "eval_episodes": 1,
            "eval_first": 0,
            "keep_checkpoints": 1,
            "keep_rollouts": -1,
        }
        least |= {"max_tokens_per_microbatch": 1, "max_observation_tokens": 1}
        least |= {"max_context_tokens": 2}
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        for name, lowest in least.items():
            if values[name] is not None and values[name] < lowest:
                raise ValueError(f"{name}: at least {lowest} is needed, got {values[name]}")
        above = ("temperature", "turn_seconds", "episode_seconds", "reward_seconds", "max_seconds")
        for name in above:
            if values[name] is not None and not (math.isfinite(values[name]) and values[name] > 0):
                raise ValueError(f"{name}: a number above 0 is needed, got {values[name]}")
        _ = self.cut  # says what is wrong with it
        if not (math.isfinite(self.weight_decay) and self.weight_decay >= 0):
            raise ValueError(f"weight_decay: at least 0 is needed, got {self.weight_decay}")

    @property
    def cut(self) -> Cut:
        """Which tokens answers are drawn from."""
        return Cut(self.top_k, self.top_p, self.min_p)

    def limits(self, positions: int | None) -> Limits:
        """What a world may take; `positions` is how many tokens the model has room for."""
        room = [most for most in (positions, self.max_context_tokens) if most is not None]
        return Limits(
            self.turn_seconds,
            self.episode_seconds,
            self.reward_seconds,
            self.max_observation_tokens,
            min(room, default=None),
        )

    def is_over(self, state: "State") -> bool:
        """Whether a budget is used up."""
        return any(used >= budget for used, budget in self._budgets(state))

    def turns_left(self, state: "State", groups: Sequence[Group]) -> int | None:
        """Turns that may still be generated, those of the iteration under way counted.

        A budget of tokens is turned into turns at the length of those so far; the first
        iteration does not know it yet.
        """
        grown = sum(len(tree.turns) for group in groups for tree in group.trees)
        left: list[int] = []
        if self.max_env_steps is not None:
            left.append(self.max_env_steps - state.env_steps - grown)
        if self.max_tokens is not None and state.tokens:
            tokens_left = self.max_tokens - state.tokens
            left.append(int(tokens_left * state.env_steps / state.tokens) - grown)
        return max(0, min(left)) if left else None

    def is_evaluation_due(self, state: "State", share_before: float) -> bool:
        """Whether held-out tasks are played now.

        Args:
            state: where the run stands after an iteration.
            share_before: `share_done` before it.
        """
        if self.is_over(state):
            return True
        if self.eval_every is None:
            return int(EVALUATIONS * self.share_done(state)) > int(EVALUATIONS * share_before)
        return self.eval_every > 0 and state.step % self.eval_every == 0

    def note(self, state: "State", evaluation: Mapping[str, float] | None) -> None:
        """Remember the best evaluation so far; of equals the first."""
        value = None if self.keep_best is None else (evaluation or {}).get(self.keep_best)
        if value is not None and (state.best is None or value > state.best):
            state.best, state.best_step = value, state.step

    def is_saving_due(self, state: "State") -> bool:
        """Whether a checkpoint is written after an iteration."""
        if self.is_over(state) or state.best_step == state.step:
            return True
        if self.save_every is not None:
            return state.step % self.save_every == 0
        return state.saving_seconds <= SAVING_SHARE * (state.seconds - state.saved_at)

    def overdrawn(self, state: "State") -> list[str]:
        """Budgets smaller than what is used already, in words."""
        budgets = zip(self._budgets(state), self._set, strict=True)
        return [
            f"{name} {budget:g}: {used:g} are used already"
            for (used, budget), name in budgets
            if used > budget
        ]

    def used_up(self, state: "State") -> list[str]:
        """Names of the budgets that nothing is left of."""
        budgets = zip(self._budgets(state), self._set, strict=True)
        return [name for (used, budget), name in budgets if used >= budget]

    def share_done(self, state: "State") -> float:
        """How much of the budget is used, 0 to 1."""
        shares = [used / budget for used, budget in self._budgets(state) if budget]
        return min(1.0, max(shares, default=0.0))

    @property
    def is_open_ended(self) -> bool:
        """Whether no budget is set, so that the run would never be over."""
        return not self._budgets(State())

    @property
    def _set(self) -> list[str]:
        """The budgets that are set."""
        return [name for name in BUDGETS if getattr(self, name) is not None]

    def _budgets(self, state: "State") -> list[tuple[float, float]]:
        """What is used of each budget that is set, and the budget."""
        used_and_budget = (
            (state.step, self.steps),
            (state.env_steps, self.max_env_steps),
            (state.tokens, self.max_tokens),
            (state.training_seconds, self.max_seconds),
        )
        return [(used, budget) for used, budget in used_and_budget if budget is not None]


@dataclass
class State:
    """Where a run stands: all that a resumed run needs besides weights and optimizer."""

    step: int = 0
    version: int = 0
    """Number of the published weights."""
    env_steps: int = 0
    """Turns generated so far, trunks, siblings and continuations alike."""
    tokens: int = 0
    """Tokens generated so far."""
    seconds: float = 0.0
    """Wall clock so far, over all resumptions."""
    training_seconds: float = 0.0
    """The same without evaluations and checkpoints."""
    best: float | None = None
    """The highest evaluation so far, of what the run keeps the best of."""
    best_step: int | None = None
    """When it was."""
    saved_at: float = 0.0
    """What `seconds` was at the last checkpoint."""
    saving_seconds: float = 0.0
    """How long the last checkpoint took."""
    recent: deque[list[Row]] = field(default_factory=deque[list[Row]])
    """Rows of the last rounds, newest last, for updates that replay."""
