"""A web shop: search, look at products, choose options, buy what was asked for."""

import copy
import random
import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, Self, cast

from retrograde.data.message import ContextPolicy, Message, spoken
from retrograde.data.offer import Offer
from retrograde.data.seeds import derived
from retrograde.data.tree import End
from retrograde.data.vocabulary import Vocabulary
from retrograde.environments.plain import PlainEpisode, PlainTasks
from retrograde.environments.protocol import Episode, Forking, Observation, Split
from retrograde.environments.shop.catalogue import FEWEST, MOST, Catalogue, Product, catalogue_of
from retrograde.environments.shop.goal import Fit, Goal
from retrograde.environments.shop.pages import BACK, BUY, NEXT, START, Place
from retrograde.environments.tasks import parts_of_task

FEWEST_TURNS, MOST_TURNS = 4, 50
CARELESS = 0.15
"""How often the teacher clicks anything."""

RULES = (
    "You shop in a web shop. Buy what the instruction asks for, with the right options, within "
    "the price. Each turn, say exactly one line: search[keywords] where there is a search bar, or "
    "click[something] that is in brackets on the page. click[Buy Now] ends it."
)
MALFORMED = "Not understood. Say search[keywords] or click[something]."
NO_SEARCH_BAR = "There is no search bar on this page; click[Back to Search] leads to it."
NO_BUTTON = "There is nothing of that name to click on this page."
INSTRUCTION, CAN_SAY = "Instruction:", "You can say:"
PHRASES = (RULES, MALFORMED, NO_SEARCH_BAR, NO_BUTTON, START, INSTRUCTION, CAN_SAY)

_ACTION_LINE = re.compile(r"\W*(search|click)\s*\[(.+)\]\W*", re.IGNORECASE)


class Action(NamedTuple):
    """What the policy wants to do."""

    verb: str
    """search or click."""
    words: str


def action_in(text: str) -> Action | None:
    """The first line outside thought that is an action."""
    lines = (_ACTION_LINE.fullmatch(line) for line in spoken(text).splitlines())
    first = next((line for line in lines if line), None)
    return Action(first[1].lower(), first[2].strip()) if first else None


def told_at(place: Place, catalogue: Catalogue, *, admissible: bool) -> str:
    """A page, and what can be said on it."""
    page = place.text(catalogue)
    if not admissible:
        return page
    labels = [f"click[{button}]" for button, _ in place.buttons(catalogue)]
    search = ["search[keywords]"] if place.page == "search" else []
    return f"{page}\n{CAN_SAY} {', '.join((*search, *labels))}"


class ShopEpisode(PlainEpisode):
    """One errand. There is no chance in it, so a fork needs no seed."""

    def __init__(self, task: str, environment: "Shop") -> None:
        """Enter the shop."""
        self.task = task
        self.environment = environment
        self.catalogue = catalogue_of(environment.products)
        self.goal = environment.goal(task)
        self.place = Place()
        self.used = 0

    @property
    def over(self) -> bool:
        """Whether something was bought, or it is too late."""
        return self.place.page == "bought" or self.used == self.environment.turns

    def opening(self) -> tuple[Message, ...]:
        """Rules, what to buy, and the first page."""
        return (
            Message("system", RULES, lasting=True),
            Message("user", f"{INSTRUCTION} {self.goal.instruction}", lasting=True),
            Message("user", self._told()),
        )

    def _told(self) -> str:
        return told_at(self.place, self.catalogue, admissible=self.environment.admissible)

    async def act(self, text: str) -> Observation:
        """Search, click, or stay where it makes no sense."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        action, there, complaint = action_in(text), None, MALFORMED
        if action is not None and action.verb == "search":
            there, complaint = self.place.searched(action.words), NO_SEARCH_BAR
        elif action is not None:
            there, complaint = self.place.clicked(action.words, self.catalogue), NO_BUTTON
        events = () if there else ("action/invalid" if action else "action/malformed",)
        self.place = there or self.place
        if self.place.page == "bought":
            return self._bought()
        if self.over:
            measures = (("task_score", 0.0),)
            return Observation((), end=End.TRUNCATED, events=events, measures=measures)
        page = self._told() if there else f"{complaint}\n{self._told()}"
        return Observation((Message("user", page),), events=events)

    def _bought(self) -> Observation:
        bought = self.place.product(self.catalogue)
        fit = Fit.of(self.goal, bought, dict(self.place.chosen))
        measures = (("task_score", fit.reward), ("r_type", fit.kind))
        return Observation((), fit.reward, End.FINISHED, measures=measures)

    def fork(self, seed: int) -> Self:  # noqa: ARG002 - there is no chance to draw
        """An independent copy."""
        return copy.copy(self)

    def state_key(self) -> Hashable:
        """Where the shopper is, and how many turns are used."""
        return self.task, self.used, self.place

    def demonstrate(self, seed: int) -> str:
        """What a teacher says who goes by titles and prices, and clicks anything at times.

        It looks at no second page and no description, and so often buys what does not fit.
        """
        chance, place = random.Random(seed), self.place
        if place.page == "search":
            return f"search[{' '.join((*self.goal.attributes, self.goal.product.query))}]"
        buttons = [button for button, _ in place.buttons(self.catalogue)]
        if chance.random() < CARELESS:
            return f"click[{chance.choice(buttons)}]"
        if place.page == "results":
            shown = place.results(self.catalogue)
            return f"click[{max(shown, key=self._promise).asin if shown else BACK}]"
        if place.page != "item":
            return f"click[{buttons[1]}]"
        wanted = wanted_of(place.product(self.catalogue).options, self.goal)
        left = [value for name, value in wanted.items() if dict(place.chosen).get(name) != value]
        return f"click[{left[0] if left else BUY}]"

    def _promise(self, product: Product) -> float:
        """How well a line on a page of results fits: its title's words, if the price does."""
        wanted = (*self.goal.attributes, self.goal.product.query)
        fits = product.price <= self.goal.price_upper
        return fits * sum(words in product.title for words in wanted)


def wanted_of(options: object, goal: Goal) -> dict[str, str]:
    """What a goal asks for, among the options of a product."""
    offered = cast("dict[str, tuple[str, ...]]", options)
    return {name: value for name, value in goal.options.items() if value in offered.get(name, ())}


@dataclass(frozen=True)
class Shop(PlainTasks):
    """Buy what an instruction asks for in a shop like WebShop, on a made-up catalogue."""

    name = "shop"
    forking = Forking.FORK
    success_return = 1.0
    max_new_tokens = 32
    offers = frozenset[Offer]()

    products: int = 1000
    """Products in the catalogue, 100 to 10000."""
    turns: int = 15
    """Actions until an episode is cut off, 4 to 50."""
    admissible: bool = True
    """Whether each page lists what can be said on it."""
    context: ContextPolicy = "markov"
    """What the policy is shown of the past."""
    server: str = ""
    """Address of a WebShop server, such as http://localhost:3000; its catalogue then takes the
    place of the made-up one."""
    goals: int = 12_087
    """How many goals the server has. As in WebShop's own split, the first 500 are for tests, and
    those from 1500 on for training."""
    seconds: float = 30.0
    """How long the server may take for a page."""

    def __post_init__(self) -> None:
        if not FEWEST <= self.products <= MOST:
            raise ValueError(f"products: got {self.products}, needed {FEWEST} to {MOST}")
        if not FEWEST_TURNS <= self.turns <= MOST_TURNS:
            raise ValueError(f"turns: got {self.turns}, needed {FEWEST_TURNS} to {MOST_TURNS}")
        if self.server and self.goals <= SERVED_TRAIN:
            raise ValueError(f"goals: got {self.goals}, needed more than {SERVED_TRAIN}")
        if not self.seconds > 0:
            raise ValueError(f"seconds: got {self.seconds}, needed more than 0")

    @property
    def turn_limit(self) -> int:
        """Actions until an episode is cut off."""
        return self.turns

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Every word of the catalogue; of a server's nobody knows them."""
        if self.server:
            return None
        catalogue = catalogue_of(self.products)
        places = [
            Place("results", query, number)
            for query in sorted({product.query for product in catalogue.products})
            for number in (1, 2)
        ]
        for product in catalogue.products:
            item = Place("item", asin=product.asin)
            places += [item, *(there for _, there in item.buttons(catalogue))]
        told = (
            told_at(place, catalogue, admissible=True) for place in places if place.page != "bought"
        )
        goals = (
            Goal.drawn(product, random.Random(i)).instruction
            for i, product in enumerate(catalogue.products)
        )
        text = " ".join((*told, *goals, *catalogue.by_asin, "search[keywords]"))
        numbers = (str(number) for number in range(500))
        words = re.findall(r"\w+|[^\w\s]+", text.replace(CAN_SAY, ""))
        return Vocabulary(PHRASES, tuple(dict.fromkeys((*words, *numbers))))

    def size(self, split: Split) -> int | None:
        """Without end, but for a server's."""
        if not self.server:
            return None
        return SERVED_TEST if split == "test" else self.goals - SERVED_TRAIN

    def goal(self, task: str) -> Goal:
        """What a task asks for; products that tests ask for are never asked for in training.

        Raises:
            ValueError: there is no such task.
        """
        split, index = parts_of_task(task, self.name)
        chance = random.Random(derived(self.name, self.products, split, index))
        asked = catalogue_of(self.products).of_split[cast("Split", split)]
        return Goal.drawn(chance.choice(asked), chance)

    def path(self, task: str) -> list[str]:
        """Actions that buy exactly what a task asks for."""
        goal, catalogue = self.goal(task), catalogue_of(self.products)
        actions, place = [f"search[{goal.product.title}]"], Place().searched(goal.product.title)
        while place is not None and goal.product not in place.results(catalogue):
            actions.append(f"click[{NEXT}]")
            place = place.clicked(NEXT, catalogue)
        chosen = [f"click[{value}]" for value in goal.options.values()]
        return [*actions, f"click[{goal.product.asin}]", *chosen, f"click[{BUY}]"]

    async def open(self, task: str, seed: int) -> Episode:  # noqa: ARG002 - no chance to draw
        """Start an episode."""
        if not self.server:
            return ShopEpisode(task, self)
        from retrograde.environments.shop.served import ServedEpisode

        split, index = parts_of_task(task, self.name)
        number = int(index) + (SERVED_TRAIN if split == "train" else 0)
        return await ServedEpisode.started(task, number, self)


SERVED_TEST, SERVED_TRAIN = 500, 1500
"""How many of a server's goals are for tests, and the first that is for training."""
