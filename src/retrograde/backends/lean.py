"""A small transformer's forward pass with few operations.

For weights so light that calling an operation takes longer than what it computes.

Queries, keys and values come out of one product, gate and up of another, norms are one operation
each. It is used to sample, from models of the Llama family (Llama, Qwen2, Qwen3) with up to
`LIGHT` weights, and only where its scores were seen to equal the model's own.

Shapes: B rows, N tokens of each, E width, H query heads, K key heads, D of a head, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

LIGHT = 1 << 22
"""Weights up to which it is worth its second copy of them."""
TOLERANCE = 1e-3
"""Nats by which its scores may differ from the model's."""
FAMILY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""From a layer's number and its queries (B, H, N, D), keys and values (B, K, N, D) to what is
read (B, N, H, D). Scores are taken as they come: queries are scaled already. Dimensions of queries
and keys come in another order than the model's, the same for both."""


@dataclass(frozen=True)
class Layer:
    """The weights of one layer, put together; norms are part of the product that follows them."""

    in_weight: Tensor
    in_bias: Tensor | None
    heads: Tensor | None
    """Of the norms of query and key heads, H + K by D; None if there are none."""
    out_weight: Tensor
    gate_up: Tensor
    down: Tensor


class Lean:
    """A model's weights of now."""

    def __init__(self, model: PreTrainedModel, like: "Lean | None" = None) -> None:
        """Copy the weights of a model that `is_lean` said yes to.

        Args:
            model: whose weights.
            like: of the same model, with other weights; what does not depend on them is taken over.
        """
        decoder: Any = model.get_decoder()
        attention = decoder.layers[0].self_attn
        self.width = attention.head_dim
        self.queries = attention.q_proj.out_features // self.width
        self.keys = attention.k_proj.out_features // self.width
        self.eps = decoder.norm.weight.new_tensor(decoder.norm.variance_epsilon)
        self.embedding = decoder.embed_tokens.weight
        self.padding = decoder.embed_tokens.padding_idx  # has no gradient where it is read
        self.norm = decoder.norm.weight
        head: Any = model.get_output_embeddings()
        self.head = head.weight
        # What is turned together lies side by side: such a pair is one complex number.
        self.paired = torch.arange(self.width).view(2, -1).T.flatten().to(self.embedding.device)
        self.layers = [self._layer(layer) for layer in decoder.layers]
        self.rotary = decoder.rotary_emb
        self.turns = torch.empty(0) if like is None else like.turns
        """By position, complex: what each pair is multiplied by, and so turned."""

    def _layer(self, layer: Any) -> Layer:
        attention, feed = layer.self_attn, layer.mlp
        parts = (attention.q_proj, attention.k_proj, attention.v_proj)
        scale, heads, bias = attention.scaling, None, None
        if hasattr(attention, "q_norm"):
            norms = ((scale, attention.q_norm, self.queries), (1.0, attention.k_norm, self.keys))
            heads = torch.cat([(by * norm.weight).expand(n, -1) for by, norm, n in norms])
            heads, scale = heads[:, self.paired], 1.0
        if attention.q_proj.bias is not None:
            bias = self._mixed([part.bias for part in parts], scale)
        return Layer(
            self._mixed([part.weight for part in parts], scale) * layer.input_layernorm.weight,
            bias,
            heads,
            attention.o_proj.weight.T,
            torch.cat([feed.gate_proj.weight, feed.up_proj.weight])
            * layer.post_attention_layernorm.weight,
            feed.down_proj.weight.T,
        )

    def _mixed(self, parts: Sequence[Tensor], scale: float) -> Tensor:
        """What queries, keys and values come out of, in one."""
        query, key = (
            part.unflatten(0, (-1, self.width))[:, self.paired].flatten(0, 1) for part in parts[:2]
        )
        return torch.cat([query * scale, key, parts[2]])

    @property
    def token_bytes(self) -> int:
        """Of one token's keys and values, in all layers."""
        return 2 * len(self.layers) * self.keys * self.width * self.embedding.element_size()

    def __call__(self, ids_BN: Tensor, position_BN: Tensor, attend: Attend) -> Tensor:
        """The last hidden states, B x N x E, normed."""
        turn = self.turns[position_BN][:, :, None]
        rows, long = ids_BN.shape
        mixed = self.queries + self.keys
        x = functional.embedding(ids_BN, self.embedding, self.padding).flatten(0, 1)
        for number, layer in enumerate(self.layers):
            seen = functional.linear(self._normed(x), layer.in_weight, layer.in_bias)
            seen = seen.view(rows, long, -1, self.width)
            facing = seen[:, :, :mixed]
            if layer.heads is not None:
                facing = self._normed(facing) * layer.heads
            pairs = torch.view_as_complex(facing.unflatten(-1, (-1, 2)))
            facing = torch.view_as_real(pairs * turn).flatten(-2)
            read = attend(
                number,
                facing[:, :, : self.queries].transpose(1, 2),
                facing[:, :, self.queries :].transpose(1, 2),
                seen[:, :, mixed:].transpose(1, 2),
            )
            x = torch.addmm(x, read.reshape(rows * long, -1), layer.out_weight)
            gate, up = functional.linear(self._normed(x), layer.gate_up).chunk(2, -1)
            x = torch.addmm(x, functional.silu(gate) * up, layer.down)
        return (self._normed(x) * self.norm).view(rows, long, -1)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores of the vocabulary."""
        return functional.linear(hidden, self.head)

    def _normed(self, x: Tensor) -> Tensor:
        """Divided by the root of its mean square; four operations, `rms_norm` takes ten."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        square = torch.addcmul(self.eps, length, length, value=1 / x.shape[-1])
        return x * square.rsqrt()

    def reach(self, positions: int) -> None:
        """Get ready for so many positions."""
        if positions > len(self.turns):
            all_N = torch.arange(2 * positions, device=self.embedding.device)
            cos, sin = self.rotary(self.embedding, all_N[None])
            half = self.width // 2
            self.turns = torch.complex(cos[0, :, :half], sin[0, :, :half])


@torch.inference_mode()
def lean_of(model: PreTrainedModel) -> Lean | None:
    """Few operations, if the model is light and of the family, and they come to the same."""
    if type(model).__name__ not in FAMILY or model.dtype is torch.bfloat16:
        return None
    if sum(weight.numel() for weight in model.parameters()) > LIGHT or not _is_plain(model):
        return None
    lean = Lean(model)
    lean.reach(8)
    most = lean.embedding.shape[0] - 1
    ids = torch.tensor([[min(i, most) for i in (1, 2, 3, 4, 2, 1)]], device=model.device)
    position = torch.arange(ids.shape[1], device=model.device)[None]
    ours = lean.logits(lean(ids, position, _causal)).log_softmax(-1)
    theirs = model(input_ids=ids, use_cache=False).logits.log_softmax(-1)
    return lean if float((ours - theirs).abs().max()) <= TOLERANCE else None


def _is_plain(model: PreTrainedModel) -> bool:
    """Whether there is no adapter, no hook, and no layer that is to be computed again."""
    for module in model.modules():
        is_hooked = module._forward_hooks or module._forward_pre_hooks  # noqa: SLF001 - nameless
        if is_hooked or getattr(module, "gradient_checkpointing", False):
            return False
    layers: Any = model.get_decoder().layers
    linear = (
        getattr(part, name)
        for layer in layers
        for part in (layer.self_attn, layer.mlp)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
        if hasattr(part, name)
    )
    return all(type(each) is nn.Linear for each in linear)


def _causal(number: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    del number
    read = functional.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True, scale=1.0
    )
    return read.transpose(1, 2)
