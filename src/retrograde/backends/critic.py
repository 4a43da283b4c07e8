"""Critics: a scalar head on a transformer, its own or the policy's.

The value of a state is read where the model predicts what is done in it: before an action's
first token that is the last token of the context, before its t-th the token before that.

Shapes: S states of a row: one for each action token, or one for the turn; H hidden.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from retrograde.backends.optimizer import Optimizer
from retrograde.backends.padding import microbatches, padded
from retrograde.backends.weights import copied, ready_to_learn
from retrograde.data.rows import Row
from retrograde.losses.policy import Level
from retrograde.losses.value import ValueLoss
from retrograde.policies.protocol import Ids
from retrograde.schedules.update import Update


class SharedCritic:
    """A head on the policy's own transformer; the learner trains both in the same steps."""

    def __init__(
        self, model: PreTrainedModel, loss: ValueLoss, *, pad: int, max_tokens_per_microbatch: int
    ) -> None:
        """Bind the policy's model; values are 0 before the first step."""
        self.model = model
        self.loss = loss
        self.head = new_head(model)
        self.pad = pad
        self.max_tokens = max_tokens_per_microbatch

    def named_parameters(self) -> Iterable[tuple[str, nn.Parameter]]:
        """The head's, for the learner's optimizer."""
        return self.head.named_parameters("value_head")

    def valued(self, state_SH: Tensor) -> Tensor:
        """Values of one row's states, with gradient, from the states before its tokens."""
        kept_SH = state_SH if self.loss.level is Level.TOKEN else state_SH[:1]
        return self.head(kept_SH.to(self.head.weight.dtype)).squeeze(-1)

    def values(self, rows: Sequence[Row], loss: ValueLoss) -> list[tuple[float, ...]]:
        """Of each row's states, under the weights of now."""
        transformer = self.model.base_model
        return said(_reader(transformer, self.head, self.pad), rows, loss, self.max_tokens)

    def step(self, rows: Sequence[Row], loss: ValueLoss) -> dict[str, float]:
        """Nothing: it was learned in the policy's step."""
        del rows, loss
        return {}

    def state(self) -> dict[str, Tensor]:
        """The head's weights; its moments are with the learner's."""
        return {f"head/{name}": tensor.clone() for name, tensor in self.head.state_dict().items()}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.head.load_state_dict(_part(tensors, "head/"))


class TransformersCritic:
    """A copy of a transformer with a head, trained on its own."""

    def __init__(
        self,
        model: PreTrainedModel,
        update: Update,
        *,
        pad: int,
        speed: float = 1.0,
        weight_decay: float = 0.0,
        max_tokens_per_microbatch: int = 32768,
    ) -> None:
        """Copy a policy's model as it is now; values are 0 before the first step.

        Args:
            model: any decoder-only model of transformers; it is left alone.
            update: learning rate, warm-up and gradient clipping are taken from it.
            pad: any valid token id.
            speed: factor of the learning rate.
            weight_decay: AdamW's.
            max_tokens_per_microbatch: padded tokens in one forward and backward pass.
        """
        self.transformer: nn.Module = ready_to_learn(copied(model.base_model))
        self.head = new_head(model)
        self.pad = pad
        self.max_tokens = max_tokens_per_microbatch
        self.optimizer = Optimizer(
            [
                *self.transformer.named_parameters("transformer"),
                *self.head.named_parameters("head"),
            ],
            update,
            weight_decay=weight_decay,
            speed=speed,
        )

    def values(self, rows: Sequence[Row], loss: ValueLoss) -> list[tuple[float, ...]]:
        """Of each row's states, under the weights of now."""
        return said(self._read(), rows, loss, self.max_tokens)

    def step(self, rows: Sequence[Row], loss: ValueLoss) -> dict[str, float]:
        """One optimizer step; splitting it into microbatches changes neither loss nor gradient.

        Raises:
            FloatingPointError: the gradient is not finite; the weights are left as they were.
        """
        self.optimizer.zero_grad()
        total = sum(loss.states(row) for row in rows)
        read, seen = self._read(), Counter[str]()
        for part in microbatches(_lengths(rows), self.max_tokens):
            chosen = [rows[i] for i in part]
            value, figures = loss(torch.cat(read(chosen, loss)), chosen, total)
            value.backward()
            seen.update(figures)
        moved = self.optimizer.step()
        return {**seen, **loss.figures(rows), **{f"value/{name}": moved[name] for name in moved}}

    def _read(self) -> "Reader":
        return _reader(self.transformer, self.head, self.pad)

    def state(self) -> dict[str, Tensor]:
        """Weights, moments and the number of steps, as named tensors."""
        weights = {f"weights/{n}": p.detach().clone() for n, p in self.optimizer.parameters.items()}
        return weights | self.optimizer.state()

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        for name, held in self.optimizer.parameters.items():
            held.data.copy_(tensors[f"weights/{name}"])
        self.optimizer.load_state(tensors)


Reader = Callable[[Sequence[Row], ValueLoss], list[Tensor]]
"""Reads the values of each row's states in one forward pass."""


def critic_of(
    loss: ValueLoss | None,
    model: PreTrainedModel,
    update: Update,
    *,
    pad: int,
    weight_decay: float = 0.0,
    max_tokens_per_microbatch: int = 32768,
) -> SharedCritic | TransformersCritic | None:
    """The critic that a loss asks for, if it asks for one."""
    if loss is None:
        return None
    if loss.shared:
        return SharedCritic(
            model, loss, pad=pad, max_tokens_per_microbatch=max_tokens_per_microbatch
        )
    return TransformersCritic(
        model,
        update,
        pad=pad,
        speed=loss.speed,
        weight_decay=weight_decay,
        max_tokens_per_microbatch=max_tokens_per_microbatch,
    )


def new_head(model: PreTrainedModel) -> nn.Linear:
    """A head that says 0 of every state, at least as precise as single."""
    size = model.config.get_text_config().hidden_size
    dtype = torch.promote_types(model.dtype, torch.float32)
    head = nn.Linear(size, 1, device=model.device, dtype=dtype)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    return head


@torch.inference_mode()
def said(
    read: Reader, rows: Sequence[Row], loss: ValueLoss, max_tokens: int
) -> list[tuple[float, ...]]:
    """Values of every row's states, in parts that fit."""
    found: list[tuple[float, ...]] = [()] * len(rows)
    for part in microbatches(_lengths(rows), max_tokens):
        values = read([rows[i] for i in part], loss)
        for i, value_S in zip(part, values, strict=True):
            found[i] = tuple(value_S.tolist())
    return found


def _reader(transformer: nn.Module, head: nn.Linear, pad: int) -> Reader:
    def read(rows: Sequence[Row], loss: ValueLoss) -> list[Tensor]:
        # Before the first token of a turn nothing of its action is known.
        turns = loss.level is Level.TURN
        actions: list[Ids] = [row.action[:1] if turns else row.action for row in rows]
        batch = padded([row.context for row in rows], actions, pad, head.weight.device)
        state_BNH = transformer(
            input_ids=batch.ids_BN,
            attention_mask=batch.mask_BN,
            position_ids=batch.positions_BN,
            use_cache=False,
        ).last_hidden_state[:, -max(map(len, actions)) :]
        value_BA = head(state_BNH.to(head.weight.dtype)).squeeze(-1)
        return [value_A[: len(action)] for value_A, action in zip(value_BA, actions, strict=True)]

    return read


def _lengths(rows: Sequence[Row]) -> list[int]:
    return [len(row.context) + len(row.action) for row in rows]


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
