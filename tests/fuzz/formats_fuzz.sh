#!/usr/bin/env bash
# Builds the readers of src/formats with clang's libFuzzer and the address and undefined sanitizers, and runs them from
# the golden files for FUZZ_SECONDS (default 20). Skipped, with a word, where clang or its libFuzzer is missing.
# Not among ctest's programs, because compiling takes minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
for compiler in clang++-22 clang++-19 clang++-16 clang++-14 clang++; do
  clang=$(command -v "$compiler") && break
done
if [ -z "${clang:-}" ]; then
  echo "skipped: no clang++ here"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' > "$work/probe.cc"
if ! "$clang" -fsanitize=fuzzer "$work/probe.cc" -o "$work/probe" 2> /dev/null; then
  echo "skipped: $clang has no libFuzzer here"
  exit 0
fi
sources=$(ls src/formats/*.cc src/base/file.cc src/base/hash.cc src/base/dtype.cc | grep -v _test.cc)
# shellcheck disable=SC2086
"$clang" -std=c++20 -O1 -g -march=x86-64-v3 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Isrc \
  tests/fuzz/formats_fuzz.cc $sources -lfmt -lcrypto -o "$work/fuzz"
mkdir "$work/corpus"
printf '\0' | cat - tests/goldens/quant.gguf > "$work/corpus/gguf"
python3 - "$work/corpus" << 'PYTHON'
import json, struct, sys
header = json.dumps({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
                     "b": {"dtype": "BF16", "shape": [], "data_offsets": [8, 10]}}).encode()
open(sys.argv[1] + "/safetensors", "wb").write(b"\1" + struct.pack("<Q", len(header)) + header + bytes(10))
config = {"architectures": ["LlamaForCausalLM"], "vocab_size": 4, "hidden_size": 8, "intermediate_size": 16,
          "num_hidden_layers": 1, "num_attention_heads": 2, "rope_parameters": {"rope_theta": 1e4}, "eos_token_id": [1]}
open(sys.argv[1] + "/config", "wb").write(b"\2" + json.dumps(config).encode())
PYTHON
"$work/fuzz" -max_total_time="${FUZZ_SECONDS:-20}" -rss_limit_mb=2048 -malloc_limit_mb=1024 -timeout=10 -max_len=8192 \
  -artifact_prefix="$work/" -print_final_stats=1 "$work/corpus" 2>&1 | grep -vE '^#|^"|NEW|REDUCE' | tail -20
exit "${PIPESTATUS[0]}"
