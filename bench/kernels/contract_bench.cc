// Speed of the contraction kernels: GFLOP/s by shape and dtype, GB/s of packed weights at one row, and what the tree
// costs against the same kernel with one long chain. Usage: contract_bench [filter]. Best of several runs.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/contract.h"
#include "backends/cpu/kernels/contract_table.h"
#include "base/numerics.h"
#include "base/parallel.h"
#include "base/tree.h"

using namespace isotone;
using namespace isotone::cpu;

namespace {

std::string filter;
bool json = false;  // of tree_cost alone

/// Seconds so far: of this thread's own processor time where one thread works (other programs then disturb less).
double now() {
  timespec t{};
  clock_gettime(thread_count() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

double best_seconds(const std::function<void()>& run) {
  run();
  double best = 1e9;
  double total = 0;
  for (int i = 0; i < 500 && (i < 3 || total < 0.15); ++i) {
    const double start = now();
    run();
    const double seconds = now() - start;
    best = std::min(best, seconds);
    total += seconds;
  }
  return best;
}

struct Buffer {
  std::vector<std::uint16_t> data;
  explicit Buffer(std::size_t bytes) : data(bytes / 2 + 32) {
    std::uint32_t x = 12345;
    for (std::uint16_t& h : data) {  // bits that are small numbers in every format
      x = x * 1664525U + 1013904223U;
      h = static_cast<std::uint16_t>(0x3c00U + (x >> 24) + ((x >> 16) & 0x8000U));
    }
  }
};

bool skipped(const std::string& name) {
  return !filter.empty() && name.find(filter) == std::string::npos;
}

std::string profile() {
  return numerics_profile() == NumericsProfile::pairdot_1
             ? ""
             : " " + std::string(numerics_profile_name(numerics_profile()));
}

void plain(const char* label, std::int64_t m, std::int64_t n, std::int64_t k, DType dtype, DType c_dtype, bool a_k,
           bool b_k, std::int64_t outer = 1) {
  const std::string name = std::string("plain ") + label + " " + std::string(dtype_name(dtype)) + profile();
  if (skipped(name)) {
    return;
  }
  const std::size_t unit = unit_bytes(dtype);
  const Buffer a(static_cast<std::size_t>(outer * m * k) * unit);
  const Buffer b(static_cast<std::size_t>(outer * n * k) * unit);
  std::vector<float> c(static_cast<std::size_t>(m * n));
  Contraction x;
  x.outer = outer;
  x.m = m;
  x.n = n;
  x.k = k;
  x.a = {a.data.data(), dtype, 0, m * k, a_k ? k : 1, a_k ? 1 : m};
  x.b = {b.data.data(), dtype, 0, n * k, b_k ? k : 1, b_k ? 1 : n};
  x.c = c.data();
  x.c_dtype = c_dtype;
  x.c_row_stride = n;
  const double s = best_seconds([&] { contract(x); });
  std::printf("%-34s %6ld x %6ld x %6ld x %ld  %8.1f GFLOP/s  %9.1f us\n", name.c_str(), m, n, k, outer,
              2e-9 * static_cast<double>(outer * m * n * k) / s, s * 1e6);
}

void packed(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype) {
  const std::string name = "packed " + std::string(dtype_name(dtype)) + profile();
  if (skipped(name)) {
    return;
  }
  const DType a_dtype = is_quantised(dtype) ? DType::bf16 : dtype;
  const Buffer a(static_cast<std::size_t>(m * k) * unit_bytes(a_dtype));
  const Buffer b(storage_bytes(dtype, n * k));
  const PackedWeight w = pack_weight({b.data.data(), dtype, 0, 0, k, 1}, n, k);
  std::vector<float> c(static_cast<std::size_t>(m * n));
  const PackedContraction x{m, a.data.data(), a_dtype, k, 1, c.data(), a_dtype, n, 1};
  const double s = best_seconds([&] { contract_packed(x, w); });
  std::printf("%-34s %6ld x %6ld x %6ld      %8.1f GFLOP/s  %9.1f us  %6.1f GB/s\n", name.c_str(), m, n, k,
              2e-9 * static_cast<double>(m * n * k) / s, s * 1e6, 1e-9 * static_cast<double>(w.bytes()) / s);
}

/// One thread, one tile, the tree's steps against one chain over all of k.
void tree_cost(DType dtype, std::int64_t k, bool tile_units = false) {
#if defined(__x86_64__)
  if (skipped("tree") || !isa_supported(Isa::avx512)) {
    return;
  }
  const FlushSubnormals flush;
  const KernelTable& t = tile_units ? kernels_amx() : kernels_avx512();
  const std::int64_t rows = tile_units ? t.max_rows_blocks : t.max_rows;
  const TileFunction tile = (tile_units ? t.bf16_blocks : dtype == DType::f32 ? t.f32 : t.bf16)[rows - 1];
  const std::string kind = std::string(dtype_name(dtype)) + (tile_units ? " amx-1" : "");
  const Buffer a(static_cast<std::size_t>(rows * k * 4));
  const Buffer b(static_cast<std::size_t>(64 * k * 4));
  std::vector<float> c(static_cast<std::size_t>(rows * 64));
  std::vector<LeafStep> tree;
  axis_tree(
      0, k,
      [&](std::int64_t begin, std::int64_t n) {
        tree.push_back({0, begin, n, 0});
        return 0;
      },
      [&](int, int) {
        ++tree.back().merges;
        return 0;
      });
  const std::vector<LeafStep> chain = {{0, 0, k, 0}};
  const auto time = [&](const std::vector<LeafStep>& steps) {
    TileArgs args{
        a.data.data(), 0,  0, b.data.data(), 0, steps.data(), static_cast<std::int64_t>(steps.size()), rows, 64,
        c.data(),      64, 1, CFormat::f32};
    return best_seconds([&] {
      for (int i = 0; i < 50; ++i) {
        tile(args);
      }
    });
  };
  double with = 1e9;
  double without = 1e9;
  for (int i = 0; i < 3; ++i) {  // interleaved
    with = std::min(with, time(tree));
    without = std::min(without, time(chain));
  }
  const double flops = 2e-9 * 50 * static_cast<double>(rows * 64 * k);
  if (json) {
    std::printf("{\"dtype\": \"%s\", \"k\": %ld, \"tree_gflops\": %.1f, \"chain_gflops\": %.1f}\n", kind.c_str(), k,
                flops / with, flops / without);
    return;
  }
  std::printf("tree %-10s k %6ld, one thread, cached: %7.1f GFLOP/s; one chain %7.1f; the tree costs %.1f %%\n",
              kind.c_str(), k, flops / with, flops / without, (with / without - 1) * 100);
#else
  (void)dtype, (void)k, (void)tile_units;
#endif
}

/// What the profile amx-1 is for; names carry it.
void bf16_profile_rows() {
  for (const auto& [m, n, k] : std::vector<std::array<std::int64_t, 3>>{
           {504, 576, 576}, {504, 1536, 576}, {504, 576, 1536}, {504, 49152, 576}, {2048, 2048, 2048}}) {
    packed(m, n, k, DType::bf16);
    plain("forward", m, n, k, DType::bf16, DType::bf16, true, true);
  }
  plain("dX", 504, 576, 1536, DType::bf16, DType::bf16, true, false);
  plain("dW", 1536, 576, 504, DType::bf16, DType::f32, false, false, 4);
  for (const std::int64_t m : {1, 4, 16}) {
    packed(m, 49152, 576, DType::bf16);
    packed(m, 4096, 14336, DType::bf16);
  }
}

}  // namespace

int main(int argc, char** argv) {
  filter = argc > 1 ? argv[1] : "";
  json = argc > 2 && std::string_view(argv[2]) == "--json";
  if (!json) {
    std::printf("isa %s, %d threads\n", std::string(isa_name(current_isa())).c_str(), thread_count());
  }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t k : {576, 1536, 4096}) {
      tree_cost(dtype, k);
    }
  }
  for (const std::int64_t k : {576, 1536, 4096}) {
    if (amx_supported()) {
      tree_cost(DType::bf16, k, true);
    }
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    plain("forward", 512, 576, 576, dtype, dtype, true, true);
    plain("forward", 512, 1536, 576, dtype, dtype, true, true);
    plain("forward", 512, 576, 1536, dtype, dtype, true, true);
    plain("forward", 512, 49152, 576, dtype, dtype, true, true);
    plain("forward", 2048, 2048, 2048, dtype, dtype, true, true);
    plain("dX", 512, 576, 1536, dtype, dtype, true, false);
    plain("dX", 512, 576, 49152, dtype, dtype, true, false);
    plain("dW", 1536, 576, 512, dtype, DType::f32, false, false);
    plain("dW", 1536, 576, 512, dtype, DType::f32, false, false, 4);
    plain("dW", 49152, 576, 512, dtype, DType::f32, false, false);
  }
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::q8_0, DType::q4_1, DType::q4_0}) {
    packed(512, 576, 576, dtype);
    packed(512, 1536, 576, dtype);
    packed(512, 576, 1536, dtype);
    packed(512, 49152, 576, dtype);
    packed(2048, 2048, 2048, dtype);
    for (const std::int64_t m : {1, 2, 4, 8}) {
      packed(m, 49152, 576, dtype);
    }
    packed(1, 1536, 576, dtype);
    packed(1, 576, 1536, dtype);
    packed(1, 4096, 14336, dtype);
  }
  if (json) {
    return 0;
  }
  // The same under the profile amx-1, on tile units where the processor has them.
  set_numerics_profile(NumericsProfile::amx_1);
  std::printf("profile amx-1, %s\n", amx_in_use() ? "tile units" : "by emulation");
  bf16_profile_rows();
  return 0;
}
