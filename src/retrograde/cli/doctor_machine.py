"""`retrograde doctor`: whether this machine and this installation are fit to train on."""

import asyncio
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from pathlib import Path

import torch
from platformdirs import user_cache_path

from retrograde.backends.chat import TransformersChat
from retrograde.backends.embedded import embedded_tokenizer, new_model
from retrograde.backends.learner import TransformersLearner
from retrograde.backends.sampler import TransformersPolicy
from retrograde.data.report import Finding, Report, Verdict
from retrograde.data.rows import Row
from retrograde.environments.extras import command
from retrograde.policies.protocol import Sampling
from retrograde.schedules.update import Update
from retrograde.trainer.parity import logp_difference

GIGABYTE = 1e9
LITTLE_MEMORY, TOO_LITTLE_MEMORY = 2 * GIGABYTE, 0.5 * GIGABYTE
LITTLE_DISK, TOO_LITTLE_DISK = 5 * GIGABYTE, 0.5 * GIGABYTE
PYTHONS = ((3, 11), (3, 14))
"""The first that will do, and the first that will not."""
MOST_DIFFERENCE = 1e-4
"""Nats between sampling and learning that float32 explains."""
FOR_DEVELOPERS = ("dev", "docs")
REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?$")


def check() -> Callable[[], Report]:
    """The examination; nothing has to be read for it."""
    return examined


def examined() -> Report:
    """Look at everything a run needs of its surroundings."""
    facts = {
        "retrograde": version("retrograde"),
        "platform": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
    runs, cache = Path("runs").absolute(), user_cache_path("retrograde")
    findings = (
        python_finding(sys.version_info[:3]),
        packages_finding(requires("retrograde") or []),
        device_finding(),
        memory_finding(available_memory()),
        disk_finding("runs", free_space(runs), runs),
        disk_finding("cache", free_space(cache), cache),
        write_finding("write runs", runs, "run in another directory, or give --out DIR"),
        write_finding("write cache", cache, "set XDG_CACHE_HOME to a directory you may write in"),
        extras_finding(),
        parity_finding(difference()),
    )
    return Report("this machine", facts, findings)


def python_finding(running: tuple[int, ...]) -> Finding:
    """Whether this Python will do."""
    said = ".".join(map(str, running))
    if PYTHONS[0] <= running[:2] < PYTHONS[1]:
        return Finding("python", Verdict.PROVEN, said)
    text = f"{said}; 3.11, 3.12 or 3.13 is needed\nremedy: python3.12 -m venv .venv"
    return Finding("python", Verdict.FAILED, text)


def packages_finding(wanted: list[str]) -> Finding:
    """Whether what the package depends on is there, and new enough."""
    wrong = [said for line in wanted if "extra ==" not in line for said in _lacking(line)]
    if not wrong:
        return Finding("packages", Verdict.PROVEN, "all that is needed, new enough")
    return Finding("packages", Verdict.FAILED, "\n".join(wrong))


def device_finding() -> Finding:
    """What there is to compute on."""
    lines = [f"{os.cpu_count()} CPU cores, torch uses {torch.get_num_threads()}"]
    verdict = Verdict.PROVEN
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            entry = torch.cuda.get_device_properties(number)
            free, _ = torch.cuda.mem_get_info(number)
            lines.append(
                f"cuda:{number} {entry.name}, {free / GIGABYTE:.1f} of "
                f"{entry.total_memory / GIGABYTE:.1f} GB free"
            )
    elif torch.version.cuda is not None:
        verdict = Verdict.NOTE
        lines.append(f"torch is built for CUDA {torch.version.cuda} and sees no such device")
        lines.append("remedy: see whether `nvidia-smi` names it; without, the CPU is used")
    if torch.backends.mps.is_available():
        lines.append("an Apple GPU, which is not used")
    return Finding("devices", verdict, "\n".join(lines))


def memory_finding(available: float | None) -> Finding:
    """Whether there is memory left."""
    if available is None:
        return Finding("memory", Verdict.NOTE, "this system does not say how much is free")
    text = f"{available / GIGABYTE:.1f} GB available"
    remedy = "\nremedy: close something, a smaller --max-tokens-per-microbatch, or --prompts"
    if available < TOO_LITTLE_MEMORY:
        return Finding("memory", Verdict.FAILED, text + remedy)
    if available < LITTLE_MEMORY:
        return Finding("memory", Verdict.NOTE, text + remedy)
    return Finding("memory", Verdict.PROVEN, text)


def available_memory() -> float | None:
    """Bytes that can be taken without swapping; None where the system does not say."""
    known = Path("/proc/meminfo")
    if known.exists():
        found = re.search(r"^MemAvailable:\s+(\d+) kB", known.read_text(), re.MULTILINE)
        return float(found[1]) * 1024 if found else None
    return None


def disk_finding(name: str, free: float, folder: Path) -> Finding:
    """Whether there is room for what is kept."""
    text = f"{free / GIGABYTE:.1f} GB free for {folder}"
    remedy = "\nremedy: free some, fewer --keep-checkpoints, or another --out or XDG_CACHE_HOME"
    if free < TOO_LITTLE_DISK:
        return Finding(f"disk {name}", Verdict.FAILED, text + remedy)
    if free < LITTLE_DISK:
        return Finding(f"disk {name}", Verdict.NOTE, text + remedy)
    return Finding(f"disk {name}", Verdict.PROVEN, text)


def free_space(folder: Path) -> float:
    """Bytes that can still be written where a folder is or would be."""
    return float(shutil.disk_usage(_nearest(folder)).free)


def write_finding(name: str, folder: Path, remedy: str) -> Finding:
    """Whether a folder can be written, or made; nothing is left behind."""
    nearest = _nearest(folder)
    try:
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"0")
    except OSError as cause:
        return Finding(name, Verdict.FAILED, f"{nearest}: {cause.strerror}\nremedy: {remedy}")
    return Finding(name, Verdict.PROVEN, str(folder))


def extras_finding() -> Finding:
    """Which optional packages are there, and what installs the others."""
    there: list[str] = []
    lacking: list[str] = []
    wanted = requires("retrograde") or []
    names = metadata("retrograde").get_all("Provides-Extra") or []
    for name in sorted(set(names) - set(FOR_DEVELOPERS)):
        lines = [line for line in wanted if re.search(rf"extra == ['\"]{name}['\"]", line)]
        missing = any(said for line in lines for said in _lacking(line))
        (lacking if missing else there).append(name)
    text = f"there: {', '.join(there) or 'none'}"
    if not lacking:
        return Finding("extras", Verdict.PROVEN, text)
    text += "".join(f"\nnot there: {name}   {command(name)}" for name in lacking)
    return Finding("extras", Verdict.NOTE, text)


def parity_finding(gap: float) -> Finding:
    """Whether sampling and learning agree on this machine."""
    text = f"sampling and learning differ by at most {gap:.1e} nats on the embedded model"
    if gap <= MOST_DIFFERENCE:
        return Finding("log-probabilities", Verdict.PROVEN, text)
    remedy = (
        f"\n{MOST_DIFFERENCE:g} would be explained by rounding; training here would be wrong\n"
        "remedy: another torch (`pip install --force-reinstall torch`), and please report it"
    )
    return Finding("log-probabilities", Verdict.FAILED, text + remedy)


def difference() -> float:
    """Largest |log pi - log mu| in nats, of answers of the embedded model with fresh weights."""
    chat = TransformersChat(embedded_tokenizer())
    model = new_model(len(chat.tokenizer), seed=0)
    policy = TransformersPolicy(model, chat.stop_ids)
    contexts = [tuple(range(5, 5 + length)) for length in (3, 40, 17, 40)]
    answers = asyncio.run(policy.sample(contexts, Sampling(1.0, 12), seed=0))
    rows = [
        Row(context, answer.ids, answer.logprobs, 1.0, 0, i, (0, i, 0, 0))
        for i, (context, answer) in enumerate(zip(contexts, answers, strict=True))
    ]
    learner = TransformersLearner(model, Update(learning_rate=1e-3), pad=chat.end_of_turn)
    return logp_difference(rows, learner.score(rows))["sampling/logp_difference/max"]


def _lacking(line: str) -> Iterator[str]:
    """What is wrong with an installed requirement, if anything is."""
    found = REQUIREMENT.match(line)
    if found is None:
        return
    name, bounds = found[1], found[2]
    least = re.search(r">=\s*([\d.]+)", bounds)
    try:
        have = version(name)
    except PackageNotFoundError:
        yield f"{name} is not installed\nremedy: pip install '{name}{bounds}'"
        return
    if least and _numbers(have) < _numbers(least[1]):
        yield f"{name} {have}; {least[1]} or later is needed\nremedy: pip install '{name}{bounds}'"


def _numbers(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _nearest(folder: Path) -> Path:
    """The folder, or the one it would be made in."""
    return next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
