#include "nn/parameters.h"

#include "base/error.h"

namespace isotone::nn {

const Tensor& Parameters::at(const std::string& name) const {
  const auto it = values_.find(name);
  require(it != values_.end(), "the model has no parameter '{}'", name);
  return it->second;
}

std::vector<StoredTensor> stored_tensors(const ParameterSpec& spec) {
  if (spec.slices.empty()) {
    return {{spec.name, spec.shape}};
  }
  const Shape shape(spec.shape.begin() + 1, spec.shape.end());
  const std::int64_t elements = Type{DType::f32, shape}.elements();
  std::vector<StoredTensor> out;
  for (const std::string& name : spec.slices) {
    out.push_back({name, shape, static_cast<std::int64_t>(out.size()) * elements});
  }
  return out;
}

Parameters initialise(const std::vector<ParameterSpec>& specs, std::uint64_t seed) {
  Parameters out;
  const Tensor step = Tensor::from(std::vector<std::int64_t>{0}, {});
  std::vector<Tensor> made;
  for (const ParameterSpec& p : specs) {
    Tensor t;
    if (p.init_std == 0.0) {
      t = ops::add(ops::full(p.shape, 1.0), ops::full({}, 0.0));
    } else {
      t = ops::mul(ops::random_normal(step, p.shape, static_cast<std::int64_t>(seed), p.name),
                   ops::full({}, p.init_std));
    }
    made.push_back(t);
    out.set(p.name, t);
  }
  eval(made);
  return out;
}

Parameters cast_all(const Parameters& parameters, DType dtype) {
  Parameters out;
  for (const auto& [name, value] : parameters.all()) {
    out.set(name, ops::cast(value, dtype));
  }
  return out;
}

}  // namespace isotone::nn
