#!/usr/bin/env bash
# Training and sampling on tries on one CUDA device, with random weights of a 1.5B configuration:
# nothing is downloaded. Under 8 minutes. The result is printed and, if $OUT is set, left there.
set -euo pipefail
cd "$(dirname "$0")/.."

python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || python=python3
if ! PYTHONPATH=src "$python" -c "import torch, transformers, safetensors" 2>/dev/null; then
	echo "gpu.sh: $python has no torch and transformers; set PYTHON, or run make setup" >&2
	exit 2
fi
PYTHONPATH=src:. timeout 480 "$python" -m benchmarks.gpu "$@" | tee "${OUT:-/tmp}/retrograde-gpu.json"
