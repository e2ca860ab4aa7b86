// Named parameters: what a model needs (specs with logical axes) and what it is given (tensors by name).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace isotone::nn {

/// What a dimension of a parameter means to the model: "vocab", "embed", "heads", "kv_heads", "mlp", "expert". A plan
/// (plan.h) maps it to a mesh, the model file does not.
struct LogicalAxis {
  std::string name;
  /// Elements that stay together where it is cut (a head's width).
  std::int64_t unit = 1;
};

/// One parameter of a model. Names are the checkpoint's (Hugging Face's).
struct ParameterSpec {
  std::string name;
  Shape shape;
  std::vector<LogicalAxis> axes;
  /// Standard deviation of the normal distribution it starts from; 0: all ones (norm weights).
  double init_std = 0.02;
  /// Whether weight decay applies (matrices yes, norm weights no).
  bool decay = true;
  /// Names in a checkpoint where it has each slice along the first dimension as a tensor of its own (an expert's
  /// matrix); empty: it has one tensor, under `name`.
  std::vector<std::string> slices = {};
};

/// A tensor of a checkpoint: a parameter, or a slice of one.
struct StoredTensor {
  std::string name;
  Shape shape;
  std::int64_t first = 0;  ///< element of the parameter that is its first
};
std::vector<StoredTensor> stored_tensors(const ParameterSpec& spec);

/// Tensors by parameter name, in name order.
class Parameters {
 public:
  void set(const std::string& name, Tensor value) { values_[name] = std::move(value); }
  /// Throws Error where the model has no such parameter.
  [[nodiscard]] const Tensor& at(const std::string& name) const;
  [[nodiscard]] bool contains(const std::string& name) const { return values_.contains(name); }
  [[nodiscard]] const std::map<std::string, Tensor>& all() const { return values_; }
  [[nodiscard]] std::map<std::string, Tensor>& all() { return values_; }

 private:
  std::map<std::string, Tensor> values_;
};

/// Fresh f32 parameters: a function of the seed and each parameter's name alone.
Parameters initialise(const std::vector<ParameterSpec>& specs, std::uint64_t seed);

/// Every parameter cast to `dtype` (lazily), for a forward pass in bf16 over f32 masters.
Parameters cast_all(const Parameters& parameters, DType dtype);

}  // namespace isotone::nn
