#include "tensor/tensor.h"

#include <fmt/format.h>

#include <atomic>

#include "base/error.h"
#include "ops/op.h"
#include "passes/pipeline.h"

namespace isotone {

namespace {

std::shared_ptr<device::Device>& device_slot() {
  static std::shared_ptr<device::Device> slot;
  return slot;
}

device::BufferPtr buffer_of(const Value& v) {
  return std::static_pointer_cast<device::Buffer>(v.storage());
}

Tensor upload(const void* data, Type type, std::size_t given) {
  require(static_cast<std::int64_t>(given) == type.elements(), "tensor: {} values were given for {}", given,
          ir::to_string(type));
  device::BufferPtr buffer = default_device().upload(data, type.bytes());
  return Tensor(ir::leaf(std::move(type), std::move(buffer)));
}

}  // namespace

void set_default_device(std::shared_ptr<device::Device> device) {
  device_slot() = std::move(device);
}

device::Device& default_device() {
  require(device_slot() != nullptr, "no device: call set_default_device() before making tensors");
  return *device_slot();
}

Tensor Tensor::from(std::span<const float> values, Shape shape) {
  return upload(values.data(), {DType::f32, std::move(shape)}, values.size());
}
Tensor Tensor::from(std::span<const std::int32_t> values, Shape shape) {
  return upload(values.data(), {DType::i32, std::move(shape)}, values.size());
}
Tensor Tensor::from(std::span<const std::int64_t> values, Shape shape) {
  return upload(values.data(), {DType::i64, std::move(shape)}, values.size());
}
Tensor Tensor::from_bytes(const void* bytes, const Type& type) {
  return Tensor(ir::leaf(type, default_device().upload(bytes, type.bytes())));
}

Tensor Tensor::adopt(const void* bytes, const Type& type, std::shared_ptr<const void> keep, bool constant) {
  device::BufferPtr buffer = default_device().adopt(bytes, type.bytes(), std::move(keep));
  if (constant) {
    buffer->set_constant(type);
  }
  return Tensor(ir::leaf(type, std::move(buffer)));
}

Tensor Tensor::scalar(double value, DType dtype) {
  return Tensor(ops::full({}, value, dtype));
}

std::vector<std::byte> Tensor::to_bytes() const {
  eval(*this);
  std::vector<std::byte> out(type().bytes());
  buffer_of(*this)->read(out.data());
  return out;
}

std::vector<float> Tensor::to_floats() const {
  std::vector<std::byte> raw = to_bytes();
  const ops::HostTensor host{&type(), raw.data()};
  std::vector<float> out(static_cast<std::size_t>(type().elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = host.get(static_cast<std::int64_t>(i));
  }
  return out;
}

std::vector<std::int64_t> Tensor::to_ints() const {
  std::vector<std::byte> raw = to_bytes();
  const ops::HostTensor host{&type(), raw.data()};
  std::vector<std::int64_t> out(static_cast<std::size_t>(type().elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = host.get_int(static_cast<std::int64_t>(i));
  }
  return out;
}

float Tensor::item() const {
  require(type().elements() == 1, "item: {} has {} elements, not one", ir::to_string(type()), type().elements());
  return to_floats()[0];
}

const void* Tensor::host() const {
  eval(*this);
  return buffer_of(*this)->host();
}

std::string Tensor::describe() const {
  std::string out = ir::to_string(type()) + " {";
  const std::vector<float> values = to_floats();
  for (std::size_t i = 0; i < values.size() && i < 8; ++i) {
    out += fmt::format("{}{:g}", i == 0 ? "" : ", ", values[i]);
  }
  return out + (values.size() > 8 ? ", ...}" : "}");
}

Tensor operator+(const Tensor& a, const Tensor& b) {
  return Tensor(ops::add(a, b));
}
Tensor operator-(const Tensor& a, const Tensor& b) {
  return Tensor(ops::sub(a, b));
}
Tensor operator*(const Tensor& a, const Tensor& b) {
  return Tensor(ops::mul(a, b));
}
Tensor operator/(const Tensor& a, const Tensor& b) {
  return Tensor(ops::div(a, b));
}
Tensor operator-(const Tensor& a) {
  return Tensor(ops::neg(a));
}

void eval(const Tensor& tensor) {
  if (tensor.storage() == nullptr) {
    eval(std::vector<Tensor>{tensor});
  }
}

void eval(const std::vector<Tensor>& tensors) {
  Values wanted;
  for (const Tensor& t : tensors) {
    require(static_cast<bool>(t), "eval: a tensor is empty");
    if (t.storage() == nullptr) {
      wanted.push_back(t);
    }
  }
  if (wanted.empty()) {
    return;
  }
  // All outputs of a node become known together, so that its other users need not run it again.
  Values outputs;
  for (const Value& v : wanted) {
    for (std::size_t i = 0; i < v.node()->types.size(); ++i) {
      outputs.emplace_back(v.node(), static_cast<int>(i));
    }
  }
  device::Device& device = default_device();
  ir::Flattened flat = ir::flatten(outputs);
  const auto takes = [&device](const ir::Graph& g, const ir::Instruction& i) { return device.takes(g, i); };
  const ir::Graph graph = passes::run_pipeline(std::move(flat.graph), takes);
  std::vector<device::BufferPtr> inputs;
  for (const Value& v : flat.leaves) {
    inputs.push_back(buffer_of(v));
  }
  const std::vector<device::BufferPtr> results = device.compile(graph, {})->run(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ir::Node& node = *outputs[i].node();
    node.storage.resize(node.types.size());
    node.storage[static_cast<std::size_t>(outputs[i].index())] = results[i];
  }
  for (const Value& v : outputs) {
    if (!v.node()->traced) {
      v.node()->inputs.clear();  // computed: what it was made of is no longer needed
    }
  }
}

}  // namespace isotone
