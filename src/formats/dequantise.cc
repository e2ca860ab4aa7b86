// One block layout a function; the compiler unrolls the inner loops.
#include "formats/dequantise.h"

#include <cstring>

#include "base/error.h"
#include "base/half.h"

namespace isotone {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

float load_f16(const std::byte* at) {
  return static_cast<float>(f16::from_bits(load<std::uint16_t>(at)));
}

void block_q4_0(const std::byte* at, float* out) {
  const float d = load_f16(at);
  for (int j = 0; j < 16; ++j) {
    const int q = static_cast<int>(at[2 + j]);
    out[j] = static_cast<float>((q & 15) - 8) * d;
    out[j + 16] = static_cast<float>((q >> 4) - 8) * d;
  }
}

void block_q4_1(const std::byte* at, float* out) {
  const float d = load_f16(at);
  const float m = load_f16(at + 2);
  for (int j = 0; j < 16; ++j) {
    const int q = static_cast<int>(at[4 + j]);
    out[j] = static_cast<float>(q & 15) * d + m;
    out[j + 16] = static_cast<float>(q >> 4) * d + m;
  }
}

void block_q8_0(const std::byte* at, float* out) {
  const float d = load_f16(at);
  for (int j = 0; j < 32; ++j) {
    out[j] = static_cast<float>(load<std::int8_t>(at + 2 + j)) * d;
  }
}

template <class Convert>
void each(std::span<const std::byte> bytes, std::span<float> out, std::size_t width, std::size_t elements,
          const Convert& convert) {
  for (std::size_t i = 0; i * elements < out.size(); ++i) {
    convert(bytes.data() + i * width, out.data() + i * elements);
  }
}

template <class T>
void each_number(std::span<const std::byte> bytes, std::span<float> out) {
  each(bytes, out, sizeof(T), 1, [](const std::byte* at, float* to) { *to = static_cast<float>(load<T>(at)); });
}

}  // namespace

void dequantise(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  require(!is_quantised(dtype) || out.size() % kQuantBlock == 0, "{} elements are not whole {} blocks of {}",
          out.size(), dtype_name(dtype), kQuantBlock);
  require(bytes.size() == storage_bytes(dtype, static_cast<std::int64_t>(out.size())),
          "{} elements of {} need {} bytes, {} were given", out.size(), dtype_name(dtype),
          storage_bytes(dtype, static_cast<std::int64_t>(out.size())), bytes.size());
  const std::size_t unit = unit_bytes(dtype);
  switch (dtype) {
    case DType::f32:
      if (!out.empty()) {
        std::memcpy(out.data(), bytes.data(), bytes.size());
      }
      return;
    case DType::bf16:
      each(bytes, out, 2, 1,
           [](const std::byte* at, float* to) { *to = static_cast<float>(bf16::from_bits(load<std::uint16_t>(at))); });
      return;
    case DType::f16:
      each(bytes, out, 2, 1, [](const std::byte* at, float* to) { *to = load_f16(at); });
      return;
    case DType::i8:
      each_number<std::int8_t>(bytes, out);
      return;
    case DType::u8:
    case DType::boolean:
      each_number<std::uint8_t>(bytes, out);
      return;
    case DType::i32:
      each_number<std::int32_t>(bytes, out);
      return;
    case DType::i64:
      each_number<std::int64_t>(bytes, out);
      return;
    case DType::q4_0:
      each(bytes, out, unit, kQuantBlock, block_q4_0);
      return;
    case DType::q4_1:
      each(bytes, out, unit, kQuantBlock, block_q4_1);
      return;
    case DType::q8_0:
      each(bytes, out, unit, kQuantBlock, block_q8_0);
      return;
  }
}

std::vector<float> dequantise(const TensorView& tensor) {
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  try {
    dequantise(tensor.dtype, tensor.data, out);
  } catch (const Error& error) {
    throw error.in("tensor '" + tensor.name + "'");
  }
  return out;
}

std::vector<std::byte> encode(DType dtype, std::span<const float> values) {
  require(is_float(dtype), "weights can be written as f32, bf16 or f16, not as {}", dtype_name(dtype));
  std::vector<std::byte> out(values.size() * unit_bytes(dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::f32) {
      std::memcpy(out.data() + 4 * i, &values[i], 4);
    } else {
      const std::uint16_t bits = dtype == DType::bf16 ? bf16(values[i]).bits : f16(values[i]).bits;
      std::memcpy(out.data() + 2 * i, &bits, 2);
    }
  }
  return out;
}

}  // namespace isotone
