// Contraction kernels against the executable contract, bit for bit: every instruction set of this machine, dtypes,
// lengths around leaves and cuts, strides, threads, and rows or features cut as workers cut them.
#include "backends/cpu/kernels/contract.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/half.h"
#include "base/kernel_log.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

using Bytes = std::vector<unsigned char>;

/// Values of mixed size; some subnormal or tiny, so that the flush mode shows.
Bytes random_values(DType dtype, std::int64_t count, unsigned seed, bool tiny = false) {
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

std::string describe(const Case& s, DType dtype, Isa isa) {
  return fmt::format("batch {} outer {} m {} n {} k {} ({}, {}) {} {}", s.batch, s.outer, s.m, s.n, s.k,
                     s.a_k_contiguous, s.b_k_contiguous, dtype_name(dtype), isa_name(isa));
}

class ContractTest : public ::testing::Test {
 protected:
  void TearDown() override {
    set_isa(before_);
    set_thread_count(threads_);
    set_kernel_log(false);
  }
  Isa before_ = current_isa();
  int threads_ = thread_count();
};

const Case kCases[] = {
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

TEST_F(ContractTest, EveryInstructionSetEqualsTheReference) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Case& s : kCases) {
      for (const DType c_dtype : {DType::f32, DType::bf16, DType::f16}) {
        const Bytes expected = compute(s, dtype, c_dtype, contract_reference);
        for (const Isa isa : supported_isas()) {
          set_isa(isa);
          EXPECT_EQ(compute(s, dtype, c_dtype, contract), expected)
              << describe(s, dtype, isa) << " into " << dtype_name(c_dtype);
        }
      }
    }
  }
}

/// The same bits on every kind of processor: values made from integers alone, a hash of the results written down.
TEST_F(ContractTest, BitsAreTheSameOnEveryProcessor) {
  const std::uint64_t expected[] = {7614368092265756884ULL, 6182651918455867447ULL, 2837607054613531202ULL};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const std::int64_t m = 13;
    const std::int64_t n = 70;
    const std::int64_t k = 1001;
    std::uint32_t x = 1;
    const auto fill = [&](std::int64_t count) {
      Bytes data(static_cast<std::size_t>(count) * unit_bytes(dtype));
      for (std::int64_t i = 0; i < count; ++i) {
        x = x * 1664525U + 1013904223U;
        const float value = (static_cast<float>(x >> 8) - 8388608.0F) / 4194304.0F;
        if (dtype == DType::f32) {
          std::memcpy(&data[static_cast<std::size_t>(i) * 4], &value, 4);
        } else {
          const std::uint16_t bits = dtype == DType::bf16 ? bf16(value).bits : f16(value).bits;
          std::memcpy(&data[static_cast<std::size_t>(i) * 2], &bits, 2);
        }
      }
      return data;
    };
    const Bytes a = fill(2 * m * k);
    const Bytes b = fill(2 * n * k);
    std::vector<float> out(static_cast<std::size_t>(m * n));
    Contraction c;
    c.outer = 2;
    c.m = m;
    c.n = n;
    c.k = k;
    c.a = {a.data(), dtype, 0, m * k, k, 1};
    c.b = {b.data(), dtype, 0, n * k, k, 1};
    c.c = out.data();
    c.c_row_stride = n;
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      contract(c);
      std::uint64_t hash = 0xcbf29ce484222325ULL;
      for (const float value : out) {
        hash = (hash ^ std::bit_cast<std::uint32_t>(value)) * 0x100000001b3ULL;
      }
      EXPECT_EQ(hash, expected[static_cast<int>(dtype)]) << dtype_name(dtype) << " " << isa_name(isa);
    }
  }
}

TEST_F(ContractTest, ProductionKernelsRan) {
  set_kernel_log(true);
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      compute({1, 1, 3, 5, 31}, dtype, DType::f32, contract);
      EXPECT_EQ(kernel_calls(fmt::format("contract.{}.{}", dtype_name(dtype), isa_name(isa))), 1);
    }
  }
}

TEST_F(ContractTest, LanesOverTheBatch) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t k : {1, 33, 257, 600}) {
      for (const std::int64_t batch : {2, 63, 64, 577}) {
        const std::int64_t outer = 3;
        const Bytes a = random_values(dtype, outer * k * batch, 3, true);
        const Bytes b = random_values(dtype, outer * k * batch, 4, true);
        std::vector<float> expected(static_cast<std::size_t>(batch));
        std::vector<float> got(expected.size());
        Contraction c;
        c.batch = batch;
        c.outer = outer;
        c.m = 1;
        c.n = 1;
        c.k = k;
        c.a = {a.data(), dtype, 1, k * batch, 0, batch};
        c.b = {b.data(), dtype, 1, k * batch, 0, batch};
        c.c_batch_stride = 1;
        c.c = expected.data();
        contract_reference(c);
        set_kernel_log(true);
        for (const Isa isa : supported_isas()) {
          set_isa(isa);
          c.c = got.data();
          contract(c);
          EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * 4), 0)
              << k << " " << batch << " " << dtype_name(dtype) << " " << isa_name(isa);
          EXPECT_EQ(kernel_calls(fmt::format("contract_lanes.{}.{}", dtype_name(dtype), isa_name(isa))), 1);
        }
      }
    }
  }
}

TEST_F(ContractTest, ThreadsDoNotShow) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Case s{2, 3, 200, 300, 257};
    set_thread_count(1);
    const Bytes one = compute(s, dtype, DType::f32, contract);
    for (const int threads : {2, 3, 5}) {
      set_thread_count(threads);
      EXPECT_EQ(compute(s, dtype, DType::f32, contract), one) << threads;
    }
  }
}

TEST_F(ContractTest, RowsCutAnywhereAreTheSame) {
  const Case s{1, 1, 40, 70, 600};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Bytes whole = compute(s, dtype, DType::f32, contract);
    for (std::int64_t cut = 1; cut < s.m; cut += 3) {
      const Bytes parts = compute(s, dtype, DType::f32, [&](Contraction c) {
        const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(dtype));
        Contraction second = c;
        c.m = cut;
        contract(c);
        second.m = s.m - cut;
        second.a.data = static_cast<const char*>(second.a.data) + cut * c.a.row_stride * unit;
        second.c = static_cast<char*>(second.c) + cut * c.c_row_stride * 4;
        contract(second);
      });
      EXPECT_EQ(parts, whole) << cut;
    }
  }
}

/// Sums [begin, begin+n) by handing each part to a "rank" once it is at most `target` long, joining by the tree.
std::vector<float> sharded(const Contraction& c, std::int64_t begin, std::int64_t n, std::int64_t target, int& ranks) {
  if (n <= target || n <= kLeaf) {
    ++ranks;
    Contraction part = c;
    const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(c.a.dtype));
    std::vector<float> out(static_cast<std::size_t>(c.m * c.n));
    part.k = n;
    part.a.data = static_cast<const char*>(c.a.data) + begin * c.a.k_stride * unit;
    part.b.data = static_cast<const char*>(c.b.data) + begin * c.b.k_stride * unit;
    part.c = out.data();
    part.c_row_stride = c.n;
    contract(part);
    return out;
  }
  const std::int64_t left = axis_cut(n);
  std::vector<float> l = sharded(c, begin, left, target, ranks);
  const std::vector<float> r = sharded(c, begin + left, n - left, target, ranks);
  for (std::size_t i = 0; i < l.size(); ++i) {
    l[i] += r[i];
  }
  return l;
}

TEST_F(ContractTest, FeaturesCutAtNodesGiveTheWhole) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const std::int64_t k : {1536, 1000, 4096}) {
      const Case s{1, 1, 5, 40, k};
      for (const std::int64_t parts : {2, 3, 4, 8}) {  // three ranks: one owns two of four nodes
        compute(s, dtype, DType::f32, [&](Contraction c) {
          std::vector<float> whole(static_cast<std::size_t>(s.m * s.n));
          c.c = whole.data();
          c.c_row_stride = s.n;
          contract(c);
          int ranks = 0;
          const std::vector<float> joined = sharded(c, 0, k, (k + parts - 1) / parts + 31, ranks);
          EXPECT_GE(ranks, 2);
          EXPECT_EQ(std::memcmp(joined.data(), whole.data(), whole.size() * 4), 0) << k << " over " << parts;
        });
      }
    }
  }
}

TEST_F(ContractTest, ABrokenTreeIsSeen) {
  const Case s{1, 1, 4, 64, 1536};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    compute(s, dtype, DType::f32, [&](Contraction c) {
      std::vector<float> whole(static_cast<std::size_t>(s.m * s.n));
      c.c = whole.data();
      c.c_row_stride = s.n;
      contract(c);
      std::vector<float> fold(whole.size());  // the same leaves, added from the left
      std::vector<float> part(whole.size());
      const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(dtype));
      for (std::int64_t k = 0; k < s.k; k += 192) {
        Contraction leaf = c;
        leaf.k = 192;
        leaf.a.data = static_cast<const char*>(c.a.data) + k * unit;
        leaf.b.data = static_cast<const char*>(c.b.data) + k * unit;
        leaf.c = part.data();
        contract(leaf);
        for (std::size_t i = 0; i < fold.size(); ++i) {
          fold[i] += part[i];
        }
      }
      EXPECT_NE(std::memcmp(fold.data(), whole.data(), whole.size() * 4), 0);
    });
  }
}

TEST_F(ContractTest, StridesBroadcastsAndScatteredResults) {
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Bytes a = random_values(dtype, 40 * 301 * 3, 7);
      const Bytes b = random_values(dtype, 40 * 301 * 5, 8);
      Contraction c;
      c.batch = 2;
      c.m = 20;
      c.n = 31;
      c.k = 301;
      c.a = {a.data(), dtype, 0, 0, 3, 60};  // shared over the batch
      c.b = {b.data(), dtype, 7, 0, 0, 2};   // one row for all columns
      std::vector<float> expected(2 * 20 * 31 * 2, -1.0F);
      std::vector<float> got = expected;
      c.c_batch_stride = 20 * 31 * 2;
      c.c_row_stride = 2;
      c.c_column_stride = 40;
      c.c = expected.data();
      contract_reference(c);
      c.c = got.data();
      contract(c);
      EXPECT_EQ(got, expected) << isa_name(isa) << " " << dtype_name(dtype);
    }
  }
}

TEST_F(ContractTest, NotANumberHasOnePattern) {
  std::vector<float> a(40, 1.0F);
  std::vector<float> b(40 * 70, 1.0F);
  a[3] = std::bit_cast<float>(0xffc12345U);
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    std::vector<std::uint32_t> out(70);
    Contraction c;
    c.m = 1;
    c.n = 70;
    c.k = 40;
    c.a = {a.data(), DType::f32, 0, 0, 40, 1};
    c.b = {b.data(), DType::f32, 0, 0, 40, 1};
    c.c = out.data();
    c.c_row_stride = 70;
    contract(c);
    for (const std::uint32_t bits : out) {
      EXPECT_EQ(bits, 0x7fc00000U) << isa_name(isa);
    }
  }
}

TEST_F(ContractTest, PackedEqualsPlain) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const Case& s : kCases) {
      if (s.batch != 1 || s.outer != 1 || !s.a_k_contiguous) {
        continue;
      }
      const Bytes expected = compute(s, dtype, DType::bf16, contract_reference);
      for (const Isa isa : supported_isas()) {
        const Bytes got = compute(s, dtype, DType::bf16, [&](const Contraction& c) {
          const PackedWeight w = pack_weight(c.b, c.n, c.k);  // packed under one set, used under another
          set_isa(isa);
          contract_packed({c.m, c.a.data, dtype, c.a.row_stride, c.a.k_stride, c.c, c.c_dtype, c.c_row_stride, 1}, w);
        });
        EXPECT_EQ(got, expected) << describe(s, dtype, isa);
      }
    }
  }
}

Bytes random_blocks(DType dtype, std::int64_t blocks, unsigned seed) {
  std::mt19937 rng(seed);
  Bytes data(static_cast<std::size_t>(blocks) * unit_bytes(dtype));
  for (unsigned char& byte : data) {
    byte = static_cast<unsigned char>(rng());
  }
  for (std::int64_t i = 0; i < blocks; ++i) {
    unsigned char* block = &data[static_cast<std::size_t>(i) * unit_bytes(dtype)];
    const f16 d(0.01F * static_cast<float>(1 + rng() % 9));
    const f16 m(-0.03F * static_cast<float>(rng() % 9));
    std::memcpy(block, &d, 2);
    if (dtype == DType::q4_1) {
      std::memcpy(block + 2, &m, 2);
    }
    if (dtype == DType::q8_0 && i % 5 == 0) {  // the largest sums: -128 throughout
      std::memset(block + 2, 0x80, 32);
    }
  }
  return data;
}

TEST_F(ContractTest, QuantisedEqualsTheReference) {
  set_kernel_log(true);
  for (const DType dtype : {DType::q8_0, DType::q4_1, DType::q4_0}) {
    for (const DType a_dtype : {DType::f32, DType::bf16}) {
      for (const std::int64_t k : {32, 64, 256, 288, 576, 1536, 4096}) {
        for (const std::int64_t m : {1, 2, 5, 8, 19}) {
          const std::int64_t n = k == 4096 ? 20 : 70;
          const Bytes weight = random_blocks(dtype, n * k / 32, static_cast<unsigned>(k));
          Bytes a = random_values(a_dtype, m * k, static_cast<unsigned>(m));
          std::memset(a.data(), 0, 32 * unit_bytes(a_dtype));  // a block of zeros
          if (a_dtype == DType::f32) {
            auto* x = reinterpret_cast<float*>(a.data());
            x[(m - 1) * k] = 1e-44F;  // subnormal
            for (std::int64_t i = 0; i < 32; ++i) {
              x[(m - 1) * k + k - 32 + i] = i % 2 == 0 ? 3.0F : (i % 4 == 1 ? -3.0F : 0.5F * 3.0F / 127.0F);
            }
          }
          std::vector<float> expected(static_cast<std::size_t>(m * n));
          std::vector<float> got(expected.size());
          PackedContraction c{m, a.data(), a_dtype, k, 1, expected.data(), DType::f32, n, 1};
          quantised_reference(c, weight.data(), dtype, n, k);
          c.c = got.data();
          const PackedWeight w = pack_weight({weight.data(), dtype, 0, 0, k, 1}, n, k);
          for (const Isa isa : supported_isas()) {
            set_isa(isa);
            contract_packed(c, w);
            EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * 4), 0)
                << dtype_name(dtype) << " k " << k << " m " << m << " " << isa_name(isa);
          }
        }
      }
    }
    for (const Isa isa : supported_isas()) {
      EXPECT_EQ(kernel_calls(fmt::format("contract_packed.{}.{}", dtype_name(dtype), isa_name(isa))), 2 * 7 * 5);
    }
  }
}

TEST_F(ContractTest, QuantisedInfinityShows) {
  const Bytes weight = random_blocks(DType::q8_0, 2 * 3, 9);
  std::vector<float> a(64, 1.0F);
  a[40] = INFINITY;
  std::vector<float> expected(3);
  std::vector<float> got(3);
  PackedContraction c{1, a.data(), DType::f32, 64, 1, expected.data(), DType::f32, 3, 1};
  quantised_reference(c, weight.data(), DType::q8_0, 3, 64);
  const PackedWeight w = pack_weight({weight.data(), DType::q8_0, 0, 0, 64, 1}, 3, 64);
  c.c = got.data();
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    contract_packed(c, w);
    EXPECT_EQ(std::memcmp(got.data(), expected.data(), 12), 0) << isa_name(isa);
    EXPECT_TRUE(std::isnan(got[0]));
  }
}

TEST_F(ContractTest, WrongRequestsAreRefused) {
  float x[64] = {};
  Contraction c;
  c.m = c.n = c.k = 1;
  c.a = {x, DType::f32, 0, 0, 1, 1};
  c.b = {x, DType::bf16, 0, 0, 1, 1};
  c.c = x;
  EXPECT_THROW(contract(c), Error);
  c.b.dtype = c.a.dtype = DType::i32;
  EXPECT_THROW(contract(c), Error);
  c.b.dtype = c.a.dtype = DType::f32;
  c.outer = 0;
  EXPECT_THROW(contract(c), Error);
  EXPECT_THROW(pack_weight({x, DType::q8_0, 0, 0, 33, 1}, 1, 33), Error);
  EXPECT_THROW(contract_packed({}, PackedWeight{}), Error);
}

}  // namespace
}  // namespace isotone::cpu
