#!/usr/bin/env bash
# test_aarch64.sh NATIVE_PROGRAM [BUILD]: builds core and kernels for 64-bit Arm, runs them under qemu, and compares every
# hash with those of the same program built for this machine. NEON and plain C++ kernels must both give this machine's bits.
set -euo pipefail
cd "$(dirname "$0")/.."
native=${1:?usage: tools/test_aarch64.sh NATIVE_PROGRAM [BUILD]}
build=${2:-build/aarch64}
for tool in aarch64-linux-gnu-g++ qemu-aarch64 ninja; do
  command -v "$tool" >/dev/null || { echo "test_aarch64: $tool is missing; make setup installs it" >&2; exit 1; }
done
cmake -S tools/aarch64 -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$build" -j2

"$native" >"$build/native.txt" 2>"$build/native.kernels"
failed=0
for isa in neon scalar; do
  ISOTONE_ISA=$isa qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/aarch64_bits" >"$build/$isa.txt" 2>"$build/$isa.kernels" ||
    { cat "$build/$isa.kernels" >&2; exit 1; }
  if ! diff "$build/native.txt" "$build/$isa.txt" >"$build/$isa.diff"; then
    echo "test_aarch64: $isa: $(grep -c '^>' "$build/$isa.diff" || true) of $(wc -l <"$build/native.txt") results differ from this machine's:" >&2
    grep '^>' "$build/$isa.diff" | head -40 >&2 || true
    failed=1
  fi
done
if ! grep -q '\.neon ' "$build/neon.kernels"; then
  echo "test_aarch64: no NEON kernel ran" >&2
  failed=1
fi
[ $failed -eq 0 ] && echo "$(wc -l <"$build/native.txt") results: NEON, plain C++ on Arm and this machine agree to the bit"
exit $failed
