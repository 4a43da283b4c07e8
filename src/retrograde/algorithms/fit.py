"""Whether an algorithm can run on an environment; found out before any work."""

from collections.abc import Mapping
from types import MappingProxyType

from retrograde.algorithms.algorithm import Algorithm
from retrograde.data.offer import Offer
from retrograde.environments.protocol import Environment, Forking
from retrograde.rewards.weighted import Rewards, offered

REMEDIES: Mapping[Offer, str] = MappingProxyType(
    {
        Offer.SCORES: "a score in [0, 1] with every Observation",
        Offer.TURN_REWARDS: "a reward with every Observation, not only the last",
        Offer.ATTEMPTS: "episodes in which every turn is a try at the whole task, with its score",
        Offer.GOLD: "Environment.gold, which says the right final answer of a task",
    }
)


def obstacles(
    algorithm: Algorithm, environment: Environment, rewards: Rewards | None = None
) -> list[str]:
    """Why the algorithm cannot run on the environment, and what would change it; none if it can."""
    found: list[str] = []
    offers = offered(environment, rewards)
    if algorithm.grow.forks and environment.forking is Forking.NONE:
        found.append(
            "it continues rollouts twice from one point, and the environment declares neither "
            "fork nor replay; one that does sets Environment.forking to Forking.FORK and has "
            "Episode.fork, or, if nothing in it is chance, to Forking.REPLAY"
        )
    found += [
        f"it needs {REMEDIES[offer]}, and the environment does not offer that (its offers: "
        f"{', '.join(sorted(offers)) or 'none'}); an environment that does names "
        f"Offer.{offer.name} in its offers"
        for offer in sorted(set(algorithm.needs) - offers)
    ]
    return found
