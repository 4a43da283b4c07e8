"""An answer under way."""

from dataclasses import dataclass, field

from retrograde.policies.protocol import Ids


@dataclass
class Draft:
    """What is written so far, and for whom."""

    owner: int
    """Which context of the call it answers."""
    context: Ids
    ids: list[int] = field(default_factory=list[int])
    logps: list[float] = field(default_factory=list[float])
    entropies: list[float] = field(default_factory=list[float])
    is_over: bool = False

    @property
    def written(self) -> int:
        """Tokens of it, the context's last counted, whose keys and values are there."""
        return len(self.ids)

    @property
    def known(self) -> Ids:
        """All tokens but the last, which is still to be run."""
        return self.context[:-1] if not self.ids else (*self.context, *self.ids[:-1])

    @property
    def last(self) -> int:
        """The token that is still to be run."""
        return self.ids[-1] if self.ids else self.context[-1]

    def say(self, token: int, logp: float, entropy: float) -> None:
        """One more token."""
        self.ids.append(token)
        self.logps.append(logp)
        self.entropies.append(entropy)
