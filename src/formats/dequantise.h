// Stored elements to f32 and f32 to f32, bf16 or f16: for conversion, goldens and references. Scalar code; the fast
// paths of kernels are compared with it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "formats/tensor_view.h"

namespace isotone {

/// Elements of `bytes` (unaligned is fine) to f32; sizes must agree. Block formats as in base/dtype.h, computed in f32
/// with one rounding per operation, as llama.cpp's reference does. Integers and booleans are converted too.
void dequantise(DType dtype, std::span<const std::byte> bytes, std::span<float> out);
std::vector<float> dequantise(const TensorView& tensor);

/// f32 to f32, bf16 or f16 (nearest, ties to even), appended as little-endian bytes. Other dtypes throw Error.
std::vector<std::byte> encode(DType dtype, std::span<const float> values);

}  // namespace isotone
