"""WebShop's pages as text, and what can be clicked on each."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from retrograde.environments.shop.catalogue import Catalogue, Product

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
START = "Search for products."
PageName = Literal["search", "results", "item", "Description", "Features", "Reviews", "bought"]
SUB_PAGES: tuple[PageName, ...] = ("Description", "Features", "Reviews")
PER_PAGE = 10
"""Products on a page of results."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a shopper is, with everything that was chosen on the way."""

    page: PageName = "search"
    keywords: str = ""
    number: int = 1
    """Of the page of results, from 1."""
    asin: str = ""
    """Of the product that is looked at, or was bought."""
    chosen: tuple[tuple[str, str], ...] = ()
    """Options of the product, in alphabetical order."""

    def product(self, catalogue: Catalogue) -> Product:
        """What is looked at."""
        return catalogue.by_asin[self.asin]

    def results(self, catalogue: Catalogue) -> tuple[Product, ...]:
        """What this page of results shows."""
        first = (self.number - 1) * PER_PAGE
        return catalogue.found(self.keywords)[first : first + PER_PAGE]

    def searched(self, keywords: str) -> "Place | None":
        """Where a search leads; nowhere but on the page with the search bar."""
        words = " ".join(keywords.lower().split())
        return Place("results", words) if self.page == "search" and words else None

    def clicked(self, label: str, catalogue: Catalogue) -> "Place | None":
        """Where a click leads, whatever the case of its letters; None if there is no such thing."""
        for button, there in self.buttons(catalogue):
            if button.lower() == label.strip().lower():
                return there
        return None

    def buttons(self, catalogue: Catalogue) -> "Iterator[tuple[str, Place]]":
        """Everything that can be clicked, and where it leads."""
        if self.page in ("search", "bought"):
            return
        yield BACK, Place()
        if self.page == "results":
            yield from self._results_buttons(catalogue)
        elif self.page == "item":
            yield PREVIOUS, Place("results", self.keywords, self.number)
            yield from self._item_buttons(self.product(catalogue))
        else:
            yield PREVIOUS, replace(self, page="item")

    def _results_buttons(self, catalogue: Catalogue) -> "Iterator[tuple[str, Place]]":
        if self.number > 1:
            yield PREVIOUS, replace(self, number=self.number - 1)
        if self.number * PER_PAGE < len(catalogue.found(self.keywords)):
            yield NEXT, replace(self, number=self.number + 1)
        for product in self.results(catalogue):
            yield product.asin, replace(self, page="item", asin=product.asin)

    def _item_buttons(self, product: Product) -> "Iterator[tuple[str, Place]]":
        for name, values in product.options.items():
            for value in values:
                chosen = dict(self.chosen) | {name: value}
                yield value, replace(self, chosen=tuple(sorted(chosen.items())))
        yield "Description", replace(self, page="Description")
        yield "Features", replace(self, page="Features")
        yield "Reviews", replace(self, page="Reviews")
        yield BUY, replace(self, page="bought")

    def text(self, catalogue: Catalogue) -> str:
        """The page; what can be clicked is in brackets."""
        if self.page == "search":
            return START
        if self.page == "results":
            return "\n".join(self._results_lines(catalogue))
        lines = [f"[{BACK}] [{PREVIOUS}]"]
        product = self.product(catalogue)
        if self.page == "item":
            lines += self._item_lines(product)
        elif self.page == "Description":
            lines.append(product.description)
        elif self.page == "Features":
            lines += product.bullets
        else:
            lines += product.reviews or ("No reviews found",)
        return "\n".join(lines)

    def _results_lines(self, catalogue: Catalogue) -> Iterator[str]:
        buttons = [button for button, _ in self.buttons(catalogue)]
        shown = self.results(catalogue)
        yield " ".join(f"[{button}]" for button in buttons[: len(buttons) - len(shown)])
        yield f"Page {self.number} (Total results: {len(catalogue.found(self.keywords))})"
        for product in shown:
            yield f"[{product.asin}] {product.title} ${product.price:.2f}"

    def _item_lines(self, product: Product) -> Iterator[str]:
        chosen = dict(self.chosen)
        for name, values in product.options.items():
            choice = f" You have chosen {chosen[name]}." if name in chosen else ""
            yield f"{name}: {' '.join(f'[{value}]' for value in values)}{choice}"
        yield product.title
        yield f"Price: ${product.price:.2f}"
        yield f"Rating: {product.rating}"
        yield " ".join(f"[{button}]" for button in (*SUB_PAGES, BUY))
