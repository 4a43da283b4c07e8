"""A world whose best policy is known, with a language of its own."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from retrograde.backends.chat import TransformersChat
from retrograde.data.message import Message
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.environments.protocol import Forking, Observation

CUES = (("red", "blue"), ("sun", "moon"))
"""What may be shown at each turn."""
BEST = {"red": "left", "blue": "right", "sun": "up", "moon": "down"}
"""What to say to it."""
TURNS = len(CUES)
SPECIAL = ("<pad>", "<unk>", "<user>", "<assistant>", "<end>")
TEMPLATE = (
    "{% for m in messages %}{{ '<' + m['role'] + '>' + m['content'] + '<end>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


@lru_cache(maxsize=1)
def chat() -> TransformersChat:
    words = (*SPECIAL, *BEST, *BEST.values())
    built = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    built.pre_tokenizer = pre_tokenizers.Whitespace()
    built.add_special_tokens([AddedToken(token, normalized=False) for token in SPECIAL])
    return TransformersChat(
        PreTrainedTokenizerFast(
            tokenizer_object=built, eos_token="<end>", unk_token="<unk>", chat_template=TEMPLATE
        )
    )


def fresh_model(seed: int) -> Qwen3ForCausalLM:
    """Random weights that know nothing of the world."""
    config = Qwen3Config(
        vocab_size=len(chat().tokenizer), hidden_size=32, intermediate_size=64,
        num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, head_dim=8,
        max_position_embeddings=64, tie_word_embeddings=False,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config).eval()
        # The usual 0.02 makes all words look alike, and telling cues apart would be the lesson.
        torch.nn.init.normal_(model.model.embed_tokens.weight)
    return model


@dataclass
class SignalsEpisode:
    """Two cues, one after the other; each wants its own word, alone."""

    cues: tuple[str, ...]
    said: tuple[str, ...] = ()

    @property
    def right(self) -> int:
        """How many words were the right ones so far."""
        return sum(BEST[cue] == said for cue, said in zip(self.cues, self.said, strict=False))

    def opening(self) -> tuple[Message, ...]:
        return (Message("user", self.cues[0]),)

    async def act(self, text: str) -> Observation:
        self.said = (*self.said, text)
        if len(self.said) < TURNS:
            return Observation((Message("user", self.cues[len(self.said)]),))
        return Observation((), reward=self.right / TURNS, end=End.FINISHED)

    def fork(self, seed: int) -> "SignalsEpisode":
        return SignalsEpisode(self.cues, self.said)

    def state_key(self) -> Hashable:
        return self.cues, len(self.said), self.right

    def demonstrate(self, seed: int) -> str:
        raise LookupError("nobody teaches this")

    async def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True)
class Signals:
    """Reward comes at the end, and only for both words together is it 1."""

    name = "signals"
    forking = Forking.FORK
    turn_limit = TURNS
    success_return = 1.0
    max_new_tokens = 1
    context = "markov"
    offers = frozenset()

    def task(self, split: str, index: int) -> str:
        return f"{split}-{index}"

    def gold(self, task: str) -> str:
        raise LookupError("no one word ends it rightly")

    async def open(self, task: str, seed: int) -> SignalsEpisode:
        return SignalsEpisode(tuple(cues[derived(task, i) % 2] for i, cues in enumerate(CUES)))
