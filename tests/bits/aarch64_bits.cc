// Prints one hash a line of what the CPU backend computes: every operation's samples, and larger graphs for the kernels
// that have one per instruction set. tools/test_aarch64.sh compares the lines of two processors. Standard error names
// the kernels that ran.
#include <cstdio>

#include "backends/cpu/device.h"
#include "backends/cpu/isa.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/kernel_log.h"
#include "base/philox.h"
#include "device/conformance.h"
#include "passes/pipeline.h"
#include "tensor/tensor.h"
#include "tensor/transforms.h"

namespace isotone {
namespace {

void print_hash(const std::string& name, std::span<const std::byte> bytes) {
  std::printf("%016llx %s\n", static_cast<unsigned long long>(xxh3_64(bytes)), name.c_str());
}

void show(const std::string& name, const Tensor& value) {
  print_hash(name, value.to_bytes());
}

/// Uniform in [low, high), as `dtype`.
Tensor random(const std::string& name, Shape shape, DType dtype = DType::f32, float low = -1.0F, float high = 1.0F) {
  const Philox philox(7, name);
  std::vector<float> values(static_cast<std::size_t>(Type{DType::f32, shape}.elements()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::fma(high - low, philox.uniform(i), low);
  }
  return ops::cast(Tensor::from(values, std::move(shape)), dtype);
}

/// Blocks of random codes with small scales: a weight [rows, columns] of a quantised dtype.
Tensor random_blocks(DType dtype, std::int64_t rows, std::int64_t columns) {
  ops::Sample sample;
  sample.inputs.push_back({Type{dtype, {rows, columns}}});
  return Tensor::from_bytes(device::sample_contents(sample, 11)[0].data(), Type{dtype, {rows, columns}});
}

void samples_of_all_operations() {
  device::Device& cpu = default_device();
  const auto takes = [&cpu](const ir::Graph& g, const ir::Instruction& i) { return cpu.takes(g, i); };
  for (const ops::OpDef* op : ops::table()) {
    const std::vector<ops::Sample> samples = op->samples();
    for (std::size_t s = 0; s < samples.size(); ++s) {
      const ir::Graph graph = device::sample_graph(*op, samples[s]);
      std::vector<device::BufferPtr> inputs;
      for (const auto& bytes : device::sample_contents(samples[s], 100 + s)) {
        inputs.push_back(cpu.upload(bytes.data(), bytes.size()));
      }
      const auto outputs = cpu.compile(passes::run_pipeline(graph, takes), {})->run(inputs);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        std::vector<std::byte> bytes(outputs[k]->bytes());
        outputs[k]->read(bytes.data());
        print_hash(std::string(op->name) + " sample " + std::to_string(s) + " output " + std::to_string(k), bytes);
      }
    }
  }
}

void functions() {
  using Function = Value (*)(const Value&);
  const std::pair<const char*, Function> all[] = {{"exp", ops::exp},           {"log", ops::log},
                                                  {"sin", ops::sin},           {"cos", ops::cos},
                                                  {"tanh", ops::tanh},         {"erf", ops::erf},
                                                  {"sigmoid", ops::sigmoid},   {"silu", ops::silu},
                                                  {"gelu_erf", ops::gelu_erf}, {"gelu_tanh", ops::gelu_tanh},
                                                  {"rsqrt", ops::rsqrt}};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const Tensor x = random("x", {3, 1003}, dtype, -12.0F, 12.0F);
    for (const auto& [name, function] : all) {
      show(std::string(name) + " " + std::string(dtype_name(dtype)), function(x));
    }
  }
}

void contractions() {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string in = " " + std::string(dtype_name(dtype));
    for (const std::int64_t k : {1, 255, 600, 1100}) {
      show("matmul k=" + std::to_string(k) + in, ops::matmul(random("a", {37, k}, dtype), random("b", {k, 70}, dtype)));
    }
    for (const DType weight : {DType::q8_0, DType::q4_1, DType::q4_0}) {
      for (const std::int64_t rows : {1, 9}) {
        show("linear " + std::string(dtype_name(weight)) + " rows=" + std::to_string(rows) + in,
             ops::linear(random("a", {rows, 576}, dtype), random_blocks(weight, 100, 576)));
      }
    }
  }
}

void rows_and_attention() {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::string in = " " + std::string(dtype_name(dtype));
    const Tensor x = random("x", {5, 700}, dtype, -6.0F, 6.0F);
    show("softmax" + in, ops::softmax(x));
    show("log_softmax" + in, ops::log_softmax(x));
    show("rms_norm" + in, ops::rms_norm(x, random("w", {700}, dtype), 1e-5));
    show("sum" + in, ops::sum(x, {1}));
    const std::int64_t tokens = 150;
    const Tensor q = random("q", {1, tokens, 4, 64}, dtype), k = random("k", {1, tokens, 2, 64}, dtype),
                 v = random("v", {1, tokens, 2, 64}, dtype);
    const auto attend = [](const Tensors& qkv) {
      return Tensors{ops::sum(ops::cast(ops::attention(qkv[0], qkv[1], qkv[2], Value(), 0.125)[0], DType::f32))};
    };
    show("attention" + in, ops::attention(q, k, v, Value(), 0.125)[0]);
    const ValueAndGrad with_grad = value_and_grad(attend)({q, k, v});
    for (std::size_t i = 0; i < with_grad.gradients.size(); ++i) {
      show("gradient of attention to input " + std::to_string(i) + in, with_grad.gradients[i]);
    }
  }
}

int run() {
  set_default_device(cpu::make_cpu_device());
  set_kernel_log(true);
  samples_of_all_operations();
  functions();
  contractions();
  rows_and_attention();
  for (const auto& [name, count] : kernel_log()) {
    std::fprintf(stderr, "%s %lld\n", name.c_str(), static_cast<long long>(count));
  }
  std::fprintf(stderr, "isa %s\n", std::string(cpu::isa_name(cpu::current_isa())).c_str());
  return 0;
}

}  // namespace
}  // namespace isotone

int main() {
  try {
    return isotone::run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "aarch64_bits: %s\n", e.what());
    return 1;
  }
}
