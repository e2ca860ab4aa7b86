#!/usr/bin/env bash
# venv.sh NAME PACKAGES...: a virtual environment .cache/venv-NAME that holds these packages. Does nothing when the
# packages asked for are those of the last time; installs anew when they differ.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: tools/venv.sh NAME PACKAGES..." >&2; exit 2; }
cd "$(dirname "$0")/.."
name=$1
shift
folder=.cache/venv-$name
wanted=$(printf '%s\n' "$@")
[ -x "$folder/bin/python" ] && [ "$(cat "$folder/packages.txt" 2>/dev/null || true)" = "$wanted" ] && exit 0

echo "setup: $folder: $*"
mkdir -p .cache
[ -x "$folder/bin/python" ] || python3 -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --upgrade-strategy only-if-needed "$@"
printf '%s\n' "$wanted" >"$folder/packages.txt"
