#!/usr/bin/env bash
# Prepare a fresh machine: virtual environment, packages, and (on Debian/Ubuntu, as root) a browser with fonts and a C++
# compiler.
# Safe to run again; does only what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }

"$PYTHON" - <<'PY' || { echo "Python 3.11 or newer is needed (set PYTHON=...)" >&2; exit 2; }
import sys
sys.exit(sys.version_info < (3, 11))
PY

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo -n "$@"; else return 1; fi; }

have_browser() {
  [ -n "${HOLOTRON_CHROMIUM:-}" ] || [ -x /usr/lib/chromium/chromium-headless-shell ] ||
    command -v chromium google-chrome chromium-browser >/dev/null 2>&1 ||
    ls "$HOME"/.cache/ms-playwright/chromium* "$HOME"/Library/Caches/ms-playwright/chromium* \
      "/Applications/Google Chrome.app" >/dev/null 2>&1
}

apt_packages=()
"$PYTHON" -c 'import venv, ensurepip' 2>/dev/null || apt_packages+=(python3-venv)
have_browser || apt_packages+=(chromium-headless-shell)
command -v "${CXX:-g++}" >/dev/null || apt_packages+=(g++) # for the native CPU kernels; without it the ones in torch run
if command -v dpkg >/dev/null; then
  for font in fonts-dejavu-core fonts-liberation fonts-noto-color-emoji; do
    dpkg -s "$font" >/dev/null 2>&1 || apt_packages+=("$font")
  done
fi
if [ ${#apt_packages[@]} -gt 0 ] && command -v apt-get >/dev/null; then
  say "Installing Debian packages: ${apt_packages[*]}"
  { as_root apt-get update -qq && as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
      --no-install-recommends "${apt_packages[@]}" >/dev/null; } ||
    say "Could not install them (need root). Browser commands will say what is missing; without g++ a CPU is slower."
fi

if [ ! -x "$VENV/bin/python" ]; then
  say "Creating the virtual environment $VENV"
  "$PYTHON" -m venv "$VENV"
fi
# torch first and exactly: an open range may pull several gigabytes of CUDA packages onto a machine without a GPU.
if ! "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
  say "Installing PyTorch"
  "$VENV/bin/python" -m pip install -q torch==2.13.0
fi
say "Installing holotron and its tools"
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT
"$VENV/bin/python" -c 'import importlib.metadata as m; print("torch==" + m.version("torch").split("+")[0])' >"$constraints"
"$VENV/bin/python" -m pip install -q -c "$constraints" -e '.[dev]'
