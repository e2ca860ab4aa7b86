// Each pass alone: what it removes, what it must leave, and that a plan of memory never lets live buffers overlap.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "base/error.h"
#include "ops/functions.h"
#include "passes/differentiate.h"
#include "passes/pipeline.h"
#include "passes/plan_memory.h"
#include "passes/simplify.h"

namespace isotone::passes {
namespace {

ir::Graph parse(std::string_view text) {
  return ir::parse(text, [](std::string_view name) { return ops::get(name).name; });
}

ir::Graph graph_of(const ir::Values& outputs, const ir::Values& inputs) {
  return ir::flatten(outputs, inputs).graph;
}

ir::Value input(ir::Shape shape, DType dtype = DType::f32) {
  return ir::leaf({dtype, std::move(shape)}, nullptr);
}

std::size_t count(const ir::Graph& g, std::string_view op) {
  std::size_t n = 0;
  for (const auto& i : g.code) {
    n += i.op == op ? 1 : 0;
  }
  return n;
}

bool primitives(const ir::Graph&, const ir::Instruction& i) {
  return ops::get(i.op).reference != nullptr;
}

TEST(Simplify, DropsWhatNobodyReads) {
  const ir::Graph g =
      simplify(parse("input %0 : f32[2]\ninput %1 : f32[2]\n%2 = neg(%0) {} : f32[2]\n%3 = exp(%2) {} : f32[2]\n%4 = "
                     "neg(%3) {} : f32[2]\noutput %2\n"));
  EXPECT_EQ(g.code.size(), 1U);
  EXPECT_EQ(g.inputs.size(), 2U);  // the caller still gives both
  ir::verify(g);
}

TEST(Simplify, MergesEqualThings) {
  const ir::Graph g =
      simplify(parse("input %0 : f32[2]\n%1 = exp(%0) {} : f32[2]\n%2 = exp(%0) {} : f32[2]\n%3 = neg(%1) {} : "
                     "f32[2]\n%4 = neg(%2) {} : f32[2]\n%5 = mul(%3, %4) {} : f32[2]\noutput %5\noutput %4\n"));
  EXPECT_EQ(g.code.size(), 3U);
  EXPECT_EQ(count(g, "exp"), 1U);
  EXPECT_EQ(g.code[2].inputs[0], g.code[2].inputs[1]);
  EXPECT_EQ(g.outputs[1], g.code[1].outputs[0]);
  ir::verify(g);
}

TEST(Simplify, KeepsWhatDiffersInAnyWay) {
  // Attributes, the sign of a zero, operands in another order, recompute regions, dtype of the result.
  const char* text =
      "input %0 : f32[2]\ninput %1 : f32[2]\n"
      "%2 = sub(%0, %1) {} : f32[2]\n%3 = sub(%1, %0) {} : f32[2]\n"
      "%4 = full() {shape = [2], value = f0x0p+0, dtype = 0} : f32[2]\n%5 = full() {shape = [2], value = f-0x0p+0, "
      "dtype = 0} : f32[2]\n"
      "%6 = exp(%0) {} region 1 : f32[2]\n%7 = exp(%0) {} region -1 : f32[2]\n%8 = exp(%0) {} : f32[2]\n"
      "%9 = cast(%0) {dtype = 1} : bf16[2]\n%10 = cast(%0) {dtype = 2} : f16[2]\n"
      "output %2\noutput %3\noutput %4\noutput %5\noutput %6\noutput %7\noutput %8\noutput %9\noutput %10\n";
  const ir::Graph g = parse(text);
  EXPECT_EQ(simplify(g).code.size(), g.code.size());
}

TEST(Simplify, IsDoneAfterOneRun) {
  std::mt19937 rng(3);
  for (int round = 0; round < 50; ++round) {
    ir::Values pool{input({4}), input({4})};
    const ir::Values inputs = pool;
    for (int n = 0; n < 30; ++n) {
      const ir::Value &a = pool[rng() % pool.size()], &b = pool[rng() % pool.size()];
      pool.push_back(rng() % 3 == 0 ? ops::neg(a) : rng() % 2 == 0 ? ops::add(a, b) : ops::mul(a, b));
    }
    const ir::Graph g = graph_of({pool.back(), pool[pool.size() / 2]}, inputs);
    const ir::Graph once = simplify(g), twice = simplify(once);
    ir::verify(once);
    EXPECT_LE(once.code.size(), g.code.size());
    EXPECT_EQ(ir::hash(once), ir::hash(twice));
  }
}

TEST(PlanMemory, LiveBuffersNeverOverlapOnRandomLifetimes) {
  std::mt19937 rng(11);
  for (int round = 0; round < 300; ++round) {
    const int steps = 1 + static_cast<int>(rng() % 40);
    std::vector<Lifetime> buffers(1 + rng() % 60);
    std::size_t sum = 0;
    for (Lifetime& b : buffers) {
      b.bytes = rng() % 8 == 0 ? 0 : rng() % 5000;
      b.first = static_cast<int>(rng() % static_cast<unsigned>(steps));
      b.last = b.first + static_cast<int>(rng() % 6);
      sum += (b.bytes + 63) / 64 * 64;
    }
    const MemoryPlan plan = plan_memory(buffers);
    ASSERT_EQ(plan.offsets.size(), buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % 64, 0U);
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.arena_bytes);
      for (std::size_t j = 0; j < i; ++j) {
        const bool together = buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        ASSERT_TRUE(!together || apart || buffers[i].bytes == 0 || buffers[j].bytes == 0)
            << "round " << round << ", buffers " << i << " and " << j;
      }
    }
    std::size_t peak = 0;
    for (int s = 0; s < steps + 6; ++s) {
      std::size_t live = 0;
      for (const Lifetime& b : buffers) {
        live += b.first <= s && s <= b.last ? (b.bytes + 63) / 64 * 64 : 0;
      }
      peak = std::max(peak, live);
    }
    EXPECT_EQ(plan.peak_live_bytes, peak);
    EXPECT_GE(plan.arena_bytes, peak);
    EXPECT_LE(plan.arena_bytes, sum);
  }
}

TEST(PlanMemory, ReusesAfterTheLastReader) {
  std::vector<Lifetime> chain;
  for (int i = 0; i < 100; ++i) {
    chain.push_back({6400, i, i + 1});
  }
  const MemoryPlan plan = plan_memory(chain);
  EXPECT_EQ(plan.arena_bytes, 2U * 6400U);
  EXPECT_EQ(plan.peak_live_bytes, 2U * 6400U);
  EXPECT_EQ(plan_memory({}).arena_bytes, 0U);
}

TEST(Decompose, LeavesPrimitivesAlone) {
  const ir::Value x = input({3, 8}), w = input({8});
  const ir::Graph g = graph_of({ops::rms_norm(ops::softmax(x), w, 1e-5)}, {x, w});
  ASSERT_EQ(count(g, "rms_norm"), 1U);
  const ir::Graph d = decompose(g, primitives);
  ir::verify(d);
  EXPECT_GT(d.code.size(), 8U);
  for (const auto& i : d.code) {
    EXPECT_NE(ops::get(i.op).reference, nullptr) << i.op;
  }
  EXPECT_EQ(d.types[static_cast<std::size_t>(d.outputs[0])], g.types[static_cast<std::size_t>(g.outputs[0])]);
}

TEST(Decompose, KeepsWhatIsTakenAndCarriesRegions) {
  const ir::Value x = input({3, 8}), w = input({8});
  ir::Value y;
  {
    const ir::RegionScope region;
    y = ops::rms_norm(ops::softmax(x), w, 1e-5);
  }
  const ir::Graph g = graph_of({y}, {x, w});
  const ir::Graph d = decompose(
      g, [](const ir::Graph& in, const ir::Instruction& i) { return i.op == "softmax" || primitives(in, i); });
  EXPECT_EQ(count(d, "softmax"), 1U);
  EXPECT_EQ(count(d, "rms_norm"), 0U);
  for (const auto& i : d.code) {
    EXPECT_EQ(i.region, y.node()->region) << i.op;
  }
}

TEST(Decompose, OfAnIdentityForwardsTheValue) {
  const ir::Value x = input({3});
  const ir::Graph g = graph_of({ops::cast(ops::apply1("silu", {x}), DType::f32)}, {x});
  const ir::Graph d = decompose(g, primitives);
  ir::verify(d);
  EXPECT_NE(d.outputs[0], d.inputs[0]);
}

class SkipPasses {
 public:
  explicit SkipPasses(const char* names) { setenv("ISOTONE_SKIP_PASSES", names, 1); }
  ~SkipPasses() { unsetenv("ISOTONE_SKIP_PASSES"); }
};

TEST(Pipeline, ReportsPassesInOrderAndSkipsByName) {
  const ir::Value x = input({4});
  const ir::Graph g = graph_of({ops::add(ops::silu(x), ops::silu(x))}, {x});
  const auto names = [&] {
    std::vector<PassReport> reports;
    run_pipeline(g, primitives, &reports);
    std::vector<std::string> out;
    for (const PassReport& r : reports) {
      out.push_back(r.name);
    }
    return out;
  };
  EXPECT_EQ(names(), (std::vector<std::string>{"simplify", "decompose", "simplify-again"}));
  {
    const SkipPasses skip("simplify");
    EXPECT_EQ(names(), (std::vector<std::string>{"decompose", "simplify-again"}));
  }
  {
    const SkipPasses skip("simplify-again,nothing,simplify,decompose");
    EXPECT_EQ(names(), (std::vector<std::string>{"decompose"}));  // that one is needed
  }
  std::vector<PassReport> reports;
  run_pipeline(g, primitives, &reports);
  EXPECT_TRUE(reports[0].changed);  // the two silus became one
  EXPECT_LE(reports[2].instructions, reports[1].instructions);
}

TEST(Differentiate, FansInByOneFoldInRecordedOrder) {
  const ir::Value x = input({4});
  const ir::Value a = ops::neg(x), b = ops::exp(x), c = ops::sin(x);
  const ir::Value y = ops::add(ops::add(c, a), b);  // uses of x were recorded as neg, exp, sin
  const ir::Values g = differentiate({y}, {ops::full({4}, 1.0)}, {x});
  ASSERT_EQ(g[0].node()->op, "fan_in");
  const ir::Values& parts = g[0].node()->inputs;
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].node()->op, "neg");
  // exp's part multiplies by exp itself, sin's by a cosine.
  const auto reads = [](const ir::Value& v, std::string_view op) {
    for (const ir::Value& in : v.node()->inputs) {
      if (in && in.node()->op == op) {
        return true;
      }
    }
    return false;
  };
  EXPECT_TRUE(reads(parts[1], "exp"));
  EXPECT_TRUE(reads(parts[2], "cos"));
}

TEST(Differentiate, GivesNoneWhereNothingReaches) {
  const ir::Value x = input({4}), z = input({4});
  const ir::Values g = differentiate({ops::exp(x)}, {ops::full({4}, 1.0)}, {z, x});
  EXPECT_FALSE(g[0]);
  EXPECT_TRUE(g[1]);
}

TEST(Differentiate, DeepChainsDoNotOverflowTheStack) {
  const ir::Value x = input({1});
  ir::Value y = x;
  for (int i = 0; i < 50000; ++i) {
    y = ops::neg(y);
  }
  const ir::Values g = differentiate({y}, {ops::full({1}, 1.0)}, {x});
  EXPECT_TRUE(g[0]);
  ir::Value z = x;
  {
    const ir::RegionScope region;  // recomputed as a whole
    for (int i = 0; i < 20000; ++i) {
      z = ops::exp(z);
    }
  }
  EXPECT_TRUE(differentiate({z}, {ops::full({1}, 1.0)}, {x})[0]);
}

}  // namespace
}  // namespace isotone::passes
