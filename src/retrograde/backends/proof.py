"""Whether contexts put together turn by turn are what a tokenizer's own template says.

Each trial chat is played turn by turn, as a rollout plays it, and at each turn the ids are held
against those of `apply_chat_template` for the whole chat so far.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from retrograde.backends.chat import TransformersChat
from retrograde.backends.rewriting import ASKED
from retrograde.backends.template import Said
from retrograde.backends.trials import PLAIN, TRIALS, Trial, lookalike, without_thoughts
from retrograde.data.message import THOUGHT_OPENS, ContextPolicy
from retrograde.data.report import Finding, Report, Verdict
from retrograde.data.rows import Judgement, Row, rows_of
from retrograde.data.tree import ROOT_PARENT, End, Group, Tree, Turn, shared_length
from retrograde.rendering.history import Renderer

Ids = tuple[int, ...]
AROUND = 10
"""Ids that are shown on each side of a difference."""


@dataclass(frozen=True, slots=True)
class Walked:
    """A trial as it was played: what was shown before each answer and behind the last."""

    contexts: tuple[Ids, ...]
    actions: tuple[Ids, ...]

    def rows(self) -> list[Row]:
        """What would be trained, by the path that every update takes."""
        turns: list[Turn] = []
        before: Ids = ()
        for i, (context, action) in enumerate(zip(self.contexts, self.actions, strict=False)):
            shared = shared_length(before, context)
            end = End.FINISHED if i == len(self.actions) - 1 else None
            parent = i - 1 if i else ROOT_PARENT
            turn = Turn(parent, shared, context[shared:], (), action, (-1.0,) * len(action), 0, 0,
                        end=end)  # fmt: skip
            turns.append(turn)
            before = context + action
        tree = Tree(tuple(turns))
        judged = Judgement((1.0,) * len(tree.visits), (True,) * len(tree.visits))
        return rows_of([Group("trial", (tree,))], [[judged]])


def proof(chat: TransformersChat, subject: str) -> Report:
    """Examine the rendering of a tokenizer."""
    findings = [finding for trial in TRIALS for finding in _same_ids(chat, trial)]
    findings += _control_tokens(chat)
    findings += [_odd_ids(chat), _ends(chat), _loss(chat)]
    return Report(subject, facts(chat), tuple(findings))


def facts(chat: TransformersChat) -> dict[str, str | Sequence[str]]:
    """What a tokenizer and its template are like."""
    tokenizer = chat.tokenizer
    pad = tokenizer.pad_token_id
    padding = f"{pad} {tokenizer.pad_token!r}" if isinstance(pad, int) else "none: the end of turn"
    also = (
        ", an end of turn as well: it is masked by place, not by id" if pad in chat.stop_ids else ""
    )
    written = str(tokenizer.chat_template)
    return {
        "template": "rewrites what was said before" if chat.rewrites else "appends",
        "rewriting": chat.rewriting,
        "fallbacks": chat.template.fallbacks,
        "generation prompt": _read(chat, _prompt(chat)),
        "end of turn": _named(chat, chat.end_of_turn),
        "stop ids": ", ".join(_named(chat, stop) for stop in sorted(chat.stop_ids)),
        "pad": padding + also,
        "control tokens": f"{len(chat.spelling.control)}; text that looks like them stays text",
        **({"date": "the template writes today's"} if "strftime_now" in written else {}),
    }


def walked(chat: TransformersChat, trial: Trial, policy: ContextPolicy) -> Walked:
    """Play a trial turn by turn under a context policy."""
    renderer = Renderer(chat, policy)
    history = renderer.open(trial.opening)
    contexts, actions = [renderer.context(history)], list[Ids]()
    for answer, messages in trial.exchanges:
        actions.append(chat.said(sampled(chat, answer)))
        history = renderer.answered(history, actions[-1], messages)
        contexts.append(renderer.context(history))
    return Walked(tuple(contexts), tuple(actions))


def sampled(chat: TransformersChat, answer: str) -> str:
    """What a policy samples to give an answer: less than all if its prompt opens the thought."""
    if chat.opens_thought and answer.startswith(THOUGHT_OPENS):
        return answer.removeprefix(THOUGHT_OPENS).removeprefix("\n")
    return answer


def said_upto(trial: Trial, turns: int) -> list[Said]:
    """A trial's chat up to a generation prompt."""
    chat: list[Said] = [*trial.opening]
    for answer, messages in trial.exchanges[:turns]:
        chat += [answer, *messages]
    return chat


def template_ids(chat: TransformersChat, said: Sequence[Said], *, prompted: bool = True) -> Ids:
    """A whole chat's ids by `apply_chat_template`, nothing put together by us."""
    entries, tools = chat.template.adapted(said)
    ids = chat.tokenizer.apply_chat_template(
        entries,
        tools=tools or None,  # pyright: ignore[reportArgumentType] - schemas are what it takes
        tokenize=True,
        add_generation_prompt=prompted,
        return_dict=False,
    )
    return tuple(cast("list[int]", ids))


def difference(chat: TransformersChat, here: Ids, template: Ids) -> str:
    """The first place where two contexts differ, for people."""
    first = shared_length(here, template)
    before = here[max(0, first - AROUND) : first]
    lines = [f"the first {first} ids are the same, the last of them {_read(chat, before)}"]
    for name, ids in (("template", template), ("here", here)):
        shown = ids[first : first + AROUND]
        lines.append(f"{name + ':':10} {_read(chat, shown)}  {list(shown)}")
    return "\n".join(lines)


def _same_ids(chat: TransformersChat, trial: Trial) -> list[Finding]:
    wanted = _by_template(chat, trial)
    whole, dropped = (walked(chat, trial, policy).contexts for policy in ("full", "drop_thinking"))
    differs = _first_difference(chat, whole, wanted)
    if differs is not None and _appends(chat, trial):
        text = f"full: not the template's ids. {differs}"
        return [Finding(trial.name, Verdict.FAILED, text)]
    found: list[Finding] = []
    if differs is None:
        text = f"full: the template's ids; {_length(wanted)}"
        found.append(Finding(trial.name, Verdict.PROVEN, text))
    if differs is not None or trial.thinks:
        own = "" if chat.drops_thoughts else " for the answers without their thoughts"
        shown = wanted if chat.drops_thoughts else _by_template(chat, without_thoughts(trial))
        wrong = _first_difference(chat, dropped, shown)
        text = f"drop_thinking: {'' if wrong is None else 'not '}the template's ids{own}"
        text += f"; {_length(shown)}" if wrong is None else f". {wrong}"
        verdict = Verdict.PROVEN if wrong is None else Verdict.FAILED
        found.append(Finding(trial.name, verdict, text))
    if differs is not None:
        text = f"full shows the past as it was said, and the template rewrites it. {differs}"
        found.append(Finding(trial.name, Verdict.NOTE, text))
    elif trial.thinks and (left_out := _first_difference(chat, dropped, wanted)) is not None:
        text = f"drop_thinking leaves out what the template shows. {left_out}"
        found.append(Finding(trial.name, Verdict.NOTE, text))
    return found


def _length(contexts: Sequence[Ids]) -> str:
    return f"{len(contexts) - 1} turns, {len(contexts[-1])} ids in the end"


def _by_template(chat: TransformersChat, trial: Trial) -> list[Ids]:
    return [template_ids(chat, said_upto(trial, k)) for k in range(len(trial.exchanges) + 1)]


def _appends(chat: TransformersChat, trial: Trial) -> bool:
    """Whether the template's text of each turn begins with that of the last and the answer."""
    before = chat.template.text(said_upto(trial, 0), prompted=True)
    ends = chat.end_of_turn == chat.end_of_earlier_turn
    for turn, (answer, _) in enumerate(trial.exchanges):
        after = chat.template.text(said_upto(trial, turn + 1), prompted=True)
        ends = ends and after.startswith(before)
        ends = ends and after[len(before) :].lstrip(" ").startswith(sampled(chat, answer))
        before = after
    return ends


def _first_difference(
    chat: TransformersChat, here: Sequence[Ids], template: Sequence[Ids]
) -> str | None:
    for turn, (ours, theirs) in enumerate(zip(here, template, strict=True)):
        if ours != theirs:
            shown = difference(chat, ours, theirs)
            if _read(chat, ours) == _read(chat, theirs):
                shown += (
                    "\nthe text is the same: the tokenizer divides it otherwise where pieces meet"
                )
            return f"Context {turn + 1}:\n{shown}"
    return None


def _control_tokens(chat: TransformersChat) -> list[Finding]:
    tokens = list(chat.spelling.control.values())
    trial, harmless = lookalike(tokens), lookalike(["plain"] * len(tokens))
    found: list[Finding] = []
    for policy in ("full", "drop_thinking", "markov"):
        shown, plain = (walked(chat, each, policy).contexts for each in (trial, harmless))
        for turn, (ours, theirs) in enumerate(zip(shown, plain, strict=True)):
            marks, wanted = (_control_among(chat, ids) for ids in (ours, theirs))
            if marks != wanted:
                text = (
                    f"{policy}, context {turn + 1}: {len(marks)} control tokens, and "
                    f"{len(wanted)} if the same is said in plain words"
                )
                found.append(Finding(trial.name, Verdict.FAILED, text))
                break
    theirs, ours = template_ids(chat, trial.opening), walked(chat, trial, "full").contexts[0]
    if not found:
        text = "no word of the environment is read as one"
        if _is_read_back(chat, harmless):
            same = _is_read_back(chat, trial)
            text += ", and its text is as it was" if same else ", but its text is not as it was"
        found.append(Finding(trial.name, Verdict.PROVEN, text))
    if theirs != ours:
        text = f"the template alone would let them through.\n{difference(chat, ours, theirs)}"
        found.append(Finding(trial.name, Verdict.NOTE, text))
    return found


def _control_among(chat: TransformersChat, ids: Ids) -> list[int]:
    """The control tokens in a context; what any unknown word is read as is none of them."""
    unknown = chat.tokenizer.unk_token_id
    spoken = unknown in chat.tokenizer.encode(ASKED.content, add_special_tokens=False)
    return [i for i in ids if i in chat.spelling.control and not (spoken and i == unknown)]


def _is_read_back(chat: TransformersChat, trial: Trial) -> bool:
    """Whether the ids of a trial's opening decode to the template's text of it."""
    ids = list(walked(chat, trial, "full").contexts[0])
    text = chat.tokenizer.decode(ids, clean_up_tokenization_spaces=False)
    return text == chat.template.text(trial.opening, prompted=True)


def _odd_ids(chat: TransformersChat) -> Finding:
    """Ids that no tokenizer would write for their text, as a policy may well sample them."""
    name = "ids as they were sampled"
    end = chat.tokenizer.added_tokens_decoder[chat.end_of_turn].content
    spelled = [i for letter in f"search {end} Ada" for i in chat.said(letter)[:-1]]
    action = (*(i for i in spelled if i not in chat.stop_ids), chat.end_of_turn)
    for policy in ("full", "drop_thinking"):
        renderer = Renderer(chat, policy)
        history = renderer.open(PLAIN.opening)
        for _, messages in PLAIN.exchanges:
            history = renderer.answered(history, action, messages)
        context, words = renderer.context(history), action[:-1]
        kept = sum(
            context[i : i + len(words)] == words for i in range(len(context) - len(words) + 1)
        )
        if kept != len(PLAIN.exchanges):
            text = f"{policy}: of {len(PLAIN.exchanges)} answers of odd ids, {kept} were kept so"
            return Finding(name, Verdict.FAILED, text)
    return Finding(name, Verdict.PROVEN, "answers of odd ids stay as they are, id by id")


def _ends(chat: TransformersChat) -> Finding:
    name = "trained spans end in a stop id"
    rows = [row for trial in TRIALS for row in walked(chat, trial, "full").rows()]
    for row in rows:
        if row.action[-1] not in chat.stop_ids:
            return Finding(name, Verdict.FAILED, f"this one does not: {_read(chat, row.action)}")
    last = template_ids(chat, [*PLAIN.opening, PLAIN.exchanges[0][0]], prompted=False)
    wanted = (*rows[0].context, *rows[0].action)
    text = f"{len(rows)} of {len(rows)}"
    if last[: len(wanted)] != wanted:
        text += (
            ". The template shows a last answer otherwise than it would be sampled, which nothing "
            f"here relies on:\n{difference(chat, wanted, last)}"
        )
    return Finding(name, Verdict.PROVEN, text)


def _loss(chat: TransformersChat) -> Finding:
    name = "prompts and separators carry no loss"
    prompt = _prompt(chat)
    played = [(trial, walked(chat, trial, "full")) for trial in TRIALS]
    for trial, walk in played:
        rows = walk.rows()
        for turn, (row, (answer, _)) in enumerate(zip(rows, trial.exchanges, strict=True)):
            if row.action != chat.said(sampled(chat, answer)):
                text = f"{trial.name}: trained is {_read(chat, row.action)}, said was {answer!r}"
                return Finding(name, Verdict.FAILED, text)
            prompted = template_ids(chat, said_upto(trial, turn))[-len(prompt) :] == prompt
            if prompt and prompted and row.context[-len(prompt) :] != prompt:
                text = (
                    f"{trial.name}: {_read(chat, row.context[-len(prompt) :])} precedes an answer"
                )
                return Finding(name, Verdict.FAILED, text)
    first, second = played[0][1].contexts[:2]
    action = played[0][1].actions[0]
    behind = second[len(first) + len(action) :]
    text = (
        f"trained {_read(chat, action)}; not trained, before {_read(chat, prompt)}, "
        f"and behind {_read(chat, behind[:AROUND])}"
    )
    return Finding(name, Verdict.PROVEN, text)


def _prompt(chat: TransformersChat) -> Ids:
    """The generation prompt behind a user's message; some templates have none."""
    without, with_prompt = (template_ids(chat, [ASKED], prompted=p) for p in (False, True))
    return with_prompt[shared_length(without, with_prompt) :]


def _named(chat: TransformersChat, number: int) -> str:
    return f"{number} {_read(chat, (number,))}"


def _read(chat: TransformersChat, ids: Ids) -> str:
    text = chat.tokenizer.decode(list(ids), clean_up_tokenization_spaces=False)
    return repr(text)
