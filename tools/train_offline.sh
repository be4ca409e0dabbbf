#!/usr/bin/env bash
# Train a recipe on a GPU machine that has no network, from what lies in carry/, and leave the result in parts.
#
#   tools/train_offline.sh RESULTS SECONDS RECIPE.toml [CHANGES...]        e.g. ... 560 recipes/holotron-mini-2/1-screens.toml
#
# carry/wheels   packages that the machine lacks (pip download --python-version 3.12 --only-binary=:all: pydantic typer ...)
# carry/fonts    fonts to paint with, if it has none
# carry/data     what a recipe looks for in data/ (stored pages); packed runs anywhere, CHANGES say where
#
# Run again on the same machine, it resumes. After SECONDS training is stopped wherever it is; results come back all the
# same: RESULTS/round.tar.aa, .ab ... (cat them together) hold the model, its curves and the log.
set -uo pipefail
cd "$(dirname "$0")/.."
results=$1 seconds=$2 recipe=$3 python=${PYTHON:-python3}
shift 3
mkdir -p "$results" runs

library=${TMPDIR:-/tmp}/holotron-library
if [ ! -e "$library/.complete" ]; then
  mkdir -p "$library"
  for wheel in carry/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$library" || exit 1; done
  touch "$library/.complete"
fi
if [ -d carry/data ]; then mkdir -p data && for part in carry/data/*; do ln -sfn "../$part" data/; done; fi
if [ -d carry/fonts ]; then mkdir -p ~/.local/share/fonts && cp -n carry/fonts/* ~/.local/share/fonts/; fi

export PYTHONPATH=src:$library OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1
name=$("$python" -m holotron train sft "$recipe" "$@" --dry-run | "$python" -c 'import json, sys; print(json.load(sys.stdin)["name"])') || exit 1
timeout -k 5 "$seconds" "$python" -m holotron train sft "$recipe" "$@" 2>&1 | tee -a "runs/$name.log"
status=${PIPESTATUS[0]}
if [ -e "runs/$name/model/model.safetensors" ]; then
  (cd runs && tar cf - "$name/model" "$name/metrics.jsonl" "$name/recipe.json" "$name.log") | split -b 15m - "$results/round.tar."
else
  cp "runs/$name.log" "$results/"
fi
ls -l "$results"
exit "$status"
