// The C++ half of safetensors_python_test.py, which calls it: `formats_interop write|read FOLDER` writes
// FOLDER/ours.safetensors or checks FOLDER/theirs.safetensors; `convert FOLDER MODEL` makes FOLDER/converted.
#include <fmt/ranges.h>

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/convert.h"
#include "formats/dequantise.h"
#include "formats/safetensors.h"

namespace isotone {
namespace {

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

void write(const std::string& folder) {
  std::vector<TensorView> views;
  for (const Case& c : cases()) {
    TensorView view{{c.name, c.dtype, c.shape}, {}, nullptr};
    auto owned = std::make_shared<std::string>(content(c, static_cast<std::size_t>(view.elements())));
    view.data = std::as_bytes(std::span(owned->data(), owned->size()));
    view.owner = owned;
    views.push_back(std::move(view));
  }
  save_safetensors(folder + "/ours.safetensors", views, {{"format", "pt"}, {"note", "\"x\"\n"}});
}

void read(const std::string& folder) {
  const Safetensors file(folder + "/theirs.safetensors");
  require(file.metadata().at("note") == "\"x\"\n", "the note is '{}'", file.metadata().at("note"));
  std::size_t seen = 0;
  for (const Case& c : cases()) {
    if (c.dtype == DType::bf16) {
      continue;  // numpy has none
    }
    const TensorView view = file.tensor(c.name);
    require(view.dtype == c.dtype && view.shape == c.shape, "'{}' is {} of shape [{}]", c.name, dtype_name(view.dtype),
            fmt::join(view.shape, ", "));
    const std::vector<float> values = dequantise(view);
    for (std::size_t i = 0; i < values.size(); ++i) {
      require(values[i] == static_cast<float>(element(c.dtype, i)), "'{}' has {} at {}, not {}", c.name, values[i], i,
              element(c.dtype, i));
    }
    ++seen;
  }
  require(file.entries().size() == seen, "the file has {} tensors, not {}", file.entries().size(), seen);
}

void convert(const std::string& folder, const std::string& model) {
  ConvertOptions options;
  options.max_shard_bytes = 200'000'000;
  convert_gguf_to_hf(model, folder + "/converted", options);
}

int run(const std::vector<std::string>& arguments) {
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "write" && arguments.size() == 2) {
    write(arguments[1]);
  } else if (command == "read" && arguments.size() == 2) {
    read(arguments[1]);
  } else if (command == "convert" && arguments.size() == 3) {
    convert(arguments[1], arguments[2]);
  } else {
    fmt::print(stderr, "usage: formats_interop write|read FOLDER, or convert FOLDER MODEL\n");
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace isotone

int main(int argc, char** argv) {
  try {
    return isotone::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "formats_interop: {}\n", e.what());
    return 1;
  }
}
