"""Groups to JSON and back, losslessly: floats are written so that they read back the same."""

import json
from dataclasses import fields
from typing import Any

from retrograde.data.message import Message
from retrograde.data.rows import Row
from retrograde.data.tree import End, Group, Tree, Turn

FORMAT = 2
MESSAGE = tuple(entry.name for entry in fields(Message))


def group_to_json(group: Group) -> str:
    """One line of JSON."""
    return json.dumps(record_of_group(group), ensure_ascii=False)


def record_of_group(group: Group) -> dict[str, Any]:
    """A group as plain JSON data; more may be put beside its entries, and is not read back."""
    trees = [[_turn_to_dict(turn) for turn in tree.turns] for tree in group.trees]
    return {"format": FORMAT, "task": group.task, "trees": trees}


def group_from_json(line: str) -> Group:
    """Read what `group_to_json` wrote.

    Raises:
        ValueError: it is of another format, or breaks an invariant of trees.
    """
    return group_of_record(json.loads(line))


def group_of_record(record: dict[str, Any]) -> Group:
    """Read what `record_of_group` gave.

    Raises:
        ValueError: it is of another format, or breaks an invariant of trees.
    """
    if record.get("format") != FORMAT:
        raise ValueError(f"format {FORMAT} of stored groups is read, got {record.get('format')!r}")
    trees = tuple(Tree(tuple(_turn_of(turn) for turn in turns)) for turns in record["trees"])
    return Group(record["task"], trees)


def _turn_to_dict(turn: Turn) -> dict[str, Any]:
    record: dict[str, Any] = {
        "parent": turn.parent,
        "shared": turn.shared,
        "fresh": turn.fresh,
        "observation": turn.observation,
        "action": turn.action,
        "logprobs": turn.logprobs,
        "grown_in": turn.grown_in,
        "policy_version": turn.policy_version,
        "reward": turn.reward,
        "end": turn.end,
        "merged_into": turn.merged_into,
        "score": turn.score,
        "entropies": turn.entropies,
    }
    if turn.observation == turn.fresh:
        record["observation"] = None
    if turn.heard:
        record["heard"] = [_message_to_dict(message) for message in turn.heard]
    return record


def _message_to_dict(message: Message) -> dict[str, Any]:
    plain = {name: getattr(message, name) for name in MESSAGE}
    return {name: value for name, value in plain.items() if value or name in ("role", "content")}


def _message_of(record: dict[str, Any]) -> Message:
    return Message(
        record["role"],
        record["content"],
        lasting=record.get("lasting", False),
        tools=tuple(record.get("tools", ())),
        name=record.get("name"),
    )


def _turn_of(record: dict[str, Any]) -> Turn:
    fresh = tuple(record["fresh"])
    observation = record["observation"]
    return Turn(
        parent=record["parent"],
        shared=record["shared"],
        fresh=fresh,
        observation=fresh if observation is None else tuple(observation),
        action=tuple(record["action"]),
        logprobs=tuple(record["logprobs"]),
        grown_in=record["grown_in"],
        policy_version=record["policy_version"],
        reward=record["reward"],
        end=None if record["end"] is None else End(record["end"]),
        merged_into=record["merged_into"],
        score=record["score"],
        entropies=tuple(record["entropies"]),
        heard=tuple(_message_of(message) for message in record.get("heard", ())),
    )


def row_to_list(row: Row) -> list[Any]:
    """A row as plain JSON data."""
    ids = [list(row.context), list(row.action), list(row.behaviour_logp)]
    place = [row.turn, row.group, list(row.rollout)]
    critic = [list(row.target), list(row.values)]
    return [*ids, row.advantage, *place, row.clip_scale, list(row.entropies), *critic]


def row_from_list(record: list[Any]) -> Row:
    """Read what `row_to_list` gave."""
    context, action, logp, advantage, turn, group, rollout, clip_scale, *rest = record
    entropies, target, values = rest
    each: list[float] | float = advantage
    version, of_group, tree, leaf = rollout
    return Row(
        tuple(context),
        tuple(action),
        tuple(logp),
        tuple(each) if isinstance(each, list) else each,
        turn,
        group,
        (version, of_group, tree, leaf),
        clip_scale,
        tuple(target),
        tuple(entropies),
        tuple(values),
    )
