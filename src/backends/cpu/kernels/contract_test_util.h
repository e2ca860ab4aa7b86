// What the contraction's tests share: operands of random values, cases, and a fixture that restores the settings.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/contract.h"
#include "base/error.h"
#include "base/half.h"
#include "base/kernel_log.h"
#include "base/numerics.h"
#include "base/parallel.h"

namespace isotone::cpu {
using Bytes = std::vector<unsigned char>;

/// Values of mixed size; some subnormal or tiny, so that the flush mode shows.
inline Bytes random_values(DType dtype, std::int64_t count, unsigned seed, bool tiny = false) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0F, 1.0F);
  Bytes data(static_cast<std::size_t>(count) * unit_bytes(dtype));
  for (std::int64_t i = 0; i < count; ++i) {
    float x = normal(rng);
    if (tiny) {
      x *= std::ldexp(1.0F, -static_cast<int>(rng() % 130));
    }
    if (rng() % 64 == 0) {
      x = rng() % 2 == 0 ? 0.0F : -0.0F;
    }
    switch (dtype) {
      case DType::bf16: {
        const bf16 h(x);
        std::memcpy(&data[static_cast<std::size_t>(i) * 2], &h, 2);
        break;
      }
      case DType::f16: {
        const f16 h(x);
        std::memcpy(&data[static_cast<std::size_t>(i) * 2], &h, 2);
        break;
      }
      default:
        std::memcpy(&data[static_cast<std::size_t>(i) * 4], &x, 4);
    }
  }
  return data;
}

struct Case {
  std::int64_t batch, outer, m, n, k;
  bool a_k_contiguous = true;
  bool b_k_contiguous = true;
  bool tiny = false;
};

/// Runs `c` shaped operands of `dtype` through `run` and returns C's bytes (with guard elements between the rows).
template <class Run>
Bytes compute(const Case& s, DType dtype, DType c_dtype, const Run& run) {
  const Bytes a = random_values(dtype, s.batch * s.outer * s.m * s.k + 1, 1, s.tiny);
  const Bytes b = random_values(dtype, s.batch * s.outer * s.n * s.k + 1, 2, s.tiny);
  Contraction c;
  c.batch = s.batch;
  c.outer = s.outer;
  c.m = s.m;
  c.n = s.n;
  c.k = s.k;
  c.a = {a.data(), dtype, s.outer * s.m * s.k, s.m * s.k, s.a_k_contiguous ? s.k : 1, s.a_k_contiguous ? 1 : s.m};
  c.b = {b.data(), dtype, s.outer * s.n * s.k, s.n * s.k, s.b_k_contiguous ? s.k : 1, s.b_k_contiguous ? 1 : s.n};
  Bytes out(static_cast<std::size_t>(s.batch * s.m * (s.n + 3)) * unit_bytes(c_dtype), 0x5a);
  c.c = out.data();
  c.c_dtype = c_dtype;
  c.c_row_stride = s.n + 3;
  c.c_batch_stride = s.m * (s.n + 3);
  run(c);
  return out;
}

inline std::string describe(const Case& s, DType dtype, Isa isa) {
  return fmt::format("batch {} outer {} m {} n {} k {} ({}, {}) {} {}", s.batch, s.outer, s.m, s.n, s.k,
                     s.a_k_contiguous, s.b_k_contiguous, dtype_name(dtype), isa_name(isa));
}

class ContractTest : public ::testing::Test {
 protected:
  void SetUp() override { set_numerics_profile(NumericsProfile::pairdot_1); }
  void TearDown() override {
    set_numerics_profile(profile_);
    set_isa(before_);
    set_amx(amx_);
    set_thread_count(threads_);
    set_kernel_log(false);
  }
  Isa before_ = current_isa();
  bool amx_ = amx_in_use();
  NumericsProfile profile_ = numerics_profile();
  int threads_ = thread_count();
};

inline const Case kCases[] = {
    {1, 1, 1, 1, 1},
    {1, 1, 3, 5, 31},
    {1, 1, 7, 64, 32},
    {1, 1, 13, 65, 33},
    {1, 1, 12, 130, 255},
    {1, 1, 5, 70, 256},
    {1, 1, 25, 33, 257},
    {1, 1, 17, 96, 576},
    {1, 1, 4, 67, 1000},
    {1, 1, 9, 40, 1536},
    {1, 1, 2, 66, 4096},
    {1, 1, 1, 20, 18944},
    {1, 2, 6, 30, 257},
    {1, 3, 11, 65, 100},
    {1, 5, 14, 20, 33},
    {1, 6, 3, 64, 300},
    {1, 8, 8, 17, 64},
    {3, 1, 5, 20, 40},
    {9, 2, 4, 10, 31},
    {1, 1, 4, 9, 0},
    {1, 2, 13, 70, 257, false, true},
    {1, 3, 26, 65, 95, false, false},
    {1, 1, 19, 100, 300, true, false},
    {1, 1, 8, 64, 64, false, false},
    {2, 2, 30, 130, 513, false, false},
    {1, 1, 13, 70, 600, true, true, true},
    {1, 3, 7, 33, 301, false, true, true},
    {1, 1, 49, 64, 128},
    {1, 1, 14, 65, 4700},
    {1, 1, 100, 66, 9001},
    {1, 6, 60, 20, 1100, false, false},
    {1, 1, 200, 70, 100},
};

}  // namespace isotone::cpu
