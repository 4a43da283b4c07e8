"""Errands in a running WebShop server, through the pages that it serves to people.

Source: WebShop's `web_agent_site` (Yao et al., 2022): its routes and templates. A session that is
called `fixed_N` is given goal N; all else that a page depends on is in its address.
"""

import copy
import re
import ssl
import uuid
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from html.parser import HTMLParser
from typing import Any, Protocol, Self
from urllib.parse import urljoin

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.extras import extra
from retrograde.environments.plain import PlainEpisode
from retrograde.environments.protocol import Observation
from retrograde.environments.shop.shop import (
    CAN_SAY,
    MALFORMED,
    NO_BUTTON,
    NO_SEARCH_BAR,
    RULES,
    Action,
    action_in,
)

UNSEEN = frozenset({"head", "script", "style", "title"})
SEARCH_BUTTON = "search"


@dataclass(frozen=True, slots=True)
class Link:
    """What a click asks the server for."""

    url: str
    posts: bool
    chooses: bool = False
    """Whether it is an option of a product."""


@dataclass
class Page(HTMLParser):
    """A page of WebShop, read: what is said on it, and what can be clicked."""

    url: str
    lines: list[str] = field(default_factory=list[str])
    links: dict[str, Link] = field(default_factory=dict[str, Link])
    """By label, in small letters."""
    search_url: str | None = None
    """Where the search bar sends keywords; None without one."""
    instruction: str = ""
    reward: float | None = None
    """On the last page."""

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[tuple[str, dict[str, str]]] = []
        self._form = ""

    @classmethod
    def read(cls, url: str, html: str) -> Self:
        """Read a page.

        Args:
            url: its address, after redirects.
            html: the page.
        """
        page = cls(url)
        page.feed(html)
        page.close()
        return page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note forms, options and the search bar."""
        held = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = urljoin(self.url, held.get("action", ""))
        elif tag == "input" and held.get("type") == "radio":
            link = Link(urljoin(self.url, held.get("data-url", "")), posts=False, chooses=True)
            self.links[held.get("value", "").lower()] = link
        elif tag == "input" and held.get("id") == "search_input":
            self.search_url = self._form
        if tag not in VOID:
            self._open.append((tag, held))

    def handle_endtag(self, tag: str) -> None:
        """Close what is open, however badly it is nested."""
        for i in range(len(self._open) - 1, -1, -1):
            if self._open[i][0] == tag:
                del self._open[i:]
                return

    def handle_data(self, data: str) -> None:
        """Take text that is seen."""
        text = " ".join(data.split())
        names = [tag for tag, _ in self._open]
        if not text or UNSEEN & set(names):
            return
        ids = {held.get("id") for _, held in self._open}
        if "reward" in ids and names[-1] == "pre":
            self.reward = float(text)
        if "instruction-text" in ids:
            if self.instruction in ("", "Instruction:"):
                self.instruction = f"{self.instruction} {text}".strip()
            return
        tag, held = self._open[-1] if self._open else ("", {})
        self.lines.append(f"[{text}]" if self._noted(tag, held, text) else text)

    def _noted(self, tag: str, held: Mapping[str, str], text: str) -> bool:
        """Whether a text can be clicked; if so, where it leads is noted."""
        if tag == "a" and "product-link" in held.get("class", "").split():
            self.links[text.lower()] = Link(urljoin(self.url, held.get("href", "")), posts=False)
            return True
        if tag == "button" and "btn" in held.get("class", "").split():
            if text.lower() != SEARCH_BUTTON:
                self.links[text.lower()] = Link(self._form, posts=True)
            return True
        return tag == "label" and text.lower() in self.links


VOID = frozenset({"br", "hr", "img", "input", "link", "meta"})


class Limits(Protocol):
    """What an episode has to know of its environment."""

    @property
    def server(self) -> str:
        """Address of the server."""
        ...

    @property
    def turns(self) -> int:
        """Actions until an episode is cut off."""
        ...

    @property
    def seconds(self) -> float:
        """How long the server may take for a page."""
        ...

    @property
    def admissible(self) -> bool:
        """Whether each page lists what can be said on it."""
        ...


class ServedEpisode(PlainEpisode):
    """One errand in a session of its own. Addresses hold the state, so a fork is a copy."""

    def __init__(self, task: str, page: Page, limits: Limits) -> None:
        """Stand on the first page."""
        self.task = task
        self.page = page
        self.limits = limits
        self.chosen: tuple[str, ...] = ()
        """Options of the product on this page that were clicked."""
        self.used = 0
        self.over = False

    @classmethod
    async def started(cls, task: str, number: int, limits: Limits) -> Self:
        """Begin a session with the goal of that number."""
        url = f"{limits.server.rstrip('/')}/{uuid.uuid4().hex}_fixed_{number}"
        return cls(task, await fetched(Link(url, posts=False), limits.seconds), limits)

    def opening(self) -> tuple[Message, ...]:
        """Rules, what to buy, and the first page."""
        return (
            Message("system", RULES, lasting=True),
            Message("user", self.page.instruction, lasting=True),
            Message("user", self._shown()),
        )

    def _shown(self) -> str:
        lines = [f"You have chosen {option}." for option in self.chosen] + self.page.lines
        if self.limits.admissible:
            search = ["search[keywords]"] if self.page.search_url else []
            said = (*search, *(f"click[{label}]" for label in self.page.links))
            lines.append(f"{CAN_SAY} {', '.join(said)}")
        return "\n".join(lines)

    async def act(self, text: str) -> Observation:
        """Search, click, or stay where it makes no sense."""
        if self.over:
            raise RuntimeError(f"the episode of {self.task!r} is over: open the task again")
        self.used += 1
        action = action_in(text)
        complaint = await self._done(action) if action else MALFORMED
        events = (f"action/{'invalid' if action else 'malformed'}",) if complaint else ()
        late = self.used == self.limits.turns
        self.over = late or self.page.reward is not None
        if self.page.reward is not None:
            measures = (("task_score", self.page.reward),)
            return Observation((), self.page.reward, End.FINISHED, measures=measures)
        if late:
            measures = (("task_score", 0.0),)
            return Observation((), end=End.TRUNCATED, events=events, measures=measures)
        shown = f"{complaint}\n{self._shown()}" if complaint else self._shown()
        return Observation((Message("user", shown),), events=events)

    async def _done(self, action: Action) -> str:
        """Go where an action leads; what is wrong with it, if it leads nowhere."""
        if action.verb == "search":
            if self.page.search_url is None:
                return NO_SEARCH_BAR
            link = Link(self.page.search_url, posts=True)
            self.page = await fetched(link, self.limits.seconds, action.words)
            return ""
        link = self.page.links.get(action.words.lower())
        if link is None:
            return NO_BUTTON
        self.page = await fetched(link, self.limits.seconds)
        keeps = link.chooses or "/item_sub_page/" in link.url or "/item_page/" in link.url
        chosen = (*self.chosen, action.words.lower()) if link.chooses else self.chosen
        self.chosen = chosen if keeps else ()
        return ""

    def fork(self, seed: int) -> Self:  # noqa: ARG002 - there is no chance to draw
        """A copy on the same page; it shares the session, which the server keeps the goal by."""
        return copy.copy(self)

    def state_key(self) -> Hashable:
        """The page's address, without the session's name, and how many turns are used."""
        return self.task, self.used, re.sub(r"[0-9a-f]{32}_fixed_\d+", "", self.page.url)


async def fetched(link: Link, seconds: float, keywords: str = "") -> Page:
    """Ask a WebShop server for a page.

    Raises:
        RuntimeError: the server cannot be reached in time, or has no such page.
    """
    httpx: Any = extra("httpx", "shop")
    form = {"search_query": keywords} if keywords else {}
    try:
        async with httpx.AsyncClient(
            timeout=seconds, follow_redirects=True, verify=_certificates()
        ) as client:
            answer = await (
                client.post(link.url, data=form) if link.posts else client.get(link.url)
            )
            answer.raise_for_status()
    except httpx.HTTPError as cause:
        raise RuntimeError(f"the WebShop server at {link.url}: {cause!r}") from cause
    return Page.read(str(answer.url), answer.text)


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    """Reading them takes far longer than a page."""
    return ssl.create_default_context()
