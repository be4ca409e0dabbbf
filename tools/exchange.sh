#!/usr/bin/env bash
# Environments of their own for frameworks whose versions clash with ours and with each other: .exchange/NAME, from locks
set -euo pipefail
cd "$(dirname "$0")/.."
for name in verifiers harbor; do
    made=".exchange/$name"
    lock="tests/exchange/$name.txt"
    if [ -f "$made/lock.txt" ] && cmp -s "$made/lock.txt" "$lock"; then
        continue
    fi
    python=${PYTHON312:-python3.12}
    if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 12))' 2>/dev/null; then  # a name alone may be a shim
        echo "make test-exchange needs Python 3.12: set PYTHON312=/path/to/python3.12" >&2
        exit 1
    fi
    rm -rf "$made"
    "$python" -m venv "$made"
    "$made/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --requirement "$lock"
    cp "$lock" "$made/lock.txt"
done
