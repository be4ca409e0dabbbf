#!/usr/bin/env bash
# Environments of their own for frameworks whose versions clash with ours and with each other: .exchange/NAME
set -euo pipefail
cd "$(dirname "$0")/.."
for name in verifiers harbor; do
    made=".exchange/$name"
    wanted="tests/exchange/requirements-$name.txt"
    if [ -f "$made/requirements.txt" ] && cmp -s "$made/requirements.txt" "$wanted"; then
        continue
    fi
    python=$(command -v "${PYTHON312:-python3.12}") || { echo "make test-exchange needs Python 3.12: set PYTHON312=/path/to/python3.12" >&2; exit 1; }
    rm -rf "$made"
    "$python" -m venv "$made"
    "$made/bin/python" -m pip install --quiet --requirement "$wanted"
    cp "$wanted" "$made/requirements.txt"
done
