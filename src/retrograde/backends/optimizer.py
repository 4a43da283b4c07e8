"""AdamW over named parameters: warm-up, bounded gradients, a state of named tensors.

A step of 1e-6 is lost on a bfloat16 number of 0.1, whose next one is 5e-4 away. So parameters of
half precision are stepped as float32 copies, their gradients added up in float32 too, and each
step rounds the copies into the parameters.
"""

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn

from retrograde.schedules.update import Update


class Optimizer:
    """Takes the steps of one model."""

    def __init__(
        self,
        parameters: Iterable[tuple[str, nn.Parameter]],
        update: Update,
        *,
        weight_decay: float = 0.0,
        speed: float = 1.0,
    ) -> None:
        """Bind parameters.

        Args:
            parameters: what is trained, by name; those that require no gradient are left out.
            update: learning rate, warm-up and gradient clipping are taken from it.
            weight_decay: AdamW's.
            speed: factor of the learning rate.

        Raises:
            ValueError: the learning rate is still open.
        """
        if update.learning_rate is None:
            raise ValueError("learning_rate is None: take the model's recommendation first")
        self.parameters = {name: p for name, p in parameters if p.requires_grad}
        self._exact = {name: _exact(parameter) for name, parameter in self.parameters.items()}
        self.update = update
        self.peak = update.learning_rate * speed
        self.steps = 0
        self._adam = torch.optim.AdamW(
            self._exact.values(),
            lr=self.peak,
            betas=(0.9, 0.99),
            weight_decay=weight_decay,
            fused=True,  # one pass over the weights, where a dozen took four times as long
        )

    def zero_grad(self) -> None:
        """Forget the last gradient."""
        self._adam.zero_grad(set_to_none=True)

    def check(self, loss: float) -> None:
        """Refuse a loss whose gradient must not be followed.

        Raises:
            FloatingPointError: it is not finite.
        """
        if not math.isfinite(loss):
            raise FloatingPointError(f"the loss of optimizer step {self.steps} is {loss}")

    def step(self) -> dict[str, float]:
        """One step along the gradient; none where it is exactly 0, and `grad_norm` says so.

        Raises:
            FloatingPointError: the gradient is not finite; the weights are left as they were.
        """
        norm = nn.utils.clip_grad_norm_(self._exact.values(), self.update.max_grad_norm)
        if not math.isfinite(norm):
            raise FloatingPointError(
                f"the gradient of optimizer step {self.steps} is not finite (norm {norm}); "
                f"lower the learning rate or look at the rewards"
            )
        if norm == 0:  # rows that cancel each other say nothing, and momentum is not asked
            return {"grad_norm": 0.0, "learning_rate": 0.0}
        rate = self._learning_rate()
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        for parameter, exact in self._rounded().values():
            parameter.data.copy_(exact)
        self.steps += 1
        return {"grad_norm": float(norm), "learning_rate": rate}

    def _learning_rate(self) -> float:
        if not self.update.warmup_steps:
            return self.peak
        return self.peak * min(1.0, (self.steps + 1) / self.update.warmup_steps)

    def state(self) -> dict[str, Tensor]:
        """Moments, the number of steps, and the float32 copies of what is half precision."""
        names = list(self.parameters)
        tensors = {"steps": torch.tensor(self.steps)}
        for index, entry in self._adam.state_dict()["state"].items():
            for key, tensor in entry.items():
                tensors[f"{key}/{names[index]}"] = tensor.clone()
        for name, (_, exact) in self._rounded().items():
            tensors[f"exact/{name}"] = exact.detach().clone()
        return tensors

    def _rounded(self) -> dict[str, tuple[nn.Parameter, nn.Parameter]]:
        """Parameters of half precision, each with its copy."""
        both = {name: (p, self._exact[name]) for name, p in self.parameters.items()}
        return {name: (p, exact) for name, (p, exact) in both.items() if p is not exact}

    def load_state(self, tensors: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave."""
        self.steps = int(tensors["steps"])
        for name, (_, exact) in self._rounded().items():
            exact.data.copy_(tensors[f"exact/{name}"])
        whole = self._adam.state_dict()
        state: dict[int, dict[str, Tensor]] = {}
        for index, name in enumerate(self.parameters):
            entry = {
                key: tensors[f"{key}/{name}"]
                for key in ("step", "exp_avg", "exp_avg_sq")
                if f"{key}/{name}" in tensors
            }
            if entry:
                state[index] = entry
        self._adam.load_state_dict({"state": state, "param_groups": whole["param_groups"]})


def _exact(parameter: nn.Parameter) -> nn.Parameter:
    """The parameter itself, or a float32 copy that gathers its gradients."""
    if parameter.dtype.itemsize >= torch.float32.itemsize:
        return parameter
    exact = nn.Parameter(parameter.detach().float())

    def gather(rounded: Tensor) -> None:
        if rounded.grad is not None:
            gradient, rounded.grad = rounded.grad.float(), None
            exact.grad = gradient if exact.grad is None else exact.grad + gradient

    parameter.register_post_accumulate_grad_hook(gather)
    return exact
