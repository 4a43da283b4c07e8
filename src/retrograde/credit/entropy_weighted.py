"""Advantages weighted by the entropy of the distribution each token was drawn from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from retrograde.credit.standing import all_equal
from retrograde.data.rows import Row


@dataclass(frozen=True, slots=True)
class EntropyWeighted:
    """A (1 + weight z) for each token, z its entropy standardised over the tokens of the update.

    Where a token has far less entropy than most, the factor turns negative, as in the source.

    Source:
        AEPO, arXiv:2510.14545, entropy-aware advantage estimation.
    Differs from the source:
        Entropy is the sampler's, not that of the weights of now, and z is taken over the update,
        not over each microbatch, so splitting an update changes nothing.
    """

    weight: float = 0.2

    def __call__(self, rows: Sequence[Row]) -> list[Row]:
        """The rows, in order, with an advantage for each token.

        Raises:
            ValueError: the policy that acted told no entropies.
        """
        silent = sum(not row.entropies for row in rows)
        if silent:
            raise ValueError(
                f"advantages weighted by entropy need a policy that tells entropies: "
                f"{silent} of {len(rows)} rows have none"
            )
        each = [entropy for row in rows for entropy in row.entropies]
        if len(each) < 2 or all_equal(each):  # noqa: PLR2004
            return list(rows)
        level, spread = fmean(each), stdev(each)
        return [
            replace(
                row,
                advantage=tuple(
                    advantage * (1 + self.weight * (entropy - level) / spread)
                    for advantage, entropy in zip(row.advantages, row.entropies, strict=True)
                ),
            )
            for row in rows
        ]
