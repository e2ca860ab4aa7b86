// Contraction kernels against the executable contract, bit for bit: every instruction set of this machine, dtypes,
// lengths around leaves and cuts, strides, threads, and rows or features cut as workers cut them.
#include "backends/cpu/kernels/contract_test_util.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

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
