"""Learning with a transformers model in this process: AdamW on rows of exact token ids."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from retrograde.backends.critic import SharedCritic
from retrograde.backends.optimizer import Optimizer
from retrograde.backends.route import Route, route_of, scored
from retrograde.backends.weights import frozen_copy, ready_to_learn, trained_weights
from retrograde.data.batch import ActionTokens
from retrograde.data.rows import Row
from retrograde.losses.policy import Level, PolicyLoss
from retrograde.ops.cut import WHOLE, Cut
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
        cut: Cut = WHOLE,
        weight_decay: float = 0.0,
        max_tokens_per_microbatch: int = 32768,
        keep_reference: bool = False,
        critic: SharedCritic | None = None,
    ) -> None:
        """Bind a model, which is trained in place.

        Args:
            model: any decoder-only model of transformers; of its weights those that require a
                gradient are trained.
            update: learning rate, warm-up and gradient clipping are taken from it.
            pad: any valid token id.
            temperature: the one that answers are sampled with.
            cut: which tokens they are drawn from.
            weight_decay: AdamW's.
            max_tokens_per_microbatch: padded tokens in one forward and backward pass.
            keep_reference: keep a frozen copy of the weights as they are now, for a KL penalty.
            critic: a head on this model, trained in the same steps.

        Raises:
            ValueError: the learning rate is still open.
        """
        self.trained = trained_weights(model)
        self.reference = frozen_copy(model) if keep_reference else None
        self.model = ready_to_learn(model)  # dropout would make pi differ from who acted
        self.route = route_of(self.model, pad)
        self.reference_route = None if self.reference is None else route_of(self.reference, pad)
        self.pad = pad
        self.temperature = temperature
        self.cut = cut
        self.max_tokens = max_tokens_per_microbatch
        self.critic = critic
        head = [] if critic is None else critic.named_parameters()
        self.optimizer = Optimizer(
            [*self.trained.items(), *head], update, weight_decay=weight_decay
        )

    def step(self, rows: Sequence[Row], loss: PolicyLoss) -> dict[str, float]:
        """One optimizer step. Splitting it into microbatches changes neither loss nor gradient.

        Rows with an advantage of 0 count in every mean; unless a penalty acts on them, their
        gradient is exactly 0 and they are not run. Rows with the same context and action are
        run once, and each enters the loss with its own advantage and log-probabilities. A
        gradient of exactly 0 takes no step: `grad_norm` says so.

        Raises:
            FloatingPointError: loss or gradient is not finite; the weights are left as they were.
        """
        tokens = ActionTokens.of(rows).to(self.model.device)
        if loss.kl:
            reference_logp = torch.cat(self._score(rows, self._to_reference()))
            tokens = replace(tokens, reference_logp=reference_logp)
        weight_T = loss.weights(tokens)
        self.optimizer.zero_grad()
        metrics = self._backward(rows, loss, tokens, weight_T)
        self.optimizer.check(metrics["policy_loss"])
        return metrics | self.optimizer.step()

    def _backward(
        self, rows: Sequence[Row], loss: PolicyLoss, tokens: ActionTokens, weight_T: Tensor
    ) -> dict[str, float]:
        distinct: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for i, row in enumerate(rows):
            if row.is_informative or loss.kl or self.critic is not None:
                distinct.setdefault((row.context, row.action), []).append(i)
        sequences = list(distinct)
        starts = torch.tensor([0, *(len(row.action) for row in rows)]).cumsum(0).tolist()
        # A ratio over rollouts needs all of a rollout's tokens at hand, so nothing is split.
        budget = self.max_tokens if loss.ratio is not Level.ROLLOUT else 1 << 60
        names = ("loss", "tokens", "clipped", "ratio", "log_ratio", "nats")
        total: dict[str, float] = dict.fromkeys(names, 0.0)
        error, apart, valued = 0.0, 0.0, Counter[str]()
        every_context = [context for context, _ in sequences]
        every_action = [action for _, action in sequences]
        route = self.route.fitting(every_context, every_action)
        for part in route.parts(every_context, every_action, budget):
            contexts, actions = zip(*(sequences[i] for i in part), strict=True)
            logp, states = route.run(
                contexts, actions, self.temperature, cut=self.cut, states=self.critic is not None
            )
            visits = [(j, i) for j, s in enumerate(part) for i in distinct[sequences[s]]]
            logp_T = torch.cat([logp[j] for j, _ in visits])
            kept_T = torch.cat([torch.arange(starts[i], starts[i + 1]) for _, i in visits])
            part_tokens = tokens.at(kept_T)
            value = loss(logp_T, part_tokens, weight_T[kept_T])
            with route.held():
                (value + self._value_loss(states, rows, visits, valued)).backward()
            seen = loss.statistics(logp_T.detach(), part_tokens)
            error = max(error, seen.pop("ratio_error"))
            apart = max(apart, float((logp_T.detach() - part_tokens.behaviour_logp).abs().max()))
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
            "logp_difference/max": apart,
            "surprise": total["nats"] / count,
            "rows": float(len(rows)),
            "rows/zero_advantage": 1.0 - sum(row.is_informative for row in rows) / len(rows),
            "rows/informative": float(sum(row.is_informative for row in rows)),
            "rows/run": float(len(sequences)),
            "tokens/trained": float(sum(len(action) for _, action in sequences)),
            **valued,
            **({} if self.critic is None else self.critic.loss.figures(rows)),
        }

    def _value_loss(
        self,
        states: Sequence[Tensor],
        rows: Sequence[Row],
        visits: Sequence[tuple[int, int]],
        valued: Counter[str],
    ) -> Tensor | float:
        """What a shared critic adds to the loss of a part: visits are (state, row) by index."""
        if self.critic is None:
            return 0.0
        total = sum(self.critic.loss.states(row) for row in rows)
        said = torch.cat([self.critic.valued(states[j]) for j, _ in visits])
        value, seen = self.critic.loss(said, [rows[i] for _, i in visits], total)
        valued.update(seen)
        return self.critic.loss.coefficient * value

    def score(self, rows: Sequence[Row]) -> list[list[float]]:
        """log pi of each row's action under the weights of now, at the sampling temperature."""
        return [row.tolist() for row in self._score(rows, self.route)]

    def recomputed(self, rows: Sequence[Row]) -> list[Row]:
        """Rows whose recorded log-probabilities are replaced by those of now, on their context."""
        scores = self.score(rows)
        return [
            replace(row, behaviour_logp=tuple(logp)) for row, logp in zip(rows, scores, strict=True)
        ]

    @torch.inference_mode()
    def _score(self, rows: Sequence[Row], route: Route) -> list[Tensor]:
        distinct = {
            key: i for i, key in enumerate(dict.fromkeys((r.context, r.action) for r in rows))
        }
        contexts = [context for context, _ in distinct]
        actions = [action for _, action in distinct]
        scores = scored(route, contexts, actions, self.temperature, self.max_tokens, cut=self.cut)
        return [scores[distinct[row.context, row.action]] for row in rows]

    def _to_reference(self) -> Route:
        if self.reference_route is None:
            raise ValueError("kl is above 0, which needs the initial weights: keep_reference=True")
        return self.reference_route

    def weights(self) -> Mapping[str, Tensor]:
        """The trained weights of now, by name; to be copied before the next step."""
        return {name: tensor.detach() for name, tensor in self.trained.items()}

    def state(self) -> dict[str, Tensor]:
        """What a resumed run needs besides the weights, as named tensors."""
        tensors = self.optimizer.state()
        for name, tensor in self._reference_weights().items():
            tensors[f"reference/{name}"] = tensor.clone()
        return tensors

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.optimizer.load_state(tensors)
        for name, held in self._reference_weights().items():
            held.data.copy_(tensors[f"reference/{name}"])

    def _reference_weights(self) -> dict[str, nn.Parameter]:
        """What the reference does not share with the model."""
        if self.reference is None:
            return {}
        return {n: w for n, w in self.reference.named_parameters() if n in self.trained}
