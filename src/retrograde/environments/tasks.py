"""Tasks that are numbered: `train-0`, `test-5`."""

import re

from retrograde.environments.protocol import Split

_TASK = re.compile(r"(train|test)-(0|[1-9][0-9]*)")


def numbered_task(split: Split, index: int) -> str:
    """The name of a task.

    Raises:
        ValueError: the index is negative.
    """
    if index < 0:
        raise ValueError(f"index: got {index}, needed 0 or more")
    return f"{split}-{index}"


def parts_of_task(task: str, environment: str) -> tuple[str, str]:
    """Split and index of a task's name, as words.

    Raises:
        ValueError: the environment has no such task.
    """
    named = _TASK.fullmatch(task)
    if named is None:
        raise ValueError(
            f"{environment} has no task {task!r}; a task is train-N or test-N, N from 0"
        )
    split, index = named.groups()
    return split, index
