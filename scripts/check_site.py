"""Looks over a site that has been built: `python scripts/check_site.py [SITE]`.

mkdocs checks the links of pages as they are written. This checks what came out: that every link
and every anchor in every page leads somewhere, that nothing is loaded from the network, and that
the reference has each public name, documented. Links to other sites are checked for their form
alone, since a build must not depend on them.
"""

import re
import sys
import zlib
from collections.abc import Collection, Iterator, Mapping
from html.parser import HTMLParser
from os.path import normpath
from pathlib import Path
from urllib.parse import unquote, urlsplit

import reference_pages

ROOT = Path(__file__).resolve().parents[1]
LOADS = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "iframe": ("src",),
    "source": ("src", "srcset"),
    "video": ("src",),
    "audio": ("src",),
    "object": ("data",),
}
"""Attributes whose target a browser fetches by itself."""
NOT_LOADED = {"canonical", "next", "prev", "edit", "alternate"}
"""Kinds of `link` that a browser only knows of."""
IN_CSS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")]+)")


class Page(HTMLParser):
    """What a page links to, loads, and can be linked at."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.unnamed_pictures: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag refers to."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "img" and "alt" not in values:
            self.unnamed_pictures.append(values.get("src", ""))
        if tag == "link" and values.get("rel") in NOT_LOADED:
            return
        self.loads += [values[name] for name in LOADS.get(tag, ()) if values.get(name)]
        self.loads += IN_CSS.findall(values.get("style", ""))


def faults(site: Path) -> list[str]:
    """What is wrong with a site's pages."""
    site = site.resolve()
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    found: list[str] = []
    for path, page in pages.items():
        if path.name == "404.html":
            continue  # its links are absolute, since it is shown anywhere
        name = path.relative_to(site)
        found += [f"{name}: {fault}" for fault in _of_page(path, page, pages)]
    for path in sorted(site.rglob("*.css")):
        loaded = IN_CSS.findall(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(site)}: loads {url}" for url in loaded]
    return found


def _of_page(path: Path, page: Page, pages: Mapping[Path, Page]) -> Iterator[str]:
    for url in page.loads:
        if urlsplit(url).netloc:
            yield f"loads {url} from the network"
        elif not url.startswith("data:") and _fault(path, url, pages):
            yield f"loads {url}, which is not there"
    for source in page.unnamed_pictures:
        yield f"the picture {source} has no text in its place"
    for url in dict.fromkeys(page.links):
        fault = _fault(path, url, pages)
        if fault:
            yield f"link {url}: {fault}"


def _fault(path: Path, url: str, pages: Mapping[Path, Page]) -> str | None:
    """What is wrong with a link on a page, if anything is."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https"):
        return None if re.fullmatch(r"[\w.-]+\.[a-z]{2,}(:\d+)?", parts.netloc) else "no host"
    if parts.scheme or parts.netloc:
        return None if parts.scheme in ("mailto", "data", "javascript") else "of no known kind"
    target = Path(normpath(path.parent / unquote(parts.path))) if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.exists():
        return "leads nowhere"
    wanted = unquote(parts.fragment)
    if wanted and target in pages and wanted not in pages[target].anchors:
        return f"{target.name} has no anchor {wanted!r}"
    return None


def undocumented(package: Path = reference_pages.PACKAGE) -> list[str]:
    """Public names that nothing is said of."""
    return [name for name, is_documented in _names(package) if not is_documented]


def unreachable(inventory: Collection[str], package: Path = reference_pages.PACKAGE) -> list[str]:
    """Public names that the reference does not have."""
    return [name for name, _ in _names(package) if name not in inventory]


def _names(package: Path) -> Iterator[tuple[str, bool]]:
    for folder in (package, *reference_pages.packages(package)):
        for module in reference_pages.modules(folder):
            yield from reference_pages.public_names(module, package)


def inventory_of(site: Path) -> set[str]:
    """The names that the reference of a site has, from its `objects.inv`."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}


def main(site: Path) -> int:
    """Print what is wrong."""
    found = faults(site)
    found += [f"{name} has no docstring" for name in undocumented()]
    found += [f"{name} is not in the reference" for name in unreachable(inventory_of(site))]
    for fault in found:
        print(fault)
    pages = len(list(site.rglob("*.html")))
    print(f"{site.name}: {pages} pages, {len(found)} faults")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"))
