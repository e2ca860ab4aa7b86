// The C++ half of tests/formats/safetensors_python_test.py, which sets ISOTONE_INTEROP to a folder and runs these cases
// one at a time; they are skipped without it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "formats/convert.h"
#include "formats/dequantise.h"
#include "formats/safetensors.h"

namespace isotone {
namespace {

const char* folder() {
  return std::getenv("ISOTONE_INTEROP");
}

struct Case {
  const char* name;
  DType dtype;
  std::vector<std::int64_t> shape;
};

/// Element i of a tensor is (i * 7 + 3) mod 100 - 50 (plus 50 for u8), or its lowest bit for booleans.
const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"f32", DType::f32, {3, 5}},   {"f16", DType::f16, {7}},      {"bf16", DType::bf16, {2, 2}},
      {"i8", DType::i8, {9}},        {"u8", DType::u8, {1, 1, 3}},  {"i32", DType::i32, {4}},
      {"i64", DType::i64, {2}},      {"bool", DType::boolean, {5}}, {"scalar", DType::f32, {}},
      {"empty", DType::f32, {0, 4}}, {"größe/名", DType::f32, {1}}};
  return list;
}

int element(DType dtype, std::size_t i) {
  const int value = static_cast<int>((i * 7 + 3) % 100) - 50;
  return dtype == DType::boolean ? value & 1 : dtype == DType::u8 ? value + 50 : value;
}

std::string content(const Case& c, std::size_t n) {
  std::string out;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t integer = element(c.dtype, i);
    if (is_float(c.dtype)) {
      const float value = static_cast<float>(integer);
      const std::vector<std::byte> bytes = encode(c.dtype, std::span(&value, 1));
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else {
      out.append(reinterpret_cast<const char*>(&integer), unit_bytes(c.dtype));
    }
  }
  return out;
}

TEST(Interop, Write) {
  if (folder() == nullptr) {
    GTEST_SKIP() << "run by tests/formats/safetensors_python_test.py";
  }
  std::vector<TensorView> views;
  for (const Case& c : cases()) {
    TensorView view{{c.name, c.dtype, c.shape}, {}, nullptr};
    auto owned = std::make_shared<std::string>(content(c, static_cast<std::size_t>(view.elements())));
    view.data = std::as_bytes(std::span(owned->data(), owned->size()));
    view.owner = owned;
    views.push_back(std::move(view));
  }
  save_safetensors(std::string(folder()) + "/ours.safetensors", views, {{"format", "pt"}, {"note", "\"x\"\n"}});
}

TEST(Interop, Read) {
  if (folder() == nullptr) {
    GTEST_SKIP() << "run by tests/formats/safetensors_python_test.py";
  }
  const Safetensors file(std::string(folder()) + "/theirs.safetensors");
  EXPECT_EQ(file.metadata().at("note"), "\"x\"\n");
  std::size_t seen = 0;
  for (const Case& c : cases()) {
    if (c.dtype == DType::bf16) {
      continue;  // numpy has none
    }
    const TensorView view = file.tensor(c.name);
    EXPECT_EQ(view.dtype, c.dtype) << c.name;
    EXPECT_EQ(view.shape, c.shape) << c.name;
    const std::vector<float> values = dequantise(view);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(element(c.dtype, i))) << c.name << " " << i;
    }
    ++seen;
  }
  EXPECT_EQ(file.entries().size(), seen);
}

TEST(Interop, Convert) {
  const char* model = std::getenv("ISOTONE_INTEROP_MODEL");
  if (folder() == nullptr || model == nullptr) {
    GTEST_SKIP() << "run by tests/formats/safetensors_python_test.py";
  }
  ConvertOptions options;
  options.max_shard_bytes = 200'000'000;
  convert_gguf_to_hf(model, std::string(folder()) + "/converted", options);
}

}  // namespace
}  // namespace isotone
