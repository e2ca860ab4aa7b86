// A named tensor in somebody's memory: what every reader of this folder hands out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace isotone {

/// Name, dtype and row-major shape of a tensor; the last dimension of a block-quantised one is a multiple of 32.
struct TensorSpec {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;

  [[nodiscard]] std::int64_t elements() const;
  [[nodiscard]] std::size_t bytes() const { return storage_bytes(dtype, elements()); }
};

/// A tensor's bytes, row-major, little-endian. They may be unaligned for their dtype (a file need not align them):
/// copy, or read through memcpy. `owner` keeps the memory alive; where it is null the reader must be kept.
struct TensorView : TensorSpec {
  std::span<const std::byte> data;
  std::shared_ptr<const void> owner;
};

/// "[2, 3]"; "[]" for a scalar.
std::string shape_text(std::span<const std::int64_t> shape);

/// Product of the dimensions; throws Error (naming `what`) on a negative one or beyond 2^62.
std::int64_t checked_elements(std::span<const std::int64_t> shape, const std::string& what);

}  // namespace isotone
