// Gradients of every operation against finite differences, on the CPU backend and on the interpreter.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/philox.h"
#include "device/conformance.h"
#include "tests/core/support.h"

namespace isotone {
namespace {

/// Operations whose outputs cannot be differentiated: asking must throw an error that names the operation.
const std::set<std::string, std::less<>> kNoGradient = {
    "adamw",           "all_gather",      "attention_grad",  "cache_write",
    "join_all_reduce", "paged_attention", "tree_all_reduce", "tree_reduce_scatter",
};
/// Operations without a sample for the comparison below: those of above, those whose results are integers or booleans
/// or depend on no float, and stop_gradient, whose gradient is none.
const std::set<std::string, std::less<>> kNotCompared = {
    "adamw",
    "all_gather",
    "join_all_reduce",
    "tree_all_reduce",
    "tree_reduce_scatter",
    "argmax",
    "argmin",
    "attention_grad",
    "cache_write",
    "equal",
    "full",
    "iota",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "one_hot",
    "paged_attention",
    "random_bernoulli",
    "random_normal",
    "random_uniform",
    "stop_gradient",
};
/// Outputs that carry no gradient because the rule says so, not because of the dtype: the logsumexp of these two.
bool differentiable_output(std::string_view op, std::size_t k) {
  return k == 0 || (op != "attention" && op != "cross_entropy");
}
/// Float inputs that carry none: rope's tables, as its comment says.
bool differentiable_input(std::string_view op, std::size_t k) {
  return k == 0 || op != "rope";
}

/// A graph that gives the weighted sum of an operation's float outputs in f32, unreduced inside the sum: the pieces are
/// added in f64 by the test, so that a difference of two sums keeps its digits.
struct Problem {
  ops::Sample sample;
  std::vector<Bytes> contents;
  std::vector<std::vector<float>> weights;  // of each float output
  std::unique_ptr<device::Executable> forward;
  std::vector<Type> output_types;
};

double weighted_sum(device::Device& device, Problem& p) {
  const auto outputs = read_all(p.forward->run(upload_all(device, p.contents)));
  double sum = 0.0;
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    Bytes raw = outputs[k];
    const ops::HostTensor y{&p.output_types[k], raw.data()};
    for (std::size_t i = 0; i < p.weights[k].size(); ++i) {
      sum += static_cast<double>(p.weights[k][i]) * static_cast<double>(y.get(static_cast<std::int64_t>(i)));
    }
  }
  return sum;
}

Problem make_problem(device::Device& device, const ops::OpDef& op, const ops::Sample& sample, std::uint64_t seed) {
  Problem p;
  p.sample = sample;
  p.contents = device::sample_contents(sample, seed);
  const ir::Graph graph = device::sample_graph(op, sample);
  p.forward = compile_graph(device, graph);
  for (std::size_t k = 0; k < graph.outputs.size(); ++k) {
    const Type& t = graph.types[static_cast<std::size_t>(graph.outputs[k])];
    p.output_types.push_back(t);
    p.weights.emplace_back();
    if (is_float(t.dtype) && differentiable_output(op.name, k)) {
      const Philox philox(seed, "weights" + std::to_string(k));
      for (std::int64_t i = 0; i < t.elements(); ++i) {
        p.weights.back().push_back(0.25F + philox.uniform(static_cast<std::uint64_t>(i)));
      }
    }
  }
  return p;
}

/// Sum over the float outputs of op(inputs) times the weights, as a scalar.
Tensor weighted(const ops::OpDef& op, const Tensors& inputs, const ir::Attrs& attrs, const Problem& p) {
  const Values outputs = ops::apply(op.name, Values(inputs.begin(), inputs.end()), attrs);
  Value total = ops::full({}, 0.0);
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (!p.weights[k].empty()) {
      const Tensor w = Tensor::from(std::span<const float>(p.weights[k]), outputs[k].shape());
      total = ops::add(total, ops::sum(ops::mul(ops::cast(outputs[k], DType::f32), w)));
    }
  }
  return total;
}

bool has_floats(const ops::Sample& sample) {
  return std::any_of(sample.inputs.begin(), sample.inputs.end(),
                     [](const ops::SampleInput& in) { return is_float(in.type.dtype); });
}

/// Compares the gradient of every float input with central differences; at most 60 elements of each.
void check_op(device::Device& device, const ops::OpDef& op, const ops::Sample& sample, std::size_t index) {
  Problem p = make_problem(device, op, sample, 77 + index);
  Tensors arguments;
  for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
    arguments.push_back(Tensor::from_bytes(p.contents[k].data(), sample.inputs[k].type));
  }
  const Tensors gradients =
      grad([&](const Tensors& x) { return Tensors{weighted(op, x, sample.attrs, p)}; })(arguments);
  double largest = 0.0;
  std::vector<std::vector<float>> ours;
  for (const Tensor& g : gradients) {
    ours.push_back(g ? g.to_floats() : std::vector<float>{});
    for (const float v : ours.back()) {
      largest = std::max(largest, static_cast<double>(std::fabs(v)));
    }
  }
  for (std::size_t k = 0; k < sample.inputs.size(); ++k) {
    if (!is_float(sample.inputs[k].type.dtype) || !differentiable_input(op.name, k)) {
      continue;
    }
    ASSERT_TRUE(gradients[k]) << op.name << ", sample " << index << ", input " << k << " gets no gradient";
    ASSERT_EQ(gradients[k].shape(), sample.inputs[k].type.shape);
    const ops::HostTensor x{&sample.inputs[k].type, p.contents[k].data()};
    const std::int64_t n = x.elements(), stride = std::max<std::int64_t>(1, n / 60);
    int wrong = 0, checked = 0;
    std::string first;
    for (std::int64_t i = 0; i < n; i += stride) {
      const float middle = x.get(i);
      // Steps from coarse to fine: a kink or a change of order inside a step spoils it, rounding spoils small ones.
      bool close = false;
      double numeric = 0.0;
      for (const float h : {1.0F / 64, 1.0F / 256, 1.0F / 1024}) {
        x.set(i, middle + h);
        const double up = weighted_sum(device, p);
        x.set(i, middle - h);
        const double down = weighted_sum(device, p);
        x.set(i, middle);
        numeric = (up - down) / (2.0 * static_cast<double>(h));
        close = close || std::fabs(numeric - static_cast<double>(ours[k][static_cast<std::size_t>(i)])) <=
                             2e-2 * std::max(largest, 0.05);
      }
      ++checked;
      if (!close && ++wrong == 1) {
        first = fmt::format("element {}: gradient {}, difference quotient {}", i, ours[k][static_cast<std::size_t>(i)],
                            numeric);
      }
    }
    EXPECT_EQ(wrong, 0) << op.name << ", sample " << index << ", input " << k << ": " << wrong << " of " << checked
                        << " differ, " << first;
  }
}

class Gradient : public testing::TestWithParam<const char*> {
 protected:
  std::shared_ptr<device::Device> device_ =
      std::string_view(GetParam()) == "cpu" ? cpu::make_cpu_device() : interpreter();
  Using using_{device_};
};

TEST_P(Gradient, OfEveryOperationAgainstDifferences) {
  std::set<std::string_view> checked;
  for (const ops::OpDef* op : ops::table()) {
    const auto samples = op->samples();
    for (std::size_t s = 0; s < samples.size(); ++s) {
      if (samples[s].check_gradient && has_floats(samples[s])) {
        check_op(*device_, *op, samples[s], s);
        checked.insert(op->name);
      }
    }
  }
  for (const ops::OpDef* op : ops::table()) {
    EXPECT_NE(checked.contains(op->name), kNotCompared.contains(op->name)) << op->name;
  }
  for (const std::string& name : kNotCompared) {
    EXPECT_NE(ops::find(name), nullptr) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Gradient, testing::Values("cpu", "interpreter"),
                         [](const auto& parameter) { return std::string(parameter.param); });

/// Every operation with a float input and a float output has a gradient or says by name that it has none.
TEST(GradientCoverage, EveryOperationHasOneOrRefuses) {
  const Using using_cpu(cpu::make_cpu_device());
  for (const ops::OpDef* op : ops::table()) {
    ops::Sample floats;
    for (const ops::Sample& s : op->samples()) {
      for (const ops::SampleInput& in : s.inputs) {
        if (is_float(in.type.dtype) && floats.inputs.empty()) {
          floats = s;
        }
      }
    }
    if (floats.inputs.empty()) {
      continue;  // nothing to differentiate with respect to
    }
    const auto contents = device::sample_contents(floats, 1);
    Tensors arguments;
    for (std::size_t k = 0; k < floats.inputs.size(); ++k) {
      arguments.push_back(Tensor::from_bytes(contents[k].data(), floats.inputs[k].type));
    }
    bool float_output = false;
    const std::string error = error_of([&] {
      grad([&](const Tensors& x) {
        for (const Value& y : ops::apply(op->name, Values(x.begin(), x.end()), floats.attrs)) {
          if (is_float(y.dtype())) {
            float_output = true;
            return Tensors{ops::sum(ops::cast(y, DType::f32))};
          }
        }
        return Tensors{ops::full({}, 0.0)};
      })(arguments);
    });
    if (!float_output) {
      continue;
    }
    if (kNoGradient.contains(op->name)) {
      EXPECT_EQ(error.find(std::string(op->name) + ": this operation has no gradient"), 0U)
          << op->name << ": " << error;
    } else {
      EXPECT_EQ(error, "") << op->name;
    }
  }
}

TEST(Gradient2, ThroughWhatHasNoneIsAnErrorOnlyOnThePath) {
  const Using device(cpu::make_cpu_device());
  const std::vector<float> data = {1.0F, 3.0F, 2.0F};
  // argmax has no gradient, but nothing asks for one through integers.
  const Tensors g = grad([](const Tensors& x) {
    return Tensors{ops::sum(ops::mul(x[0], ops::one_hot(ops::argmax(x[0], 0), 3)))};
  })({Tensor::from(std::span<const float>(data), {3})});
  EXPECT_EQ(g[0].to_floats(), (std::vector<float>{0.0F, 1.0F, 0.0F}));
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  EXPECT_TRUE(has(error_of([] { grad([](const Tensors& x) { return Tensors{x[0]}; })({Tensor(ops::full({2}, 1.0))}); }),
                  "float scalar"));
  EXPECT_TRUE(
      has(error_of([] { grad([](const Tensors&) { return Tensors{}; })({Tensor(ops::full({2}, 1.0))}); }), "nothing"));
}

}  // namespace
}  // namespace isotone
