"""The command `retrograde`: exit code 0 for done, 1 for failed, 2 for bad input.

SIGTERM ends it with 0 and Ctrl-C with 130, once what can be kept has been kept.
"""

import gc
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from retrograde.cli.quiet import quiet_libraries
from retrograde.cli.stopping import Stopped, Terminable, end_with_parent, leave_unheard
from retrograde.trainer.failure import RunError

COMMANDS = {
    "train": ("retrograde.cli.train", "train a model on an environment"),
    "evaluate": ("retrograde.cli.evaluate", "success of a checkpoint on held-out tasks"),
    "compare": ("retrograde.cli.compare", "compare algorithms at equal budget, over several seeds"),
    "report": ("retrograde.cli.report", "write runs as one page: curves, tasks, rollout trees"),
    "view": ("retrograde.cli.view", "serve that page while runs train"),
    "export": ("retrograde.cli.export", "stored rollouts as SFT or preference data"),
    "doctor": ("retrograde.cli.doctor", "examine this machine, a model, or an environment"),
    "list": ("retrograde.cli.listing", "algorithms, environments, models, rewards"),
    "completion": ("retrograde.cli.completion", "let bash, zsh or fish complete all this"),
}
BAD_INPUT, INTERRUPTED, UNREAD = 2, 130, 141
RESUMED = ("train", "compare")
"""Commands that go on where they were stopped."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    If nobody reads what it prints any more, it ends as other commands of a pipe do, quietly.
    """
    try:
        code = _code(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_unheard()
        return UNREAD
    return code


def _code(arguments: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return 0 if words else BAD_INPUT
    if words[0] == "--version":
        print(import_module("retrograde").__version__)
        return 0
    if words[0] not in COMMANDS:
        print(f"error: no command {words[0]!r}; known: {', '.join(COMMANDS)}", file=sys.stderr)
        return BAD_INPUT
    quiet_libraries()
    try:
        with Terminable():
            end_with_parent()
            return _done(words)
    except KeyboardInterrupt as stopped:
        said = str(stopped) if words[0] == "train" else ""  # a comparison's runs are its own affair
        print(said or _stopped(words[0]), file=sys.stderr)
        return stopped.code if isinstance(stopped, Stopped) else INTERRUPTED


def _stopped(command: str) -> str:
    resumed = command in RESUMED
    return "stopped" + (f"; `retrograde {command} --resume --out DIR` goes on" if resumed else "")


def _done(words: list[str]) -> int:
    try:
        run = _imported(COMMANDS[words[0]][0]).main(words[1:])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    try:
        return run()
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _imported(name: str) -> Any:
    """A module. What it imports stays, and is never looked through for garbage.

    Otherwise that is done again and again meanwhile, and takes a seventh of the time.
    """
    if gc.get_freeze_count() or not gc.isenabled():  # not the first command of this process
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        gc.freeze()
        gc.enable()


def _help() -> str:
    commands = "\n".join(f"  {name:10} {about}" for name, (_, about) in COMMANDS.items())
    return (
        "usage: retrograde COMMAND ...\n\n"
        "Reinforcement learning of multi-turn agents, from the last turn back.\n\n"
        f"{commands}\n\n"
        "`retrograde train` alone does the real job: it warm-starts a small language model\n"
        "and trains it by RTPO on a multi-turn task, in minutes, on a laptop.\n"
        "`retrograde COMMAND --help` says more."
    )


if __name__ == "__main__":
    sys.exit(main())
