#!/usr/bin/env bash
# The store of tools/offline_round.py for a GPU machine with Python 3.12 and torch but no network: browser, Python packages
# and fonts as archives, each in pieces small enough for one call.
#
#   tools/pack_store.sh STORE [PIECE_MB]           here, after make setup; 33 MB a piece unless told
#   holotron export runs/demos STORE/demos/1.zip   then whatever else the plan names as {store}/...
set -euo pipefail
cd "$(dirname "$0")/.."
store=${1:?usage: tools/pack_store.sh STORE [PIECE_MB]} piece=${2:-33} python=${PYTHON:-python3}
mkdir -p "$store"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

pack() { # NAME FOLDER MEMBER...
    local name=$1 from=$2
    shift 2
    tar -C "$from" -c "$@" | xz -4 -T2 | split -b "${piece}m" - "$store/$name.tar.xz."
}

wheels=(pydantic typer rich jinja2 safetensors pillow tokenizers llguidance playwright greenlet pyee miniwob pyarrow)
platforms=(--platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64)
platforms+=(--platform manylinux2014_x86_64 --platform manylinux_2_17_x86_64)
with=(--quiet --disable-pip-version-check --python-version 3.12 --only-binary=:all: "${platforms[@]}" -d "$scratch/wheels")
"$python" -m pip download "${with[@]}" "${wheels[@]:0:6}"
"$python" -m pip download "${with[@]}" --no-deps "${wheels[@]:6}" # what else these ask for is not used here
for wheel in "$scratch"/wheels/*.whl; do "$python" -m zipfile -e "$wheel" "$scratch/library"; done
chmod +x "$scratch/library/playwright/driver/node" # unzipping forgets it
rm -rf "$scratch"/library/pyarrow/{include,src,tests,libarrow_flight*,_flight*} # not used
pack library "$scratch" library

tools/pack_browser.sh "$scratch/browser" > /dev/null
pack browser "$scratch" browser
mkdir "$scratch/fonts"
cp -rL /usr/share/fonts/truetype/* "$scratch/fonts"
pack fonts "$scratch" fonts
ls -l "$store"
