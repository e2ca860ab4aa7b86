// libFuzzer entry for the readers of hostile files: the first byte picks the reader, the rest is the file.
// Built by tests/fuzz/formats_fuzz.sh where clang is installed; nothing but Error may come out.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/dequantise.h"
#include "formats/gguf.h"
#include "formats/json_text.h"
#include "formats/model_files.h"
#include "formats/safetensors.h"

namespace {

void read_gguf(std::span<const std::byte> bytes) {
  const isotone::Gguf g(bytes, "fuzz");
  for (const isotone::GgufTensor& t : g.tensors()) {
    if (t.dtype) {
      (void)isotone::dequantise(g.tensor(t.name));
    }
  }
  (void)isotone::tokenizer_of_gguf(g);
  (void)isotone::model_config_of_gguf(g);
}

void read_safetensors(std::span<const std::byte> bytes) {
  const isotone::Safetensors s(bytes, "fuzz");
  for (const isotone::SafetensorsEntry& e : s.entries()) {
    if (e.dtype) {
      (void)isotone::dequantise(s.tensor(e.name));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0:
        read_gguf(bytes);
        break;
      case 1:
        read_safetensors(bytes);
        break;
      default:
        (void)isotone::parse_model_config(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                                          "fuzz");
    }
  } catch (const isotone::Error&) {
  }
  return 0;
}
