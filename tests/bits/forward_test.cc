// A whole model: the CPU backend gives the interpreter's bits, and serving gives training's, however the tokens are
// cut.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/device.h"
#include "backends/cpu/isa.h"
#include "base/kernel_log.h"
#include "base/numerics.h"
#include "base/parallel.h"
#include "device/interpreter.h"
#include "serve/cached_model.h"
#include "tests/bits/tiny_model.h"

namespace isotone::bits {
namespace {

constexpr std::int64_t kTokens = 200;

/// Logits [token, vocab] of the training form: grains of packed documents.
std::vector<float> training_logits(DType dtype, const std::vector<std::int32_t>& ids, std::int64_t grains = 1) {
  const ModelConfig c = tiny_config();
  const models::LoadedWeights w = tiny_weights(c, dtype, false);
  const auto t = static_cast<std::int64_t>(ids.size()) / grains;
  std::vector<std::int32_t> positions;
  for (std::int64_t g = 0; g < grains; ++g) {
    for (std::int64_t i = 0; i < t; ++i) {
      positions.push_back(static_cast<std::int32_t>(i));
    }
  }
  nn::PackedAttention attention;
  const models::Architecture& a = models::architecture_of(c);
  const Tensor hidden = a.hidden(c, w.parameters, Tensor::from(ids, {grains, t}), Tensor::from(positions, {grains, t}),
                                 attention, {dtype});
  return a.logits(c, w.parameters, hidden).to_floats();
}

/// The same from the serving form, fed in pieces of `chunk`.
std::vector<float> serving_logits(DType dtype, const std::vector<std::int32_t>& ids, std::size_t chunk) {
  const ModelConfig c = tiny_config();
  serve::CachedModel model(c, tiny_weights(c, dtype, true), 0);
  const auto sequence = model.start();
  std::vector<float> out;
  for (std::size_t i = 0; i < ids.size(); i += chunk) {
    sequence->extend_all(
        std::span(ids).subspan(i, std::min(chunk, ids.size() - i)),
        [&](std::int64_t, std::span<const float> logits) { out.insert(out.end(), logits.begin(), logits.end()); });
  }
  return out;
}

void expect_same(const std::vector<float>& a, const std::vector<float>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  std::size_t differ = 0, first = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::memcmp(&a[i], &b[i], 4) != 0) {
      first = differ++ == 0 ? i : first;
    }
  }
  EXPECT_EQ(differ, 0U) << what << ": first at " << first << ": " << a[first] << " and " << b[first];
}

class Forward : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override { set_default_device(cpu::make_cpu_device()); }
};

TEST_P(Forward, LikeTheInterpreter) {
  const std::vector<std::int32_t> ids = tiny_ids(kTokens, 320);
  set_default_device(device::make_interpreter());
  const std::vector<float> expected = training_logits(GetParam(), ids);
  set_default_device(cpu::make_cpu_device());
  set_kernel_log(true);
  expect_same(expected, training_logits(GetParam(), ids), "cpu and interpreter");
  for (const auto& [name, count] : kernel_log()) {
    EXPECT_FALSE(name.starts_with("reference.") && name != "reference.random_normal") << name << " has no kernel";
  }
  set_kernel_log(false);
}

TEST_P(Forward, ServingLikeTraining) {
  const std::vector<std::int32_t> ids = tiny_ids(kTokens, 320);
  const std::vector<float> expected = training_logits(GetParam(), ids);
  for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{64}, ids.size()}) {
    expect_same(expected, serving_logits(GetParam(), ids, chunk), "chunks of " + std::to_string(chunk));
  }
}

TEST_P(Forward, BatchOfOneThreeAndMore) {
  const std::vector<std::int32_t> one = tiny_ids(40, 320);
  const std::vector<float> expected = training_logits(GetParam(), one);
  for (const std::int64_t batch : {3, 32}) {
    std::vector<std::int32_t> ids;
    for (std::int64_t g = 0; g < batch; ++g) {
      const std::vector<std::int32_t> row =
          g == batch / 2 ? one : tiny_ids(40, 320, 100 + static_cast<std::uint64_t>(g));
      ids.insert(ids.end(), row.begin(), row.end());
    }
    const std::vector<float> all = training_logits(GetParam(), ids, batch);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(expected.size()) * (batch / 2);
    expect_same(expected, {begin, begin + static_cast<std::ptrdiff_t>(expected.size())},
                "batch of " + std::to_string(batch));
  }
}

TEST_P(Forward, EveryInstructionSetAndThreadCount) {
  const std::vector<std::int32_t> ids = tiny_ids(70, 320);
  const std::vector<float> expected = training_logits(GetParam(), ids);
  const cpu::Isa saved = cpu::current_isa();
  for (const cpu::Isa isa : cpu::supported_isas()) {
    cpu::set_isa(isa);
    expect_same(expected, training_logits(GetParam(), ids), std::string(cpu::isa_name(isa)));
    expect_same(expected, serving_logits(GetParam(), ids, 33), std::string(cpu::isa_name(isa)) + ", serving");
  }
  cpu::set_isa(saved);
  const int threads = thread_count();
  for (const int n : {1, 2, 3}) {
    set_thread_count(n);
    expect_same(expected, training_logits(GetParam(), ids), std::to_string(n) + " threads");
  }
  set_thread_count(threads);
}

TEST(Quantised, RowsThatAreNotFiniteAreNotANumberEverywhere) {
  set_default_device(cpu::make_cpu_device());
  std::vector<float> rows = Tensor(ops::random_normal(ops::full({}, 1.0, DType::i64), {4, 96}, 5, "rows")).to_floats();
  rows[1 * 96 + 40] = std::numeric_limits<float>::infinity();
  rows[2 * 96 + 95] = std::numeric_limits<float>::quiet_NaN();
  std::fill(rows.begin() + 3 * 96, rows.end(), 1e-44F);
  std::vector<std::byte> blocks(static_cast<std::size_t>(Type{DType::q8_0, {5, 96}}.bytes()), std::byte{0x2a});
  std::vector<std::vector<float>> found;
  for (const bool interpreter : {true, false}) {
    set_default_device(interpreter ? device::make_interpreter() : cpu::make_cpu_device());
    found.push_back(
        Tensor(ops::linear(Tensor::from(rows, {4, 96}), Tensor::from_bytes(blocks.data(), {DType::q8_0, {5, 96}})))
            .to_floats());
  }
  expect_same(found[0], found[1], "cpu and interpreter");
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(std::isfinite(found[0][static_cast<std::size_t>(i)]));
    EXPECT_TRUE(std::isnan(found[0][static_cast<std::size_t>(5 + i)]) &&
                std::isnan(found[0][static_cast<std::size_t>(10 + i)]));
    EXPECT_EQ(found[0][static_cast<std::size_t>(15 + i)], 0.0F);
  }
}

TEST(ForwardUnderAmx1, OnTileUnitsByEmulationServedAndTrained) {
  set_default_device(cpu::make_cpu_device());
  const std::vector<std::int32_t> ids = tiny_ids(kTokens, 320);
  const std::vector<float> other = training_logits(DType::bf16, ids);
  const NumericsProfile saved_profile = numerics_profile();
  set_numerics_profile(NumericsProfile::amx_1);
  set_default_device(device::make_interpreter());
  const std::vector<float> expected = training_logits(DType::bf16, ids);
  set_default_device(cpu::make_cpu_device());
  EXPECT_NE(expected, other) << "the profiles are two orders";
  expect_same(expected, training_logits(DType::bf16, ids), "cpu and interpreter");
  const cpu::Isa saved = cpu::current_isa();
  for (const cpu::Isa isa : cpu::supported_isas()) {
    for (const bool tiles : {false, true}) {
      cpu::set_isa(isa);
      if (tiles && (!cpu::amx_supported() || !cpu::isa_name(isa).starts_with("avx512"))) {
        continue;
      }
      cpu::set_amx(tiles);
      const std::string what = std::string(cpu::isa_name(isa)) + (cpu::amx_in_use() ? " with tiles" : "");
      expect_same(expected, training_logits(DType::bf16, ids), what);
      expect_same(expected, serving_logits(DType::bf16, ids, 33), what + ", serving");
      expect_same(expected, serving_logits(DType::bf16, ids, 1), what + ", serving one by one");
    }
  }
  cpu::set_isa(saved);
  cpu::set_amx(cpu::amx_supported() && cpu::isa_name(saved).starts_with("avx512"));
  set_numerics_profile(saved_profile);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Forward, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(dtype_name(p.param)); });

}  // namespace
}  // namespace isotone::bits
