"""What mkdocs calls while it builds the site: pages that are made, and links that leave `docs/`.

A link from a page to a file of the repository, such as `../src/retrograde/trainer/loop.py`, leads
to a page that shows the file, so that the site is whole without a network.
"""

# pyright: reportMissingImports=false
# mkdocs is there for `make docs` alone.

import re
from pathlib import Path
from posixpath import normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import algorithm_pages
import reference_pages

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FENCE = re.compile(r"^( *```)(?:transcript|doctor)\b.*$", re.MULTILINE)
LANGUAGES = {".py": "python", ".toml": "toml", ".jsonl": "json", ".json": "json"}
SHOWN = "source/"
"""Begins the paths of pages that show a file of the repository."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation: pages that are made, pages there are, none of those that are missing."""
    optional = config.extra.pop("optional", [])
    docs = Path(config.docs_dir)
    absent = {name for name in optional if not (docs / name).exists()}
    if config.nav is not None:
        config.nav = _filled(config.nav, absent, docs)
    return config


def _filled(entries: list, absent: set[str], docs: Path) -> list:
    filled: list = []
    for entry in entries:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else (None, entry)
        if isinstance(value, list):
            filled.append({title: _filled(value, absent, docs)})
        elif value.endswith("/*"):
            inside = _pages_of(value.removesuffix("/*"), docs)
            filled += [{title: inside}] if title else inside
        elif value not in absent:
            filled.append(entry)
    return filled


def _pages_of(folder: str, docs: Path) -> list:
    if folder == "algorithms":
        return list(algorithm_pages.pages())
    if folder == "reference":
        first, *others = reference_pages.pages()
        return [first, *({Path(path).stem: path} for path in others)]
    return [
        f"{folder}.md",
        *sorted(f"{folder}/{path.name}" for path in (docs / folder).glob("*.md")),
    ]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and one for each file of the repository that is linked to."""
    for path, text in (algorithm_pages.pages() | reference_pages.pages()).items():
        files.append(File.generated(config, path, content=text))
    waiting = [file for file in files if file.is_documentation_page()]
    while waiting:
        file = waiting.pop()
        for target in _outside(file.src_uri, file.content_string):
            shown = f"{SHOWN}{target}.md"
            if files.get_file_from_path(shown) is None:
                made = File.generated(config, shown, content=_page_of(target, file.src_uri))
                files.append(made)
                waiting += [made] if target.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links that leave `docs/` to the pages that show files."""
    del config, files
    here = page.file.src_uri

    def replaced(found: re.Match[str]) -> str:
        target = _target(here, found[2])
        if target is None:
            return found[0]
        inside = target.removeprefix("docs/")
        to = inside if inside != target else f"{SHOWN}{target}.md"
        return f"{found[1]}{relpath(to, str(Path(here).parent))}{found[3]}"

    return FENCE.sub(r"\1text", LINK.sub(replaced, markdown))


def _outside(page: str, text: str) -> set[str]:
    """Files of the repository outside of `docs/` that a page links to."""
    found = {_target(page, link[2]) for link in LINK.finditer(text)}
    return {target for target in found if target and not target.startswith("docs/")}


def _target(page: str, link: str) -> str | None:
    """What a relative link means, from the repository's root; None if it stays in the site.

    Args:
        page: where the link stands, as a path in the site.
        link: as it is written.
    """
    if re.match(r"[a-z]+:|/", link):
        return None
    shown = page.startswith(SHOWN)
    home = page.removeprefix(SHOWN) if shown else f"docs/{page}"
    target = normpath(f"{Path(home).parent.as_posix()}/{link}")
    if target.startswith("docs/") and not shown:
        return None
    return target


def _page_of(target: str, linked_from: str) -> str:
    path = ROOT / target
    if target.startswith("..") or not path.exists():
        raise PluginError(f"{linked_from} links to {target}, which does not exist")
    if path.is_dir():
        entries = "".join(f"- {entry.name}\n" for entry in sorted(path.iterdir()))
        return f"# {target}\n\n{entries}"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    return f"# {target}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"
