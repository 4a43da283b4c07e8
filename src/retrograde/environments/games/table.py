"""A table for two at limit hold'em: rlcard deals and judges, this says who sees what."""

import copy
import random
from dataclasses import dataclass
from typing import Any, Self

from retrograde.environments.extras import extra

BIG_BLIND = 2
"""In chips; the small blind is 1, bets are 2 before the turn card and 4 from it on."""
STREETS = ("preflop", "flop", "turn", "river")
MOST_DECISIONS = 12
"""Of one player in a hand: three in each street, since it takes at most four raises."""


@dataclass(frozen=True, slots=True)
class View:
    """What one player sees when it is its turn. Cards are as in `As`, the ace of spades."""

    cards: tuple[str, ...]
    board: tuple[str, ...]
    legal: tuple[str, ...]
    """Of call, raise, fold and check."""
    chips: tuple[int, int]
    """That this player and the other have put in."""
    street: str


class Table:
    """One hand. A player is 0 or 1."""

    def __init__(self, game: Any) -> None:
        """Sit down to a game that has been dealt."""
        self.game = game
        self.said: tuple[tuple[str, int, str], ...] = ()
        """Street, player and action, in order."""

    @classmethod
    def dealt(cls, seed: int) -> Self:
        """Deal a hand: the cards of both, who has the small blind, and the cards to come."""
        import numpy as np

        game = extra("rlcard.games.limitholdem", "games").Game()
        game.np_random = np.random.RandomState(seed % 2**32)
        game.init_game()
        return cls(game)

    def copy(self) -> Self:
        """An independent copy with the same cards to come.

        Cards are shared, as nobody writes on them, and so is the generator that dealt them, as
        nothing more is drawn from it.
        """
        game = self.game
        dealt = (card for player in game.players for card in player.hand)
        kept = [*game.dealer.deck, *game.public_cards, *dealt, game.np_random]
        twin = type(self)(copy.deepcopy(game, {id(each): each for each in kept}))
        twin.said = self.said
        return twin

    def shuffled(self, seed: int) -> Self:
        """A copy in which the cards to come are shuffled; those that were dealt stay."""
        twin = self.copy()
        random.Random(seed).shuffle(twin.game.dealer.deck)
        return twin

    @property
    def over(self) -> bool:
        """Whether the hand is over."""
        return bool(self.game.is_over())

    @property
    def turn(self) -> int:
        """Whose turn it is."""
        return int(self.game.game_pointer)

    @property
    def street(self) -> str:
        """Which round of betting it is."""
        return STREETS[min(int(self.game.round_counter), len(STREETS) - 1)]

    @property
    def folded(self) -> bool:
        """Whether someone gave up."""
        return bool(self.said) and self.said[-1][2] == "fold"

    @property
    def legal(self) -> tuple[str, ...]:
        """What may be done now."""
        return tuple(self.game.get_legal_actions())

    @property
    def board(self) -> tuple[str, ...]:
        """The cards that both see."""
        return tuple(map(str, map(_named, self.game.public_cards)))

    def cards(self, player: int) -> tuple[str, ...]:
        """A player's own cards."""
        return tuple(_named(card) for card in self.game.players[player].hand)

    def chips(self, player: int) -> int:
        """What a player has put in."""
        return int(self.game.players[player].in_chips)

    def view(self, player: int) -> View:
        """What a player sees."""
        chips = self.chips(player), self.chips(1 - player)
        return View(self.cards(player), self.board, self.legal, chips, self.street)

    def act(self, action: str) -> None:
        """Whose turn it is does this; it has to be legal."""
        self.said = (*self.said, (self.street, self.turn, action))
        self.game.step(action)

    def payoff(self, player: int) -> float:
        """What a player has won when the hand is over, in big blinds."""
        return float(self.game.get_payoffs()[player])


def _named(card: Any) -> str:
    return f"{card.rank}{card.suit.lower()}"
