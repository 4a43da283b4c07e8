"""Draws the pictures of docs/concepts.md and docs/rtpo.md: `python scripts/concept_pictures.py`.

They are legible on light and on dark pages: each has its own ground, which follows the reader's
system.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
STYLE = """
  .ground { fill: #ffffff; stroke: #d0d7de; }
  text { font: 14px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328; }
  text.small { font-size: 12px; }
  text.dim { fill: #59636e; }
  text.mono { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
    font-size: 12px; }
  text.strong { font-weight: 600; }
  .edge { stroke: #8c959f; stroke-width: 1.5; fill: none; }
  .faint { opacity: 0.35; }
  .dashed { stroke-dasharray: 4 4; }
  .box, .turn { fill: #eef1f4; stroke: #8c959f; }
  .hidden { fill: none; stroke: #afb8c1; stroke-dasharray: 4 4; }
  .trained { fill: #cfe3f5; stroke: #1f6fb2; stroke-width: 2; }
  .good { fill: #1f6fb2; stroke: none; }
  .bad { fill: #b35806; stroke: none; }
  text.on { fill: #ffffff; font-weight: 600; }
  text.up { fill: #1f6fb2; font-weight: 600; }
  text.down { fill: #b35806; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #1c2128; stroke: #444c56; }
    text { fill: #e6edf3; }
    text.dim { fill: #a2acb6; }
    .edge { stroke: #8b949e; }
    .box, .turn { fill: #2d333b; stroke: #8b949e; }
    .hidden { stroke: #6e7681; }
    .trained { fill: #173a5a; stroke: #6cb6ff; }
    .good { fill: #6cb6ff; }
    .bad { fill: #f0a35e; }
    text.on { fill: #10151a; }
    text.up { fill: #6cb6ff; }
    text.down { fill: #f0a35e; }
  }
"""
WIDTH = 720
TURN = 26
"""Width and height of a node of a tree."""


@dataclass
class Picture:
    """A picture that is being drawn."""

    title: str
    about: str
    """For who cannot see it."""
    height: int
    parts: list[str] = field(default_factory=list)

    def box(self, at: tuple[float, float], size: tuple[float, float], kind: str = "box") -> None:
        """A rectangle."""
        self.parts.append(
            f'<rect class="{kind}" x="{at[0]:g}" y="{at[1]:g}" width="{size[0]:g}" '
            f'height="{size[1]:g}" rx="4"/>'
        )

    def text(
        self, at: tuple[float, float], words: str, kind: str = "", anchor: str = "start"
    ) -> None:
        """A line of text; `at` is the left (or middle, or right) end of its base line."""
        mark = f' class="{kind}"' if kind else ""
        self.parts.append(
            f'<text{mark} x="{at[0]:g}" y="{at[1]:g}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def edge(
        self, start: tuple[float, float], end: tuple[float, float], kind: str = "edge"
    ) -> None:
        """A line that leaves and arrives level."""
        middle = (start[0] + end[0]) / 2
        self.parts.append(
            f'<path class="{kind}" d="M{start[0]:g} {start[1]:g}C{middle:g} {start[1]:g} '
            f'{middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"/>'
        )

    def turn(self, at: tuple[float, float], label: str = "", kind: str = "turn") -> None:
        """A node of a tree."""
        self.box((at[0] - TURN / 2, at[1] - TURN / 2), (TURN, TURN), kind)
        self.text((at[0], at[1] + 5), label, "small", "middle")

    def leaf(self, at: tuple[float, float], earned: int, kind: str = "") -> None:
        """How a rollout ended: a disc with what it earned."""
        tone = "good" if earned else "bad"
        self.parts.append(
            f'<circle class="{f"{tone} {kind}".strip()}" cx="{at[0]:g}" cy="{at[1]:g}" r="11"/>'
        )
        self.text((at[0], at[1] + 5), str(earned), f"on small {kind}".strip(), "middle")

    def svg(self) -> str:
        """The picture as a file."""
        inner = "\n".join(f"  {part}" for part in self.parts)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
            f'width="{WIDTH}" height="{self.height}" role="img" aria-labelledby="t d">\n'
            f'  <title id="t">{escape(self.title)}</title>\n'
            f'  <desc id="d">{escape(self.about)}</desc>\n'
            f"  <style>{STYLE}  </style>\n"
            f'  <rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" '
            f'height="{self.height - 1}" rx="6"/>\n{inner}\n</svg>\n'
        )


def turn() -> Picture:
    """What a turn is made of."""
    picture = Picture(
        "A turn",
        "A context of token ids is given to the policy; the policy gives back an action, each "
        "token with its log-probability; the environment answers with an observation and a "
        "reward.",
        214,
    )
    picture.text((24, 32), "one turn", "strong")
    picture.box((24, 48), (206, 104))
    picture.text((36, 70), "context", "strong")
    picture.text((36, 92), "rules, question,", "small dim")
    picture.text((36, 110), "last exchange", "small dim")
    picture.text((36, 138), "8124 77 9 301 … ids", "mono")
    picture.edge((230, 100), (262, 100))
    picture.box((262, 48), (250, 104), "trained")
    picture.text((274, 70), "action", "strong")
    for i, (word, logp) in enumerate((("answer", "-0.02"), ("Jack", "-1.31"), ("<end>", "-0.00"))):
        x = 278 + 78 * i
        picture.box((x, 84), (70, 52))
        picture.text((x + 35, 105), word, "mono", "middle")
        picture.text((x + 35, 126), logp, "mono dim", "middle")
    picture.edge((512, 100), (544, 100))
    picture.box((544, 48), (152, 104))
    picture.text((556, 70), "observation", "strong")
    picture.text((556, 92), "what the world says,", "small dim")
    picture.text((556, 110), "and what it pays", "small dim")
    picture.text((556, 138), "reward 1", "mono")
    picture.text(
        (24, 184),
        "Kept as ids. Only the action's tokens carry gradient, each with the log-probability",
        "small dim",
    )
    picture.text((24, 201), "(nats) it was sampled with.", "small dim")
    return picture


def _trunk(picture: Picture, y: float, xs: Sequence[float], earned: int, kind: str = "") -> None:
    """A first attempt, level at height y, and how it ended."""
    for left, right in zip(xs, [*xs[1:], xs[-1] + 70], strict=True):
        picture.edge((left + TURN / 2, y), (right - TURN / 2, y), f"edge {kind}".strip())
    for number, x in enumerate(xs):
        picture.turn((x, y), str(number + 1), f"turn {kind}".strip())
    picture.leaf((xs[-1] + 70, y), earned, kind)


def tree() -> Picture:
    """A tree with its parts named."""
    picture = Picture(
        "A tree",
        "A trunk of three turns; three siblings are forked at the boundary before turn 2, each "
        "continued to a leaf that says what the rollout earned.",
        310,
    )
    xs = (110, 250, 390)
    picture.text((24, 58), "trunk", "strong")
    picture.text((24, 76), "the first attempt", "small dim")
    _trunk(picture, 62, (170, 300, 430), 0)
    del xs
    for y, earned in ((138, 1), (198, 0), (258, 1)):
        picture.edge((183, 62), (300 - TURN / 2, y))
        picture.turn((300, y), "2", "trained")
        picture.edge((313, y), (417, y))
        picture.turn((430, y), "3")
        picture.edge((443, y), (489, y))
        picture.leaf((500, y), earned)
    picture.box((226, 44), (2, 36), "bad")
    picture.text((227, 34), "boundary", "small", "middle")
    picture.text((24, 196), "siblings", "strong")
    picture.text((24, 214), "other answers to the", "small dim")
    picture.text((24, 230), "same situation", "small dim")
    picture.text((430, 300 - 10), "continuations", "small dim", "middle")
    picture.text((530, 66), "leaf: finished, earned 0", "small dim")
    picture.text((530, 142), "leaf: finished, earned 1", "small dim")
    picture.text((530, 202), "four rollouts, one for", "small dim")
    picture.text((530, 218), "each leaf; they share", "small dim")
    picture.text((530, 234), "turn 1", "small dim")
    return picture


def visit() -> Picture:
    """Turns and visits."""
    picture = Picture(
        "Turns and visits",
        "Turn a is shared by three rollouts: the tree has four turns, and six visits. The rollouts "
        "earn 1, 0 and 0, so their advantages are +2/3, -1/3 and -1/3.",
        252,
    )
    picture.text((24, 32), "4 turns", "strong")
    picture.turn((90, 120), "a")
    for y, name, earned in ((66, "b", 1), (120, "c", 0), (174, "d", 0)):
        picture.edge((103, 120), (177, y))
        picture.turn((190, y), name)
        picture.edge((203, y), (239, y))
        picture.leaf((250, y), earned)
    picture.text((330, 32), "6 visits, rollout by rollout", "strong")
    picture.text((696, 32), "advantage", "small dim", "end")
    for y, name, earned, gain in (
        (66, "b", 1, "+2/3"),
        (120, "c", 0, "\N{MINUS SIGN}1/3"),
        (174, "d", 0, "\N{MINUS SIGN}1/3"),
    ):
        picture.turn((390, y), "a")
        picture.edge((403, y), (447, y))
        picture.turn((460, y), name)
        picture.edge((473, y), (509, y))
        picture.leaf((520, y), earned)
        picture.text((546, y + 5), f"return {earned}", "small dim")
        picture.text((696, y + 5), gain, "up small" if earned else "down small", "end")
    picture.text(
        (24, 218), "Credit goes to visits. Turn a has three, and what a method that", "small dim"
    )
    picture.text((24, 235), "judges whole rollouts gives them sums to 0.", "small dim")
    return picture


def context_policy() -> Picture:
    """What each context policy shows before the third answer."""
    picture = Picture(
        "Context policies",
        "Before the third answer: full shows everything; drop_thinking leaves out old thoughts; "
        "window shows the opening and the last exchange without its thought; markov the opening "
        "and the last observation.",
        268,
    )
    columns = ("opening", "thought 1", "answer 1", "seen 1", "thought 2", "answer 2", "seen 2")
    shown = {
        "full": (1, 1, 1, 1, 1, 1, 1),
        "drop_thinking": (1, 0, 1, 1, 0, 1, 1),
        "window": (1, 0, 0, 0, 0, 1, 1),
        "markov": (1, 0, 0, 0, 0, 0, 1),
    }
    picture.text((24, 32), "what the policy is shown before its third answer", "strong")
    for row, (name, flags) in enumerate(shown.items()):
        y = 52 + 46 * row
        picture.text((24, y + 20), name, "mono")
        for column, (label, flag) in enumerate(zip(columns, flags, strict=True)):
            x = 140 + 80 * column
            picture.box((x, y), (74, 32), "trained" if flag else "hidden")
            picture.text((x + 37, y + 20), label, "small" if flag else "small dim faint", "middle")
    picture.text(
        (24, 252),
        "Leaving out cuts ids off; nothing is decoded and encoded again. What was shown is what is "
        "trained on.",
        "small dim",
    )
    return picture


def phase() -> Picture:
    """The phases of one iteration of RTPO."""
    picture = Picture(
        "Phases",
        "In phase 1 siblings of turn 3 are forked and trained; in phase 2 those of turn 2, whose "
        "continuations come from the policy trained in phase 1; in phase 3 those of turn 1.",
        250,
    )
    for number in range(3):
        left = 24 + 232 * number
        trained = 3 - number
        picture.text((left, 32), f"phase {number + 1}: turn {trained}", "strong")
        xs = (left + 40, left + 92, left + 144)
        if trained == 1:
            picture.turn((left + 4, 66), "")
        _small_trunk(picture, xs, 66, trained)
        for y in (118, 168):
            start = xs[trained - 2] if trained > 1 else left + 4
            picture.edge((start + 13, 66), (xs[trained - 1] - 13, y))
            for turn_number in range(trained, 4):
                x = xs[turn_number - 1]
                picture.turn(
                    (x, y), str(turn_number), "trained" if turn_number == trained else "turn"
                )
                last = turn_number == len(xs)
                picture.edge((x + 13, y), (x + (29 if last else 39), y))
            picture.leaf((xs[-1] + 40, y), int(y == 118))  # noqa: PLR2004
        after = f"continued by policy {number}" if number else "nothing left to continue"
        picture.text((left, 212), after, "small dim")
        picture.text((left, 230), f"then trained into policy {number + 1}", "small dim")
    return picture


def _small_trunk(picture: Picture, xs: Sequence[float], y: float, trained: int) -> None:
    for number, x in enumerate(xs, 1):
        kind = "turn" if number < trained else "turn faint"
        picture.turn((x, y), str(number), kind)
        last = number == len(xs)
        line = "edge" if number < trained - 1 else "edge faint"
        picture.edge((x + 13, y), (x + (29 if last else 39), y), line)
    picture.leaf((xs[-1] + 40, y), 0, "faint")


LEVELS = (200, 320, 440)
"""Where turns 1, 2 and 3 stand in the frames of the stepper."""
RETURNS = {3: (1, 0, 0), 2: (1, 1, 0), 1: (1, 0, 1)}
"""What the siblings of each turn came to."""


def advantages(turn_number: int) -> list[Fraction]:
    """Return of each sibling minus their mean."""
    returns = RETURNS[turn_number]
    return [earned - Fraction(sum(returns), len(returns)) for earned in returns]


def frame(number: int, title: str, about: str, trained: int, *, judged: bool) -> Picture:
    """One frame of the stepper.

    Args:
        number: of the frame.
        title: what happens in it.
        about: the same for who cannot see it.
        trained: the turn whose siblings are shown; 0 for the trunk alone.
        judged: whether their advantages are shown, and they are marked as trained.
    """
    picture = Picture(title, about, 330 if trained else 150)
    picture.text((24, 34), f"{number}. {title}", "strong")
    for level, x in enumerate(LEVELS, 1):
        picture.text((x, 68), f"turn {level}", "small dim", "middle")
    picture.text((510, 68), "earned", "small dim", "middle")
    picture.text((620, 68), "advantage" if judged else "", "small dim", "middle")
    faint = "faint" if trained else ""
    picture.text((24, 100), "trunk", "strong")
    picture.text((24, 116), "policy 0", "small dim")
    if not trained:
        _trunk(picture, 98, LEVELS, 0)
        return picture
    for level, x in enumerate(LEVELS, 1):
        reached = level < trained
        picture.turn((x, 98), str(level), "turn" if reached else "turn faint")
        after = LEVELS[level] - 13 if level < len(LEVELS) else 499
        picture.edge((x + 13, 98), (after, 98), "edge" if level < trained - 1 else "edge faint")
    picture.leaf((510, 98), 0, faint)
    _siblings(picture, trained, judged=judged)
    return picture


def _siblings(picture: Picture, trained: int, *, judged: bool) -> None:
    policy = 3 - trained
    picture.text((24, 196), "siblings", "strong")
    picture.text((24, 212), f"policy {policy}", "small dim")
    start = (LEVELS[trained - 2] + 13, 98) if trained > 1 else (130, 98)
    if trained == 1:
        picture.text((112, 84), "opening", "small dim", "middle")
        picture.turn((116, 98), "")
    for i, (earned, gain) in enumerate(zip(RETURNS[trained], advantages(trained), strict=True)):
        y = 160 + 60 * i
        picture.edge(start, (LEVELS[trained - 1] - 13, y))
        twin = trained == 2 and i == 1  # noqa: PLR2004 - the one that merges into the first
        for level in range(trained, 4):
            x = LEVELS[level - 1]
            if level > trained and twin:
                break
            picture.turn((x, y), str(level), "trained" if judged and level == trained else "turn")
            if not twin:
                picture.edge((x + 13, y), (LEVELS[level] - 13 if level < len(LEVELS) else 499, y))
        if twin:
            picture.edge((LEVELS[1] + 13, y), (LEVELS[2] - 13, 160), "edge dashed")
            picture.text((LEVELS[2], y + 5), "same state as the first", "small dim")
        else:
            picture.leaf((510, y), earned)
        if judged:
            sign = "+" if gain > 0 else "\N{MINUS SIGN}"
            tone = "up" if gain > 0 else "down"
            picture.text((620, y + 5), f"{sign}{abs(gain)}", tone, "middle")


FRAMES: tuple[tuple[str, str, int, bool], ...] = (
    (
        "Play the task once",
        "Policy 0 plays three turns and earns 0. The states before its turns are kept.",
        0,
        False,
    ),
    (
        "Answer the last turn again",
        "Three siblings are sampled at the boundary before turn 3. They earn 1, 0 and 0.",
        3,
        False,
    ),
    (
        "Judge and train turn 3",
        "Returns less their mean: +2/3, -1/3, -1/3. They alone train. The result is policy 1.",
        3,
        True,
    ),
    (
        "One turn back",
        "Policy 1 answers turn 2, twice with the same outcome, and plays on: 1, 1 and 0.",
        2,
        False,
    ),
    (
        "Judge and train turn 2",
        "+1/3, +1/3, -2/3. The continuations carry no gradient. The result is policy 2.",
        2,
        True,
    ),
    (
        "Back to the first turn",
        "Policy 2 answers the opening three times and plays each to the end. They earn 1, 0 and 1.",
        1,
        False,
    ),
    (
        "Judge and train turn 1",
        "+1/3, -2/3, +1/3. The result is policy 3, which plants the trunks of the next iteration.",
        1,
        True,
    ),
)


def pictures() -> dict[str, str]:
    """Each picture by its file's name."""
    concepts: dict[str, Callable[[], Picture]] = {
        "concept-turn": turn,
        "concept-tree": tree,
        "concept-visit": visit,
        "concept-context": context_policy,
        "concept-phase": phase,
    }
    drawn = {f"{name}.svg": draw().svg() for name, draw in concepts.items()}
    for number, (title, about, trained, judged) in enumerate(FRAMES, 1):
        picture = frame(number, title, about, trained, judged=judged)
        drawn[f"rtpo-{number}.svg"] = picture.svg()
    return drawn


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    for name, text in pictures().items():
        (folder / name).write_text(text, encoding="utf-8")
