"""What a run says at its end, and of its model at its beginning."""

import sys

from rich.console import Console
from rich.table import Table

from retrograde.backends.loaded import LoadedModel
from retrograde.cli.panel import Panel
from retrograde.cli.settings import Settings
from retrograde.trainer.checkpoint import checkpoints
from retrograde.trainer.lines import read_lines
from retrograde.trainer.symptoms import MOST, complaint


def rewritten(loaded: LoadedModel) -> str:
    """What to say of a template that shows earlier turns otherwise than they were said."""
    return (
        f"note: the chat template {' and '.join(loaded.chat.rewriting)}. This run's context "
        "policy, full, shows everything as it was said; --environment.context drop_thinking shows "
        "what the template would. `retrograde doctor --model M` shows the difference."
    )


def summary(settings: Settings, panel: Panel) -> None:
    """Print what came of a run, and what could be done next."""
    lines = read_lines(settings.out / "metrics.jsonl")
    final = checkpoints(settings.out / "checkpoints")[-1]
    evaluated = [line for line in lines if "eval/success" in line]
    if not evaluated:  # they were lost, which has been said
        print(f"checkpoint: {final}")
        return
    first, last = evaluated[0], evaluated[-1]
    table = Table(title=panel.title, title_justify="left")
    table.add_column("held-out success")
    table.add_column("start", justify="right")
    table.add_column("end", justify="right")
    for name, key in (("temperature 1", "eval/success"), ("greedy", "eval/success_greedy")):
        table.add_row(name, f"{first[key]:.3f}", f"{last[key]:.3f}")
    console = Console(file=sys.stdout)
    console.print(table)
    if last["step"] > 0 and last["policy_version"] == 0:
        console.print(
            f"nothing was learned: in {last['step']} iterations no update had the signal it needs "
            f"(min_signal={settings.algorithm.update.min_signal} answers with an advantage other "
            "than 0); try more --prompts, an easier task, or a lower --algorithm.min-signal",
            soft_wrap=True,
        )
    if last.get("completions/clipped_ratio", 0.0) > MOST:
        console.print(complaint(last["completions/clipped_ratio"]), soft_wrap=True)
    following = (
        f"\nnext: retrograde report {settings.out}"
        f"\nnext: retrograde evaluate {final} --environment {settings.environment_name}"
    )
    console.print(
        f"{last['env/steps']:.0f} turns and {last['tokens/generated']:.0f} tokens generated "
        f"in {last['wall_seconds']:.0f} s\n"
        f"checkpoint: {final}{following if settings.arguments else ''}",
        soft_wrap=True,
        highlight=False,
    )
