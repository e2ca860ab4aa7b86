#!/usr/bin/env bash
# Sets up what the benches compare with, in .cache/ only: PyTorch in a venv of its own, llama.cpp built from the source
# inside the llama-cpp-python sdist, and the model files they read. Does nothing where all is there already.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=.cache
venv=$cache/venv-bench
say() { echo "peers: $*"; }

if [ ! -e "$venv/.ready" ]; then
  say "installing PyTorch and transformers (4 to 6 GB, once)"
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  # The x86 wheel of torch does not import without the CUDA libraries it depends on, so the full set is installed.
  "$venv/bin/pip" install -q --disable-pip-version-check numpy safetensors gguf torch transformers
  "$venv/bin/python" -c 'import torch, transformers, gguf'
  touch "$venv/.ready"
fi

llama=$cache/peer-src/llama_cpp_python/vendor/llama.cpp
if [ ! -d "$llama" ]; then
  say "fetching llama.cpp (the llama-cpp-python sdist)"
  mkdir -p "$cache/peer-src"
  "$venv/bin/pip" download -q --disable-pip-version-check --no-deps --no-binary llama-cpp-python -d "$cache/peer-src" llama-cpp-python
  rm -rf "$cache/peer-src/unpack" && mkdir "$cache/peer-src/unpack"
  tar xzf "$cache"/peer-src/llama_cpp_python-*.tar.gz -C "$cache/peer-src/unpack"
  mv "$cache"/peer-src/unpack/llama_cpp_python-* "$cache/peer-src/llama_cpp_python"
  rmdir "$cache/peer-src/unpack"
fi

# GCC 12's _tile_loadconfig names only 8 of its 64 bytes as input, so the stores to the rest are dropped and llama.cpp
# dies at the first AMX tile. A compiler barrier keeps them; without it the peer could not run on such machines.
mmq=$llama/ggml/src/ggml-cpu/amx/mmq.cpp
if ! grep -q 'keep the tile' "$mmq"; then
  sed -i 's|^    _tile_loadconfig(&tc);|    __asm__ volatile("" : : "r"(\&tc) : "memory");  // keep the tile configuration\n&|' "$mmq"
fi

build=$cache/peer-llama
if [ ! -e "$build/src/libllama.a" ] || [ "$build/ggml/src/libggml-cpu.a" -ot "$mmq" ]; then
  say "building llama.cpp for this processor (2 jobs, some minutes, once)"
  cmake -S "$llama" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON \
    -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
    -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF >"$cache/peer-llama.log" 2>&1
  cmake --build "$build" --target llama -j2 >>"$cache/peer-llama.log" 2>&1 || { tail -20 "$cache/peer-llama.log"; exit 1; }
fi

worker=$build/llama_worker
if [ "$worker" -ot bench/peers/llama_worker.cc ] || [ "$worker" -ot "$build/ggml/src/libggml-cpu.a" ]; then
  g++ -std=c++20 -O2 -I"$llama/include" -I"$llama/ggml/include" bench/peers/llama_worker.cc -o "$worker" \
    "$build/src/libllama.a" "$build/ggml/src/libggml.a" "$build/ggml/src/libggml-cpu.a" "$build/ggml/src/libggml-base.a" \
    -fopenmp -lpthread -ldl
fi

if [ -e $cache/models/smollm2-135m-instruct.gguf ]; then
  "$venv/bin/python" bench/make_peer_models.py
else
  say "no model in $cache/models yet (make setup brings it): peers that need it are left out"
fi
