"""What a shopper is asked to buy, and how well what was bought fits.

Source: WebShop (Yao et al., 2022), section 3.2 and `web_agent_site/engine/goal.py`:
reward = r_type * (attributes hit + options hit + price fits) / (attributes + options + 1), where
r_type is 1, 0.5, 0.1 or 0 by how alike the two titles, queries and categories are.

Differs from the source: nouns of a title are those of the catalogue's own word list, not what
spaCy tags; texts are compared by difflib's ratio, not thefuzz's; colours are plain words, so none
is normalised; and no more options are counted as hit than are asked for, so that no reward is
above 1.
"""

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Self

from retrograde.environments.shop.catalogue import NOUNS, Product

EXACT = frozenset({"size"})
"""Options that are compared letter by letter."""
ALIKE = 85
"""Texts that are more alike than this, of 100, count as the same."""
PRICE_STEP, PRICE_STEPS = 10, 4
"""Limits are multiples of so many dollars; one of so many above the price."""
LOW, SOME = 0.1, 0.2
"""Shares of a title's nouns."""


@dataclass(frozen=True)
class Goal:
    """What to buy."""

    product: Product
    """One that fits; others may."""
    attributes: tuple[str, ...]
    options: Mapping[str, str]
    price_upper: float
    """In dollars."""

    @classmethod
    def drawn(cls, product: Product, chance: random.Random) -> Self:
        """Ask for a product: some of its attributes, all of its options, a price that it keeps."""
        count = min(len(product.attributes), chance.randint(1, 2))
        first = int(product.price // PRICE_STEP) + 1
        limits = [PRICE_STEP * n for n in range(first, first + PRICE_STEPS)]
        return cls(
            product,
            tuple(chance.sample(product.attributes, count)),
            {name: chance.choice(values) for name, values in product.options.items()},
            float(max(chance.sample(limits, 2))),
        )

    @property
    def instruction(self) -> str:
        """The goal in words."""
        wanted = f"i am looking for {', '.join(self.attributes)} {self.product.query}"
        options = ", and ".join(f"{name}: {value}" for name, value in self.options.items())
        chosen = f" with {options}" if options else ""
        return f"{wanted}{chosen}, and price lower than {self.price_upper:.2f} dollars"


@dataclass(frozen=True, slots=True)
class Fit:
    """How well something that was bought fits a goal."""

    kind: float
    """1, 0.5, 0.1 or 0."""
    attributes: int
    """How many of those asked for it has."""
    options: int
    """How many of those asked for were chosen."""
    price: bool
    asked: int
    """Attributes and options that were asked for, and one for the price."""

    @classmethod
    def of(cls, goal: Goal, bought: Product, chosen: Mapping[str, str]) -> Self:
        """Compare.

        Args:
            goal: what was asked for.
            bought: what was bought.
            chosen: options that were chosen on its page.
        """
        return cls(
            kind_fit(goal.product, bought),
            sum(_has_attribute(bought, attribute) for attribute in goal.attributes),
            min(
                sum(_fits_option(goal, bought, *option) for option in chosen.items()),
                len(goal.options),
            ),
            bought.price <= goal.price_upper,
            len(goal.attributes) + len(goal.options) + 1,
        )

    @property
    def reward(self) -> float:
        """In [0, 1]; 1 exactly if everything fits."""
        return self.kind * (self.attributes + self.options + self.price) / self.asked


def kind_fit(wanted: Product, bought: Product) -> float:
    """Whether it is the same kind of thing."""
    nouns = _nouns(wanted.title)
    share = len(set(nouns) & set(_nouns(bought.title))) / len(nouns) if nouns else SOME
    if share == 0:
        return 0.0
    if share < LOW:
        return 0.1
    common = set(_levels(wanted)) & set(_levels(bought))
    alike = wanted.query == bought.query or len(common) > 1 or share > SOME
    return 1.0 if alike else 0.5


def _nouns(title: str) -> list[str]:
    return [word for word in re.findall(r"\w+", title.lower()) if word in NOUNS]


def _levels(product: Product) -> list[str]:
    return [level.strip() for level in product.category.split("\u203a")]


def _said_by(product: Product, text: str) -> bool:
    parts = (product.title, " ".join(product.bullets), product.description)
    return any(text in part.lower() for part in parts)


def _has_attribute(product: Product, attribute: str) -> bool:
    alike = any(token_set_ratio(own, attribute) > ALIKE for own in product.attributes)
    return alike or _said_by(product, attribute)


def _fits_option(goal: Goal, bought: Product, name: str, value: str) -> bool:
    wanted = goal.options.values()
    if name.lower() in EXACT:
        fits = value in wanted
    else:
        fits = any(token_set_ratio(one, value) > ALIKE for one in wanted)
    return fits or _said_by(bought, value)


def token_set_ratio(one: str, other: str) -> float:
    """How alike two texts are as sets of words, from 0 to 100; 100 if one holds the other."""
    first, second = (set(re.findall(r"\w+", text.lower())) for text in (one, other))
    if not first or not second:
        return 0.0
    common = " ".join(sorted(first & second))
    left, right = (
        f"{common} {' '.join(sorted(rest))}".strip() for rest in (first - second, second - first)
    )
    pairs = ((common, left), (common, right), (left, right))
    return max(100 * SequenceMatcher(None, *pair).ratio() for pair in pairs if all(pair))
