// The suite that every backend must pass: each operation's samples, as one graph each, give the interpreter's bits.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"
#include "ops/op.h"

namespace isotone::device {

struct ConformanceResult {
  std::string op;
  std::size_t sample = 0;
  bool taken = false;    // run by the device as it is, not decomposed
  bool refused = false;  // not run: the device takes neither the operation nor what it is made of
  std::string failure;   // empty where all bits agree
};

/// Random contents of a sample's inputs, one byte string each: a function of the seed.
std::vector<std::vector<std::byte>> sample_contents(const ops::Sample& sample, std::uint64_t seed);

/// A graph of one instruction with this sample's inputs (inputs of type "none" have no elements in `shape` {-1}).
ir::Graph sample_graph(const ops::OpDef& op, const ops::Sample& sample);

/// Runs every sample of every operation whose name contains `filter` on the device and on the interpreter. Also runs
/// each graph twice on the device: the second run must not see the first.
std::vector<ConformanceResult> check_conformance(Device& device, const std::string& filter = "");

}  // namespace isotone::device
