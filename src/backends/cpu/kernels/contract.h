// Contraction: the sum of products over an axis in the fixed order of docs/numerics.md (sections 2, 3 and 9), for plain
// operands and for weights packed once. All instruction sets, thread counts and ways to cut rows give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/dtype.h"

namespace isotone::cpu {

/// One input: element (b, o, row, k) lies at data[b*batch_stride + o*outer_stride + row*row_stride + k*k_stride].
/// Strides are in elements and may be anything, 0 (broadcast) and negative ones included.
struct Operand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch_stride = 0;
  std::int64_t outer_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t k_stride = 1;
};

/// C[b][m][n] = round(element tree over o of (axis tree over k of A[b][o][m][k] * B[b][o][n][k])).
/// Both inputs have one dtype of f32, bf16, f16; C is f32, bf16 or f16. `outer` (grains) is at least 1; `k` may be 0.
/// C's elements must not overlap the inputs or one another.
struct Contraction {
  std::int64_t batch = 1;
  std::int64_t outer = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  Operand a;
  Operand b;
  void* c = nullptr;
  DType c_dtype = DType::f32;
  std::int64_t c_batch_stride = 0;
  std::int64_t c_row_stride = 0;
  std::int64_t c_column_stride = 1;
};

/// Computes it with the kernels of current_isa() on all threads. Throws Error for dtypes it does not take.
void contract(const Contraction& c);

/// The same by definition, one element after another: the executable contract and the oracle of every kernel.
void contract_reference(const Contraction& c);

/// A constant weight [n, k], laid out once for streaming: panels of 64 outputs, contiguous along k.
/// Independent of the instruction set. Quantised weights stay at their own number of bits.
class PackedWeight {
 public:
  PackedWeight() = default;
  std::int64_t n() const { return n_; }
  std::int64_t k() const { return k_; }
  DType dtype() const { return dtype_; }
  std::size_t bytes() const { return bytes_; }
  const std::byte* panel(std::int64_t index) const { return data_.get() + index * panel_bytes_; }
  std::int64_t panels() const { return (n_ + 63) / 64; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  friend PackedWeight pack_weight(const Operand& b, std::int64_t n, std::int64_t k);
  std::shared_ptr<const std::byte> data_;
  std::size_t bytes_ = 0;
  std::int64_t panel_bytes_ = 0;
  std::int64_t n_ = 0;
  std::int64_t k_ = 0;
  DType dtype_ = DType::f32;
};

/// Packs b[n][k] (its row and k strides; batch and outer are not used). For q8_0, q4_1 and q4_0 the rows are whole
/// blocks: k is a multiple of 32, k_stride is 1 and row_stride (in elements) a multiple of 32. Throws Error otherwise.
PackedWeight pack_weight(const Operand& b, std::int64_t n, std::int64_t k);

/// Rows times a packed weight: C[m][n] over w.n() columns, k = w.k().
struct PackedContraction {
  std::int64_t m = 0;
  const void* a = nullptr;
  /// The weight's dtype; for quantised weights f32 or bf16 (quantised per 32 features on the way).
  DType a_dtype = DType::f32;
  std::int64_t a_row_stride = 0;
  std::int64_t a_k_stride = 1;
  void* c = nullptr;
  DType c_dtype = DType::f32;
  std::int64_t c_row_stride = 0;
  std::int64_t c_column_stride = 1;
};

/// Equal bits to contract() on the unpacked weight, and to quantised_reference() for quantised ones.
void contract_packed(const PackedContraction& c, const PackedWeight& w);

/// Section 9 by definition: c as above, `weight` the unpacked blocks [n][k/32] of `dtype`, rows contiguous.
void quantised_reference(const PackedContraction& c, const void* weight, DType dtype, std::int64_t n, std::int64_t k);

}  // namespace isotone::cpu
