"""Learning with a transformers model in this process: AdamW on rows of exact token ids."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from retrograde.backends.padding import microbatches
from retrograde.backends.sampler import action_logp, logprobs
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Row
from retrograde.losses.policy import Level, PolicyLoss
from retrograde.schedules.update import Update


class TransformersLearner:
    """Owns the weights that are trained, and the optimizer's state."""

    def __init__(
        self,
        model: PreTrainedModel,
        update: Update,
        *,
        pad: int,
        temperature: float = 1.0,
        weight_decay: float = 0.0,
        max_tokens_per_microbatch: int = 32768,
        keep_reference: bool = False,
    ) -> None:
        """Bind a model, which is trained in place.

        Args:
            model: any decoder-only model of transformers.
            update: learning rate, warm-up and gradient clipping are taken from it.
            pad: any valid token id.
            temperature: the one that answers are sampled with.
            weight_decay: AdamW's.
            max_tokens_per_microbatch: padded tokens in one forward and backward pass.
            keep_reference: keep a frozen copy of the weights as they are now, for a KL penalty.

        Raises:
            ValueError: the learning rate is still open.
        """
        if update.learning_rate is None:
            raise ValueError("learning_rate is None: take the model's recommendation first")
        self.model = model.eval()  # dropout would make pi differ from the policy that acted
        self.reference = (
            copy.deepcopy(model).requires_grad_(requires_grad=False) if keep_reference else None
        )
        self.update = update
        self.pad = pad
        self.temperature = temperature
        self.max_tokens = max_tokens_per_microbatch
        self.steps = 0
        self.optimizer = torch.optim.AdamW(
            model.parameters(),
            lr=update.learning_rate,
            betas=(0.9, 0.99),
            weight_decay=weight_decay,
        )

    def step(self, rows: Sequence[Row], loss: PolicyLoss) -> dict[str, float]:
        """One optimizer step. Splitting it into microbatches changes neither loss nor gradient.

        Rows with an advantage of 0 count in every mean; unless a penalty acts on them, their
        gradient is exactly 0 and they are not run. Rows with the same context and action are
        run once, and each enters the loss with its own advantage and log-probabilities. A
        gradient of exactly 0 takes no step: `grad_norm` says so.

        Raises:
            FloatingPointError: the gradient is not finite; the weights are left as they were.
        """
        tokens = ActionTokens.of(rows).to(self.model.device)
        if loss.kl:
            reference_logp = torch.cat(self._score(rows, self._reference_model()))
            tokens = replace(tokens, reference_logp=reference_logp)
        weight_T = loss.weights(tokens)
        self.optimizer.zero_grad(set_to_none=True)
        metrics = self._backward(rows, loss, tokens, weight_T)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.update.max_grad_norm)
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"the gradient of update {self.steps} is not finite (norm {norm}); "
                f"lower the learning rate or look at the rewards"
            )
        if norm == 0:  # rows that cancel each other say nothing, and momentum is not asked
            return metrics | {"grad_norm": 0.0, "learning_rate": 0.0}
        rate = self._learning_rate()
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.steps += 1
        return metrics | {"grad_norm": float(norm), "learning_rate": rate}

    def _learning_rate(self) -> float:
        peak = self.update.learning_rate or 0.0
        if not self.update.warmup_steps:
            return peak
        return peak * min(1.0, (self.steps + 1) / self.update.warmup_steps)

    def _backward(
        self, rows: Sequence[Row], loss: PolicyLoss, tokens: ActionTokens, weight_T: Tensor
    ) -> dict[str, float]:
        distinct: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for i, row in enumerate(rows):
            if row.is_informative or loss.kl:
                distinct.setdefault((row.context, row.action), []).append(i)
        sequences = list(distinct)
        starts = torch.tensor([0, *(len(row.action) for row in rows)]).cumsum(0).tolist()
        # A ratio over rollouts needs all of a rollout's tokens at hand, so nothing is split.
        budget = self.max_tokens if loss.ratio is not Level.ROLLOUT else 1 << 60
        lengths = [len(context) + len(action) for context, action in sequences]
        names = ("loss", "tokens", "clipped", "ratio", "log_ratio", "nats")
        total: dict[str, float] = dict.fromkeys(names, 0.0)
        error = 0.0
        for part in microbatches(lengths, budget):
            contexts, actions = zip(*(sequences[i] for i in part), strict=True)
            logp = action_logp(self.model, contexts, actions, self.temperature, self.pad)
            visits = [
                (own, i) for own, s in zip(logp, part, strict=True) for i in distinct[sequences[s]]
            ]
            logp_T = torch.cat([own for own, _ in visits])
            kept_T = torch.cat([torch.arange(starts[i], starts[i + 1]) for _, i in visits])
            part_tokens = tokens.at(kept_T)
            value = loss(logp_T, part_tokens, weight_T[kept_T])
            value.backward()
            seen = loss.statistics(logp_T.detach(), part_tokens)
            error = max(error, seen.pop("ratio_error"))
            total["loss"] += float(value.detach())
            total["nats"] -= float(logp_T.detach().sum())
            for name, number in seen.items():
                total[name] += number
        count = max(total["tokens"], 1.0)
        return {
            "policy_loss": total["loss"],
            "clip_ratio": total["clipped"] / count,
            "ratio/mean": total["ratio"] / count if total["tokens"] else 1.0,
            "ratio/error_max": error,
            "ratio/abs_log_mean": total["log_ratio"] / count,
            "surprise": total["nats"] / count,
            "rows": float(len(rows)),
            "rows/zero_advantage": 1.0 - sum(row.is_informative for row in rows) / len(rows),
            "rows/informative": float(sum(row.is_informative for row in rows)),
            "rows/run": float(len(sequences)),
            "tokens/trained": float(sum(len(action) for _, action in sequences)),
        }

    def score(self, rows: Sequence[Row]) -> list[list[float]]:
        """log pi of each row's action under the weights of now, at the sampling temperature."""
        return [row.tolist() for row in self._score(rows, self.model)]

    def recomputed(self, rows: Sequence[Row]) -> list[Row]:
        """Rows whose recorded log-probabilities are replaced by those of now, on their context."""
        scores = self.score(rows)
        return [
            replace(row, behaviour_logp=tuple(logp)) for row, logp in zip(rows, scores, strict=True)
        ]

    @torch.inference_mode()
    def _score(self, rows: Sequence[Row], model: PreTrainedModel) -> list[Tensor]:
        distinct = {
            key: i for i, key in enumerate(dict.fromkeys((r.context, r.action) for r in rows))
        }
        contexts = [context for context, _ in distinct]
        actions = [action for _, action in distinct]
        scores = logprobs(model, contexts, actions, self.temperature, self.max_tokens, self.pad)
        return [scores[distinct[row.context, row.action]] for row in rows]

    def _reference_model(self) -> PreTrainedModel:
        if self.reference is None:
            raise ValueError("kl is above 0, which needs the initial weights: keep_reference=True")
        return self.reference

    def weights(self) -> Mapping[str, Tensor]:
        """The weights of now, by name; to be copied before the next step."""
        return {name: tensor.detach() for name, tensor in self.model.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs besides the weights, as named tensors."""
        names = [name for name, _ in self.model.named_parameters()]
        tensors = {"steps": torch.tensor(self.steps)}
        for index, entry in self.optimizer.state_dict()["state"].items():
            for key, tensor in entry.items():
                tensors[f"{key}/{names[index]}"] = tensor.clone()
        if self.reference is not None:
            for name, tensor in self.reference.named_parameters():
                tensors[f"reference/{name}"] = tensor.clone()
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.steps = int(tensors["steps"])
        whole = self.optimizer.state_dict()
        state: dict[int, dict[str, Tensor]] = {}
        for index, (name, _) in enumerate(self.model.named_parameters()):
            entry = {
                key: tensors[f"{key}/{name}"]
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{key}/{name}" in tensors
            }
            if entry:
                state[index] = entry
        self.optimizer.load_state_dict({"state": state, "param_groups": whole["param_groups"]})
        if self.reference is not None:
            for name, held in self.reference.named_parameters():
                held.data.copy_(tensors[f"reference/{name}"])
