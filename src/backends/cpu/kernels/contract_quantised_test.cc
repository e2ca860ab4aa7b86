// Quantised weights against section 9 of docs/numerics.md, bit for bit, on every instruction set of this machine.
#include "backends/cpu/kernels/contract_test_util.h"

namespace isotone::cpu {
namespace {

using QuantisedTest = ContractTest;

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

TEST_F(QuantisedTest, QuantisedEqualsTheReference) {
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

TEST_F(QuantisedTest, QuantisedInfinityShows) {
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

}  // namespace
}  // namespace isotone::cpu
