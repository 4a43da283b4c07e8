"""A made-up catalogue of products, drawn from a seed, and the search over it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from retrograde.data.seeds import derived
from retrograde.environments.extras import extra
from retrograde.environments.protocol import Split

FEWEST, MOST = 100, 10_000
"""Products in a catalogue."""
FOUND = 50
"""Products that a search finds at most."""
OFFERED = 4
"""Values of an option that one product has."""
LETTERS = "0123456789BCDFGHJKLMNPQRSTVWXYZ"

BRANDS = (
    "Acorn", "Birchley", "Cobalt", "Dunmore", "Elmwood", "Fairhaven", "Glenrock", "Harrow",
    "Ivydale", "Juniper", "Kestrel", "Larkspur", "Merrin", "Northwind", "Oakhurst", "Pinecrest",
    "Quillon", "Redfern", "Solway", "Thornbury",
)  # fmt: skip
PLACES = ("home", "office", "travel", "garden", "school", "gym", "camping", "kitchen")
EXTRAS = ("gift", "pack", "set", "kit", "bundle", "collection")
COLORS = ("black", "white", "red", "blue", "green", "grey", "brown", "pink", "purple", "yellow")


class Aisle(NamedTuple):
    """What the products of one aisle have in common."""

    department: str
    kinds: tuple[str, ...]
    """What there is, as people ask for it."""
    materials: tuple[str, ...]
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    """What the buyer has to choose, and among what."""
    cheapest: int
    dearest: int
    """In dollars."""


AISLES: Mapping[str, Aisle] = MappingProxyType(
    {
        "shoes": Aisle(
            "clothing",
            ("running shoes", "hiking boots", "sandals", "slippers"),
            ("leather", "canvas", "mesh", "suede"),
            ("slip resistant", "arch support", "memory foam", "rubber sole", "water resistant",
             "machine washable", "ankle strap", "high heel"),
            {"size": ("6", "7", "8", "9", "10", "11", "12"), "color": COLORS},
            18, 140,
        ),
        "tops": Aisle(
            "clothing",
            ("polo shirt", "dress shirt", "hoodie", "sweater"),
            ("cotton", "wool", "linen", "fleece"),
            ("long sleeve", "short sleeve", "slim fit", "quick drying", "machine washable",
             "moisture wicking", "button closure", "wrinkle free"),
            {"size": ("small", "medium", "large", "x-large", "xx-large"), "color": COLORS},
            9, 80,
        ),
        "furniture": Aisle(
            "household",
            ("office chair", "coffee table", "bookshelf", "nightstand"),
            ("oak", "bamboo", "steel", "walnut"),
            ("easy assembly", "space saving", "heavy duty", "height adjustable", "solid wood",
             "eco friendly", "lumbar support", "scratch resistant"),
            {"color": COLORS, "style": ("modern", "rustic", "classic", "industrial")},
            45, 420,
        ),
        "bedding": Aisle(
            "household",
            ("blanket", "pillow", "curtain", "quilt"),
            ("cotton", "velvet", "microfiber", "silk"),
            ("super soft", "machine washable", "queen size", "king size", "light weight",
             "fade resistant", "hypoallergenic filling", "thermal insulated"),
            {"size": ("twin", "full", "queen", "king"), "color": COLORS},
            12, 110,
        ),
        "hair": Aisle(
            "beauty",
            ("shampoo", "conditioner", "hair mask", "hair oil"),
            ("argan", "coconut", "keratin", "rosemary"),
            ("sulfate free", "paraben free", "cruelty free", "damaged hair", "dry hair",
             "hair growth", "color safe", "natural ingredients"),
            {"scent": ("lavender", "citrus", "mint", "vanilla"),
             "size": ("4 ounce", "8 ounce", "16 ounce", "32 ounce")},
            5, 45,
        ),
        "audio": Aisle(
            "electronics",
            ("headphones", "speaker", "earbuds", "soundbar"),
            ("aluminum", "plastic", "titanium", "carbon"),
            ("noise cancelling", "fast charging", "water resistant", "stereo sound",
             "long lasting", "high definition", "hands free", "plug play"),
            {"color": COLORS, "style": ("wired", "wireless", "foldable", "compact")},
            15, 320,
        ),
        "phones": Aisle(
            "electronics",
            ("phone case", "charger", "screen protector", "power bank"),
            ("silicone", "glass", "rubber", "nylon"),
            ("wireless charging", "fast charging", "shock proof", "tempered glass", "anti glare",
             "heavy duty", "dust proof", "non slip"),
            {"color": COLORS, "size": ("mini", "standard", "plus", "max")},
            6, 70,
        ),
        "snacks": Aisle(
            "grocery",
            ("protein bar", "crackers", "trail mix", "popcorn"),
            ("almond", "oat", "quinoa", "corn"),
            ("gluten free", "sugar free", "non gmo", "low carb", "plant based", "high protein",
             "dairy free", "keto friendly"),
            {"flavor": ("chocolate", "caramel", "cheddar", "honey", "peanut butter"),
             "size": ("pack of 1", "pack of 6", "pack of 12", "pack of 24")},
            4, 50,
        ),
    }
)  # fmt: skip

NOUNS = frozenset(
    word.lower()
    for phrase in (
        *BRANDS, *PLACES, *EXTRAS, *AISLES, *(aisle.department for aisle in AISLES.values()),
        *(kind for aisle in AISLES.values() for kind in aisle.kinds),
        *(material for aisle in AISLES.values() for material in aisle.materials),
    )
    for word in phrase.split()
) - {"running", "hiking"}  # fmt: skip
"""Every noun of the catalogue's titles, proper nouns included."""


@dataclass(frozen=True, slots=True)
class Product:
    """Something to buy."""

    asin: str
    """Its number, in capital letters and digits."""
    query: str
    """What people ask for who want such a thing."""
    category: str
    """From department to kind, with a sign between each, as WebShop writes it."""
    title: str
    attributes: tuple[str, ...]
    options: Mapping[str, tuple[str, ...]]
    price: float
    """In dollars."""
    description: str
    bullets: tuple[str, ...]
    """What the features page says."""
    reviews: tuple[str, ...]
    rating: float

    @property
    def split(self) -> Split:
        """Which tasks may ask for it: a hash of its number says; one in four for tests."""
        return "train" if derived(self.asin) % 4 else "test"

    @property
    def indexed(self) -> str:
        """What the search looks through."""
        chosen = (value for values in self.options.values() for value in values)
        return " ".join((self.title, self.description, *self.bullets, *chosen))


class Catalogue:
    """Products, and a BM25 index over them."""

    def __init__(self, products: tuple[Product, ...]) -> None:
        """Index the products."""
        self.products = products
        self.by_asin = {product.asin: product for product in products}
        self.of_split: Mapping[Split, tuple[Product, ...]] = {
            "train": tuple(p for p in products if p.split == "train"),
            "test": tuple(p for p in products if p.split == "test"),
        }
        self._search: Any = extra("bm25s", "shop")
        self._index: Any = self._search.BM25()
        texts = [_words(product.indexed) for product in products]
        self._index.index(texts, show_progress=False)
        self._known = frozenset(word for text in texts for word in text)
        self._remembered = lru_cache(maxsize=1024)(self._found)

    def found(self, keywords: str) -> tuple[Product, ...]:
        """The products that fit best, at most `FOUND`; in catalogue order where they fit alike."""
        return self._remembered(keywords)

    def _found(self, keywords: str) -> tuple[Product, ...]:
        words = [word for word in _words(keywords) if word in self._known]
        if not words:
            return ()
        scores = self._index.get_scores(words).tolist()
        order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
        return tuple(self.products[i] for i in order[:FOUND] if scores[i] > 0)


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() else " " for c in text.lower()).split()


@lru_cache(maxsize=4)
def catalogue_of(count: int) -> Catalogue:
    """The catalogue with so many products; the same every time."""
    return Catalogue(tuple(_product(number) for number in range(count)))


def _product(number: int) -> Product:
    chance = random.Random(derived("shop", "product", number))
    name = chance.choice(tuple(AISLES))
    aisle = AISLES[name]
    kind, brand = chance.choice(aisle.kinds), chance.choice(BRANDS)
    material = chance.choice(aisle.materials)
    attributes = tuple(chance.sample(aisle.attributes, chance.randint(3, 5)))
    kept = {option: chance.sample(values, OFFERED) for option, values in aisle.options.items()}
    options = {
        option: tuple(value for value in values if value in kept[option])
        for option, values in aisle.options.items()
    }
    places = chance.sample(PLACES, chance.randint(1, 4))
    title = (
        f"{brand} {material} {kind} {attributes[0]}, {name} for {' and '.join(places)}, "
        f"{' '.join(chance.sample(EXTRAS, chance.randint(1, 2)))}"
    )
    letters = "".join(chance.choice(LETTERS) for _ in range(4))
    return Product(
        asin=f"B{number:05d}{letters}",
        query=kind,
        category=f"{aisle.department} \u203a {name} \u203a {kind}",
        title=title,
        attributes=attributes,
        options=options,
        price=chance.randint(aisle.cheapest, aisle.dearest) - 0.01,
        description=f"The {brand} {kind} is made of {material} and good for {places[0]}.",
        bullets=tuple(f"This {kind} is {attribute}." for attribute in attributes[1:]),
        reviews=tuple(
            f"{chance.randint(1, 5)} stars: {chance.choice(_OPINIONS)}"
            for _ in range(chance.randint(0, 3))
        ),
        rating=chance.randint(20, 50) / 10,
    )


_OPINIONS = ("As described.", "Would buy again.", "Not for me.", "Arrived late.", "Great value.")
