// Two ways of running a graph, or two graphs, operation by operation: the first whose bits differ.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace isotone::train {

/// A graph with what it reads, and the device to run it on.
struct OpSide {
  const ir::Graph& graph;
  std::vector<device::BufferPtr> inputs;
  device::Device& device;
};

struct OpDifference {
  enum class Kind {
    input,      ///< an input of the graphs differs before anything is computed
    operation,  ///< the graphs have other operations here
    value,      ///< the same operation on the same bits gives other bits
  };
  Kind kind = Kind::value;
  std::size_t at = 0, of = 0;            ///< number of the operation, of all (of the input, of all inputs)
  std::string op;                        ///< its name; of an input, the input's
  std::string text_a, text_b;            ///< the operations with types, where they differ; else one
  std::vector<std::string> reads;        ///< inputs of the graph that it reads, as they are or cast or reshaped
  std::int64_t element = -1;             ///< the first that differs, row-major; -1 where types do
  std::int64_t elements = 0, wrong = 0;  ///< of the result, and how many of them differ
  float a = 0.0F, b = 0.0F;
  std::uint64_t ulps = 0;  ///< of float results
};

/// Runs both side by side, an operation at a time and each on its own side's values, until results differ. `names` are
/// the inputs'. `progress` is told operations done, of all. Values are kept until their last reader has run.
std::optional<OpDifference> first_op_difference(const OpSide& a, const OpSide& b, const std::vector<std::string>& names,
                                                const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace isotone::train
