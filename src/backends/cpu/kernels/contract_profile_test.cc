// The profile amx-1: tile units, their emulation on every instruction set and the executable contract give one set of
// bits, however rows, features and threads are cut.
#include "backends/cpu/kernels/contract_test_util.h"
#include "base/numerics.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

class ContractProfileTest : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    set_numerics_profile(NumericsProfile::amx_1);
  }
};

/// One way to run bf16 contractions here: an instruction set by emulation, or tile units.
struct Way {
  Isa isa;
  bool tiles;
  [[nodiscard]] std::string name() const { return tiles ? "amx" : std::string(isa_name(isa)); }
  void use() const {
    set_isa(isa);
    set_amx(tiles);
  }
};

std::vector<Way> ways() {
  std::vector<Way> all;
  for (const Isa isa : supported_isas()) {
    all.push_back({isa, false});
  }
  if (amx_supported()) {
    all.push_back({Isa::avx512, true});
  }
  return all;
}

/// Beside the common cases: heights around a tile's 16 and 32 rows, and rows that tile units load where they lie.
const Case kTileCases[] = {
    {1, 1, 16, 64, 64},
    {1, 1, 15, 65, 31},
    {1, 1, 17, 96, 33},
    {1, 1, 31, 32, 160},
    {1, 1, 32, 33, 576},
    {1, 1, 33, 70, 577},
    {1, 1, 47, 31, 288},
    {1, 1, 48, 128, 1024},
    {1, 1, 65, 40, 2048},
    {1, 2, 34, 66, 96},
    {1, 3, 50, 64, 320},
    {1, 5, 40, 20, 257, false, true},
    {1, 1, 300, 130, 544},
    {1, 2, 64, 70, 513, false, false},
    {3, 1, 33, 20, 64},
    {1, 1, 64, 64, 288, true, false},
    {1, 3, 36, 65, 300, true, true, true},
};

std::vector<Case> all_cases() {
  std::vector<Case> all(std::begin(kCases), std::end(kCases));
  all.insert(all.end(), std::begin(kTileCases), std::end(kTileCases));
  return all;
}

TEST_F(ContractProfileTest, EveryWayEqualsTheReference) {
  for (const Case& s : all_cases()) {
    for (const DType c_dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Bytes expected = compute(s, DType::bf16, c_dtype, contract_reference);
      for (const Way& way : ways()) {
        way.use();
        EXPECT_EQ(compute(s, DType::bf16, c_dtype, contract), expected)
            << describe(s, DType::bf16, way.isa) << " by " << way.name() << " into " << dtype_name(c_dtype);
      }
    }
  }
}

TEST_F(ContractProfileTest, PackedEqualsPlain) {
  for (const Case& s : all_cases()) {
    if (s.batch != 1 || s.outer != 1 || !s.a_k_contiguous) {
      continue;
    }
    const Bytes expected = compute(s, DType::bf16, DType::bf16, contract_reference);
    for (const Way& way : ways()) {
      const Bytes got = compute(s, DType::bf16, DType::bf16, [&](const Contraction& c) {
        const PackedWeight w = pack_weight(c.b, c.n, c.k);  // packed under one set, used under another
        way.use();
        contract_packed({c.m, c.a.data, DType::bf16, c.a.row_stride, c.a.k_stride, c.c, c.c_dtype, c.c_row_stride, 1},
                        w);
      });
      EXPECT_EQ(got, expected) << describe(s, DType::bf16, way.isa) << " by " << way.name();
    }
  }
}

/// Rows that begin on lines of 64 bytes are not packed; what lies behind a row must not be read into it.
TEST_F(ContractProfileTest, RowsOnLinesOfTheCache) {
  struct alignas(64) Line {
    std::uint16_t values[32];
  };
  for (const std::int64_t m : {1, 16, 29, 70}) {
    for (const std::int64_t k : {32, 64, 480, 512}) {
      const std::int64_t stride = k + 32;
      const std::int64_t outer = 2;
      const std::int64_t n = 70;
      std::vector<Line> a(static_cast<std::size_t>(outer * m * stride / 32));
      const Bytes values = random_values(DType::bf16, outer * m * stride, 11);
      std::memcpy(a.data(), values.data(), values.size());
      for (std::int64_t row = 0; row < outer * m; ++row) {
        for (std::int64_t i = k; i < stride; ++i) {
          const std::int64_t at = row * stride + i;
          a[static_cast<std::size_t>(at / 32)].values[at % 32] = 0x7fc0;  // not a number
        }
      }
      const Bytes b = random_values(DType::bf16, outer * n * k, 12);
      std::vector<float> expected(static_cast<std::size_t>(m * n));
      std::vector<float> got(expected.size());
      Contraction c;
      c.outer = outer;
      c.m = m;
      c.n = n;
      c.k = k;
      c.a = {a.data(), DType::bf16, 0, m * stride, stride, 1};
      c.b = {b.data(), DType::bf16, 0, n * k, k, 1};
      c.c_row_stride = n;
      c.c = expected.data();
      contract_reference(c);
      for (const Way& way : ways()) {
        way.use();
        c.c = got.data();
        contract(c);
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * 4), 0) << m << " " << k << " " << way.name();
      }
    }
  }
}

TEST_F(ContractProfileTest, StridesBroadcastsAndScatteredResults) {
  const Bytes a = random_values(DType::bf16, 40 * 301 * 3, 7);
  const Bytes b = random_values(DType::bf16, 40 * 301 * 5, 8);
  for (const Way& way : ways()) {
    way.use();
    Contraction c;
    c.batch = 2;
    c.m = 20;
    c.n = 31;
    c.k = 301;
    c.a = {a.data(), DType::bf16, 0, 0, 3, 60};  // shared over the batch
    c.b = {b.data(), DType::bf16, 7, 0, 0, 2};   // one row for all columns
    std::vector<float> expected(2 * 20 * 31 * 2, -1.0F);
    std::vector<float> got = expected;
    c.c_batch_stride = 20 * 31 * 2;
    c.c_row_stride = 2;
    c.c_column_stride = 40;
    c.c = expected.data();
    contract_reference(c);
    c.c = got.data();
    contract(c);
    EXPECT_EQ(got, expected) << way.name();
  }
}

/// Any bits at all: infinities, not-a-numbers, subnormals, products that overflow or vanish.
TEST_F(ContractProfileTest, AnyBits) {
  std::mt19937 rng(5);
  for (const int kind : {0, 1, 2}) {
    const std::int64_t m = 37;
    const std::int64_t n = 70;
    const std::int64_t k = 321;
    const auto fill = [&](std::int64_t count) {
      std::vector<std::uint16_t> x(static_cast<std::size_t>(count));
      for (std::uint16_t& bits : x) {
        const unsigned exponent = kind == 0 ? rng() % 256 : kind == 1 ? 55 + rng() % 16 : 180 + rng() % 20;
        const bool special = kind == 0 && rng() % 16 != 0;  // else nearly every sum is not a number
        bits = static_cast<std::uint16_t>((rng() % 2) << 15 | (special ? 100 + rng() % 50 : exponent) << 7 |
                                          (rng() % 128));
      }
      return x;
    };
    const std::vector<std::uint16_t> a = fill(m * k);
    const std::vector<std::uint16_t> b = fill(n * k);
    std::vector<float> expected(static_cast<std::size_t>(m * n));
    std::vector<float> got(expected.size());
    Contraction c;
    c.m = m;
    c.n = n;
    c.k = k;
    c.a = {a.data(), DType::bf16, 0, 0, k, 1};
    c.b = {b.data(), DType::bf16, 0, 0, k, 1};
    c.c_row_stride = n;
    c.c = expected.data();
    contract_reference(c);
    for (const Way& way : ways()) {
      way.use();
      c.c = got.data();
      contract(c);
      EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * 4), 0) << kind << " " << way.name();
    }
  }
}

TEST_F(ContractProfileTest, LanesOverTheBatch) {
  for (const std::int64_t k : {1, 33, 257, 600}) {
    for (const std::int64_t batch : {2, 63, 577}) {
      const std::int64_t outer = 3;
      const Bytes a = random_values(DType::bf16, outer * k * batch, 3, true);
      const Bytes b = random_values(DType::bf16, outer * k * batch, 4, true);
      std::vector<float> expected(static_cast<std::size_t>(batch));
      std::vector<float> got(expected.size());
      Contraction c;
      c.batch = batch;
      c.outer = outer;
      c.m = 1;
      c.n = 1;
      c.k = k;
      c.a = {a.data(), DType::bf16, 1, k * batch, 0, batch};
      c.b = {b.data(), DType::bf16, 1, k * batch, 0, batch};
      c.c_batch_stride = 1;
      c.c = expected.data();
      contract_reference(c);
      for (const Way& way : ways()) {
        way.use();
        c.c = got.data();
        contract(c);
        EXPECT_EQ(std::memcmp(got.data(), expected.data(), got.size() * 4), 0)
            << k << " " << batch << " " << way.name();
      }
    }
  }
}

/// Every thread of the pool has to have the tiles; results of a row are those of the row alone.
TEST_F(ContractProfileTest, ThreadsAndRowsDoNotShow) {
  const Case s{1, 1, 330, 300, 257};
  for (const Way& way : ways()) {
    way.use();
    set_thread_count(1);
    const Bytes one = compute(s, DType::bf16, DType::f32, contract);
    for (const int threads : {2, 3, 5}) {
      set_thread_count(threads);
      EXPECT_EQ(compute(s, DType::bf16, DType::f32, contract), one) << threads << " " << way.name();
    }
    for (std::int64_t cut = 1; cut < s.m; cut += 41) {
      const Bytes parts = compute(s, DType::bf16, DType::f32, [&](Contraction c) {
        Contraction second = c;
        c.m = cut;
        contract(c);
        second.m = s.m - cut;
        second.a.data = static_cast<const char*>(second.a.data) + cut * c.a.row_stride * 2;
        second.c = static_cast<char*>(second.c) + cut * c.c_row_stride * 4;
        contract(second);
      });
      EXPECT_EQ(parts, one) << cut << " " << way.name();
    }
  }
}

/// Partial sums of [begin, begin+n), cut at nodes of the tree until at most `target` long, joined left plus right.
std::vector<float> sharded(const Contraction& c, std::int64_t begin, std::int64_t n, std::int64_t target) {
  if (n <= target || n <= kLeaf) {
    Contraction part = c;
    std::vector<float> out(static_cast<std::size_t>(c.m * c.n));
    part.k = n;
    part.a.data = static_cast<const char*>(c.a.data) + begin * c.a.k_stride * 2;
    part.b.data = static_cast<const char*>(c.b.data) + begin * c.b.k_stride * 2;
    part.c = out.data();
    part.c_row_stride = c.n;
    contract(part);
    return out;
  }
  const std::int64_t left = axis_cut(n);
  std::vector<float> l = sharded(c, begin, left, target);
  const std::vector<float> r = sharded(c, begin + left, n - left, target);
  for (std::size_t i = 0; i < l.size(); ++i) {
    l[i] += r[i];
  }
  return l;
}

TEST_F(ContractProfileTest, FeaturesCutAtNodesGiveTheWhole) {
  for (const Way& way : ways()) {
    way.use();
    for (const std::int64_t k : {1536, 1000, 4096}) {
      for (const std::int64_t parts : {2, 3, 4, 8}) {
        const Case s{1, 1, 37, 40, k};
        compute(s, DType::bf16, DType::f32, [&](Contraction c) {
          std::vector<float> whole(static_cast<std::size_t>(s.m * s.n));
          c.c = whole.data();
          c.c_row_stride = s.n;
          contract(c);
          const std::vector<float> joined = sharded(c, 0, k, (k + parts - 1) / parts + 31);
          EXPECT_EQ(std::memcmp(joined.data(), whole.data(), whole.size() * 4), 0)
              << k << " over " << parts << " by " << way.name();
        });
      }
    }
  }
}

TEST_F(ContractProfileTest, NamesInTheKernelLog) {
  set_kernel_log(true);
  for (const Way& way : ways()) {
    way.use();
    compute({1, 1, 3, 5, 31}, DType::bf16, DType::f32, contract);
    EXPECT_EQ(kernel_calls("contract.bf16." + way.name()), 1) << way.name();
    compute({1, 1, 3, 5, 31}, DType::f32, DType::f32, contract);
    EXPECT_EQ(kernel_calls(fmt::format("contract.f32.{}", isa_name(way.isa))), way.tiles ? 2 : 1) << way.name();
  }
}

/// f32 and f16 are common to the profiles; bf16 is not, or there would be nothing to choose.
TEST_F(ContractProfileTest, OnlyBf16Differs) {
  const Case s{1, 2, 20, 70, 600};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    set_numerics_profile(NumericsProfile::amx_1);
    const Bytes amx = compute(s, dtype, DType::f32, contract);
    set_numerics_profile(NumericsProfile::pairdot_1);
    const Bytes pairdot = compute(s, dtype, DType::f32, contract);
    EXPECT_EQ(amx == pairdot, dtype != DType::bf16) << dtype_name(dtype);
  }
}

}  // namespace
}  // namespace isotone::cpu
