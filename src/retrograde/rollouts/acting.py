"""What comes of an answer: the world acts, the turn is judged, the next context is put together."""

from collections.abc import Sequence
from dataclasses import replace

from retrograde.data.message import Message
from retrograde.data.tree import End
from retrograde.environments.protocol import Observation
from retrograde.policies.protocol import Answer
from retrograde.rendering.history import Renderer
from retrograde.rewards.record import Said
from retrograde.rollouts.cut import cut
from retrograde.rollouts.judging import Judging
from retrograde.rollouts.line import Line
from retrograde.rollouts.walk import Draft, Standing, Walk
from retrograde.rollouts.world import Breaking, BrokenError, World

MEASURES = "measures/"
"""Begins the names of figures that environments measure themselves."""


class NoAnswerError(RuntimeError):
    """A policy answered with no token at all, not even one that stops."""


class ContextOverflowError(RuntimeError):
    """An opening leaves no room for an answer."""


class Acting:
    """Plays answers in a world; whatever breaks on the way is a `BrokenError`."""

    def __init__(
        self, world: World, renderer: Renderer, max_new_tokens: int, judging: Judging | None
    ) -> None:
        """Bind the parts.

        Args:
            world: acts.
            renderer: shows the policy what is said.
            max_new_tokens: the longest answer, for which every context has to leave room.
            judging: says what turns earn; None for what the world gives.
        """
        self.world = world
        self.renderer = renderer
        self.max_new_tokens = max_new_tokens
        self.judging = judging

    def begin(self, line: Line) -> Standing:
        """Where an episode stands that was just opened.

        Raises:
            BrokenError: it does not say, or says more than there is room for.
        """
        messages = self.world.opening(line)
        with Breaking("render"):
            history = self.renderer.open(messages)
            context = self.renderer.context(history)
        with Breaking("opening"):
            if self._is_too_long(context):
                raise ContextOverflowError(
                    f"the opening takes {len(context)} tokens and an answer up to "
                    f"{self.max_new_tokens}, and {self.world.limits.context_tokens} are the limit"
                )
        return Standing(history, context, (), messages)

    async def act(self, walk: Walk, answer: Answer, *, merging: bool) -> Draft:
        """Play an answer.

        Args:
            walk: the rollout.
            answer: what the policy said.
            merging: whether equal states are merged here.

        Raises:
            BrokenError: something broke.
        """
        if not answer.ids:
            error = NoAnswerError("the policy answered with no token")
            raise BrokenError("answer", error) from error
        text = self.renderer.tokenizer.decode(answer.ids)
        said = await self.world.act(walk.line, text)
        for name in said.events:
            self.world.counts[f"events/{name}"] += 1
        draft = Draft(walk, answer, said, said.reward, said.end)
        if said.measures:
            draft.figures = [(f"{MEASURES}{name}", value) for name, value in said.measures]
        if said.end is None:
            draft.standing = self._shown(draft, said.messages)
        if self.judging is not None:
            await self._judge(self.judging, draft, said)
        if merging and draft.standing is not None:
            draft.state = self.world.state_key(walk.line)
        return draft

    def _shown(self, draft: Draft, messages: tuple[Message, ...]) -> Standing | None:
        """What the policy is shown next; the rollout is over where there is no room for it."""
        walk, counts = draft.walk, self.world.counts
        if len(walk.line.said) >= self.world.turn_limit:
            draft.end = End.TRUNCATED
            counts["cut/turns"] += 1
            return None
        reply = self.renderer.tokenizer.reply
        with Breaking("render"):
            most = self.world.limits.observation_tokens
            shown = cut(messages, most, lambda said: len(reply(said)))
            history = self.renderer.answered(walk.standing.history, draft.answer.ids, shown)
            context = self.renderer.context(history)
        if shown != messages:
            counts["cut/observations"] += 1
        if self._is_too_long(context):
            draft.end = End.TRUNCATED
            counts["cut/contexts"] += 1
            return None
        return Standing(history, context, walk.context + draft.answer.ids, shown)

    async def _judge(self, judging: Judging, draft: Draft, observation: Observation) -> None:
        """Set what the turn earned, and what each reward function has given so far."""
        walk, answer, is_over = draft.walk, draft.answer, draft.end is not None
        text = self.renderer.tokenizer.decode(answer.ids)
        heard = walk.standing.shown
        said = Said(heard, text, len(answer.ids), answer.stopped, observation)
        past = (*walk.standing.past, said)
        judged = await judging.earned(walk.line.task, past, is_over=is_over)
        draft.reward = judged.reward
        earned = dict(walk.standing.earned)
        for name, value in judged.parts.items():
            earned[name] = earned.get(name, 0.0) + value
        if is_over:
            rewards = [(f"reward/{name}", value) for name, value in earned.items()]
            draft.figures = (*draft.figures, *rewards)
        if draft.standing is not None:
            draft.standing = replace(draft.standing, past=past, earned=tuple(earned.items()))

    def _is_too_long(self, context: Sequence[int]) -> bool:
        most = self.world.limits.context_tokens
        return most is not None and len(context) + self.max_new_tokens > most
