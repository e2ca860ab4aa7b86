// What people use: lazy tensors. Calling an operation records it; reading a value, or eval(), runs what is needed.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"
#include "ops/functions.h"

namespace isotone {

using ir::Ints;
using ir::Shape;
using ir::Type;
using ir::Value;
using ir::Values;

/// A recorded value with what a user wants to do with it. Converts from and to ir::Value freely: operations of
/// isotone::ops take and give either.
class Tensor : public Value {
 public:
  Tensor() = default;
  Tensor(const Value& v) : Value(v) {}  // NOLINT(google-explicit-constructor): operations return Values

  /// Copies `values` (row-major, as many as `shape` holds) to the default device as f32, i32 or i64.
  static Tensor from(std::span<const float> values, Shape shape);
  static Tensor from(std::span<const std::int32_t> values, Shape shape);
  static Tensor from(std::span<const std::int64_t> values, Shape shape);
  /// Copies raw bytes of `type`.
  static Tensor from_bytes(const void* bytes, const Type& type);
  /// Uses host memory kept alive by `keep` without a copy where the device can; `constant`: it never changes.
  static Tensor adopt(const void* bytes, const Type& type, std::shared_ptr<const void> keep, bool constant);
  static Tensor scalar(double value, DType dtype = DType::f32);

  /// Runs what is needed and copies the elements out, widened to f32 (to_ints: integers and booleans only).
  [[nodiscard]] std::vector<float> to_floats() const;
  [[nodiscard]] std::vector<std::int64_t> to_ints() const;
  /// The raw bytes, contiguous.
  [[nodiscard]] std::vector<std::byte> to_bytes() const;
  /// The only element, as f32.
  [[nodiscard]] float item() const;
  /// Host memory of the computed value, or null where the device keeps it elsewhere. Runs what is needed. Valid as long
  /// as the tensor is.
  [[nodiscard]] const void* host() const;
  /// "f32[2, 3] {1, 2, 3, ...}": the type and the first elements.
  [[nodiscard]] std::string describe() const;
};

Tensor operator+(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a, const Tensor& b);
Tensor operator*(const Tensor& a, const Tensor& b);
Tensor operator/(const Tensor& a, const Tensor& b);
Tensor operator-(const Tensor& a);

/// The device on which tensors are made and graphs run. Set once at start-up, before any tensor is made.
void set_default_device(std::shared_ptr<device::Device> device);
device::Device& default_device();

/// Computes tensors in one graph. Intermediates that nobody holds are never stored.
void eval(const std::vector<Tensor>& tensors);
void eval(const Tensor& tensor);

}  // namespace isotone
