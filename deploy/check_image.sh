#!/usr/bin/env bash
# Builds the cpu image without Docker and without a registry, starts it, and asks it something.
#
#   deploy/check_image.sh                                     root, on Debian: apt-get install buildah curl debootstrap
#   deploy/check_image.sh --volume /etc/pip.conf:/etc/pip.conf:ro --build-arg TORCH_INDEX=https://...
#
# The base is Debian as debootstrap makes it, the steps are the Dockerfile's own. Whatever is said here goes to
# `buildah build`. Takes ten minutes and 3 GB in $WORK (default: a temporary folder, removed at the end).
set -euo pipefail
cd "$(dirname "$0")/.."
[ -n "${WORK:-}" ] || { WORK=$(mktemp -d /var/tmp/holotron-image.XXXXXX) && ours=1; }
export BUILDAH_ISOLATION=chroot
buildah=(buildah --root "$WORK/storage" --runroot "$WORK/run")
started=
end() {
  if [ -n "$started" ]; then
    kill "$started" 2>/dev/null && wait "$started" || true
  fi
  ! mountpoint -q "$WORK/storage/overlay" || umount --recursive "$WORK/storage/overlay"  # containers' roots are in it
  [ -z "${ours:-}" ] || rm -rf --one-file-system "$WORK"
}
trap end EXIT
[ -d "$WORK/base" ] || debootstrap --variant=minbase bookworm "$WORK/base" >"$WORK/debootstrap.log"

base=$("${buildah[@]}" from scratch)
"${buildah[@]}" copy -q "$base" "$WORK/base" / >/dev/null
"${buildah[@]}" commit -q "$base" localhost/debian:bookworm-slim >/dev/null
"${buildah[@]}" rm "$base" >/dev/null
"${buildah[@]}" build --pull-never --format docker --layers=false -f deploy/Dockerfile --target cpu \
  --build-arg BASE=localhost/debian:bookworm-slim -t localhost/holotron:cpu "$@" .

server=$("${buildah[@]}" from --pull-never localhost/holotron:cpu)
"${buildah[@]}" inspect --format 'user {{.Docker.Config.User}}, entrypoint {{.Docker.Config.Entrypoint}}, command {{.Docker.Config.Cmd}}' "$server"
"${buildah[@]}" run "$server" -- holotron serve --host 127.0.0.1 --port 18473 --sessions 4 2>"$WORK/server.log" &
started=$!
for _ in $(seq 240); do
  curl -sf http://127.0.0.1:18473/health/ready >/dev/null && break
  kill -0 "$started" || { cat "$WORK/server.log" >&2; exit 1; }
  sleep 0.5
done
curl -sf http://127.0.0.1:18473/v1/chat/completions -H 'content-type: application/json' \
  -d '{"messages": [{"role": "user", "content": "Click OK."}], "max_tokens": 8}'
echo
"${buildah[@]}" run "$server" -- id
du -sh "$("${buildah[@]}" mount "$server")/opt/holotron" | cut -f1
