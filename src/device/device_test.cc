// The seam itself: the null device, the interpreter, and skipped passes, which never change a bit.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error_for_tests.h"
#include "device/conformance.h"
#include "device/interpreter.h"
#include "device/null_device.h"
#include "ops/functions.h"
#include "passes/pipeline.h"

namespace isotone::device {
namespace {

using Bytes = std::vector<std::byte>;

std::vector<Bytes> run(Device& device, const ir::Graph& graph, const std::vector<Bytes>& inputs) {
  const ir::Graph ready =
      passes::run_pipeline(graph, [&](const ir::Graph& g, const ir::Instruction& i) { return device.takes(g, i); });
  std::vector<BufferPtr> buffers;
  for (const Bytes& b : inputs) {
    buffers.push_back(device.upload(b.data(), b.size()));
  }
  std::vector<Bytes> out;
  for (const BufferPtr& b : device.compile(ready, {})->run(buffers)) {
    out.emplace_back(b->bytes());
    b->read(out.back().data());
  }
  return out;
}

Bytes floats(const std::vector<float>& values) {
  Bytes out(values.size() * 4);
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

ir::Graph parse(std::string_view text) {
  return ir::parse(text, [](std::string_view name) { return ops::get(name).name; });
}

TEST(NullDevice, HoldsMemoryAndTakesNothing) {
  const auto device = make_null_device();
  EXPECT_EQ(device->name(), "null");
  const Bytes data = floats({1.0F, 2.0F});
  const BufferPtr b = device->upload(data.data(), data.size());
  Bytes back(8);
  b->read(back.data());
  EXPECT_EQ(back, data);
  EXPECT_EQ(run(*device, parse("input %0 : f32[2]\noutput %0\noutput %0\n"), {data}), (std::vector<Bytes>{data, data}));
  const ir::Graph g = parse("input %0 : f32[2]\n%1 = neg(%0) {} : f32[2]\noutput %1\n");
  EXPECT_FALSE(device->takes(g, g.code[0]));
  EXPECT_NE(error_of([&] { device->compile(g, {}); }).find("neg"), std::string::npos);
  EXPECT_NE(error_of([&] { run(*device, parse("input %0 : f32[2]\noutput %0\n"), {}); }), "");
}

TEST(NullDevice, IsRefusedByTheConformanceSuiteEverywhere) {
  const auto device = make_null_device();
  const auto results = check_conformance(*device, "add");
  EXPECT_FALSE(results.empty());
  for (const ConformanceResult& r : results) {
    EXPECT_TRUE(r.refused) << r.op;
    EXPECT_FALSE(r.taken) << r.op;
  }
}

TEST(Interpreter, RunsPrimitivesAndRefusesComposites) {
  const auto device = make_interpreter();
  EXPECT_EQ(
      run(*device,
          parse("input %0 : f32[3]\n%1 = neg(%0) {} : f32[3]\n%2 = add(%1, %0) {} : f32[3]\noutput %1\noutput "
                "%2\noutput %0\n"),
          {floats({1.0F, -2.0F, 0.0F})}),
      (std::vector<Bytes>{floats({-1.0F, 2.0F, -0.0F}), floats({0.0F, 0.0F, 0.0F}), floats({1.0F, -2.0F, 0.0F})}));
  const ir::Graph g = parse("input %0 : f32[2, 4]\n%1 = softmax(%0) {} : f32[2, 4]\noutput %1\n");
  EXPECT_FALSE(device->takes(g, g.code[0]));
  EXPECT_NE(error_of([&] {
              const Bytes x = floats(std::vector<float>(8, 1.0F));
              const BufferPtr b = device->upload(x.data(), x.size());
              const std::vector<BufferPtr> in{b};
              device->compile(g, {})->run(in);
            }).find("softmax"),
            std::string::npos);
}

TEST(Interpreter, ChecksWhatItIsGiven) {
  const auto device = make_interpreter();
  const ir::Graph g = parse("input %0 : f32[3]\n%1 = neg(%0) {} : f32[3]\noutput %1\n");
  EXPECT_NE(error_of([&] { run(*device, g, {}); }).find("0 inputs given, 1 expected"), std::string::npos);
  EXPECT_NE(error_of([&] { run(*device, g, {floats({1.0F})}); }).find("4 bytes, 12 expected"), std::string::npos);
}

TEST(Interpreter, PassesTheSuiteAgainstItself) {
  const auto device = make_interpreter();
  std::size_t refused = 0, all = 0;
  for (const ConformanceResult& r : check_conformance(*device)) {
    EXPECT_EQ(r.failure, "") << r.op << ", sample " << r.sample;
    refused += r.refused ? 1 : 0;
    ++all;
  }
  EXPECT_EQ(refused, 0U);
  EXPECT_GT(all, 500U);
}

TEST(Interpreter, FlushesSubnormalsAndStoresOneNan) {
  const auto device = make_interpreter();
  const float tiny = 1e-39F;  // subnormal
  const auto flushed =
      run(*device, parse("input %0 : f32[1]\ninput %1 : f32[1]\n%2 = mul(%0, %1) {} : f32[1]\noutput %2\n"),
          {floats({tiny}), floats({1.0F})});
  EXPECT_EQ(flushed[0], floats({0.0F}));
  const float nan = std::bit_cast<float>(0xffc12345U);
  const auto stored =
      run(*device, parse("input %0 : f32[1]\ninput %1 : f32[1]\n%2 = add(%0, %1) {} : f32[1]\noutput %2\n"),
          {floats({nan}), floats({1.0F})});
  EXPECT_EQ(stored[0], floats({std::bit_cast<float>(0x7fc00000U)}));
}

TEST(Conformance, FindsADifference) {
  // A device that gives wrong bits for one operation must be told apart, so that the suite can fail.
  class Wrong : public Device {
   public:
    [[nodiscard]] std::string_view name() const override { return "wrong"; }
    [[nodiscard]] bool takes(const ir::Graph& g, const ir::Instruction& i) const override {
      return inner_->takes(g, i);
    }
    [[nodiscard]] std::unique_ptr<Executable> compile(const ir::Graph& graph, const CompileOptions& o) override {
      ir::Graph changed = graph;
      for (auto& i : changed.code) {
        i.op = i.op == "add" ? ops::get("sub").name : i.op;
      }
      return inner_->compile(changed, o);
    }
    [[nodiscard]] BufferPtr upload(const void* from, std::size_t bytes) override { return inner_->upload(from, bytes); }

   private:
    std::unique_ptr<Device> inner_ = make_interpreter();
  } device;
  bool found = false;
  for (const ConformanceResult& r : check_conformance(device, "add")) {
    found = found || (r.op == "add" && r.failure.find("elements differ") != std::string::npos);
  }
  EXPECT_TRUE(found);
}

TEST(Pipeline, SkippedPassesKeepBits) {
  const auto device = make_interpreter();
  const auto all = [&](const char* skip) {
    setenv("ISOTONE_SKIP_PASSES", skip, 1);
    std::vector<std::vector<Bytes>> out;
    for (const char* name :
         {"silu", "softmax", "rms_norm", "layer_norm", "cross_entropy", "swiglu", "dropout", "var"}) {
      const ops::OpDef& op = ops::get(name);
      const ops::Sample sample = op.samples()[1];
      out.push_back(run(*device, sample_graph(op, sample), sample_contents(sample, 5)));
    }
    unsetenv("ISOTONE_SKIP_PASSES");
    return out;
  };
  const auto plain = all("");
  EXPECT_EQ(all("simplify"), plain);
  EXPECT_EQ(all("simplify-again"), plain);
  EXPECT_EQ(all("simplify,simplify-again"), plain);
}

}  // namespace
}  // namespace isotone::device
