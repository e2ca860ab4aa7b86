// A chip that gives a wrong bit is caught by the audit and named with step, grain, tensor and rank; the audit changes
// no bit itself. The operation that is wrong is named by running it beside its scalar definition.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <set>

#include "base/error.h"
#include "device/interpreter.h"
#include "dist/in_process.h"
#include "tests/bits/faulty_device.h"
#include "tests/bits/tiny_training.h"
#include "train/op_difference.h"
#include "train/workers.h"

namespace isotone::bits {
namespace {

constexpr int kFirstGradient = 2;  // of what a gradient step gives, after losses and balance

using train::AuditOptions;

/// The rank whose thread this is, and whether it computes for the second time.
thread_local int this_rank = 0;
thread_local bool second_time = false;

void elsewhere(const std::function<void()>& body) {
  second_time = true;
  body();
  second_time = false;
}

/// Whether a graph gives the losses and gradients of grains: the only one here that reads tokens.
bool is_gradient(const ir::Graph& graph) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(),
                     [&](ir::ValueId v) { return graph.types[static_cast<std::size_t>(v)].dtype == DType::i32; });
}

Case small() {
  return {.rounds = 2, .grains = 6, .tokens = 64, .steps = 3, .micro = 2};
}

struct Audited {
  Trained trained;
  std::vector<std::int64_t> grains;  // that were audited, by step
};

Audited audited(const Case& c, double share, dist::Communicator& ranks) {
  train::Stepper stepper(c.config, recipe_of(c), c.micro, ranks);
  stepper.set_audit({share, elsewhere});
  train::TrainState state = part_of(fresh_state(c.config), stepper.shards());
  Audited out;
  for (std::int64_t i = 0; i < c.steps; ++i) {
    const train::StepResult r = stepper.step(state, batch_of(c, i));
    out.trained.losses.push_back(r.loss);
    out.trained.norms.push_back(r.grad_norm);
    out.grains.push_back(r.audited);
  }
  out.trained.weights = hash_of(state, stepper.shards(), c.data_mode);
  return out;
}

/// What each of `size` ranks says; "" where nothing is wrong.
std::vector<std::string> errors(int size, const Case& c, double share) {
  std::vector<std::string> said(static_cast<std::size_t>(size));
  dist::run_in_process(size, [&](dist::Communicator& r) {
    this_rank = r.rank();
    try {
      static_cast<void>(audited(c, share, r));
    } catch (const Error& e) {
      said[static_cast<std::size_t>(r.rank())] = e.what();
    }
  });
  return said;
}

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
  }
}

class AuditTest : public testing::Test {
 protected:
  void SetUp() override { set_default_device(cpu::make_cpu_device()); }
  void TearDown() override {
    set_default_device(cpu::make_cpu_device());
    this_rank = 0;
  }
};

TEST_F(AuditTest, ChangesNoBitAndCountsTheSameGrainsOnEveryRank) {
  const Case c = small();
  const Trained expected = trained(c);
  for (const double share : {0.25, 1.0}) {
    dist::SilentRank alone;
    const Audited one = audited(c, share, alone);
    expect_same(expected, one.trained, "audited alone");
    for (const std::string& mode : train::data_mode_names()) {
      for (const int size : {2, 3, 8}) {
        Case cut = c;
        cut.data_mode = mode;
        std::mutex mutex;
        std::set<std::vector<std::int64_t>> counts;
        dist::run_in_process(size, [&](dist::Communicator& r) {
          const Audited got = audited(cut, share, r);
          expect_same(expected, got.trained, mode);
          const std::lock_guard lock(mutex);
          counts.insert(got.grains);
        });
        EXPECT_EQ(counts.size(), 1U) << "every rank counts alike";
        if (share == 1.0) {
          EXPECT_EQ(*counts.begin(), (std::vector<std::int64_t>{12, 12, 12}));
        }
      }
    }
    if (share == 1.0) {
      EXPECT_EQ(one.grains, (std::vector<std::int64_t>{12, 12, 12}));
    }
  }
}

TEST_F(AuditTest, TheShareIsKept) {
  Case c = small();
  c.steps = 60;
  c.micro = 1;
  dist::SilentRank alone;
  const Audited got = audited(c, 0.1, alone);
  const std::int64_t all = std::accumulate(got.grains.begin(), got.grains.end(), std::int64_t{0});
  EXPECT_NEAR(static_cast<double>(all), 72.0, 30.0);  // of 720, some 8 either way at one standard deviation
  EXPECT_GT(std::set<std::int64_t>(got.grains.begin(), got.grains.end()).size(), 2U) << "other grains each step";
}

TEST_F(AuditTest, AWrongLossNamesStepAndGrain) {
  const Case c = small();
  std::atomic<int> runs{0};
  // Parts of a round are 2, 1, 2 and 1 grains. The third of the second step: grains 3 and 4, a bit in the latter.
  const auto fault = [&](const ir::Graph& g) { return is_gradient(g) && !second_time && ++runs == 11 ? 0 : -1; };
  set_default_device(std::make_shared<FaultyDevice>(fault, 64 * 4 + 20));
  const std::string said = errors(1, c, 1.0)[0];
  expect_parts(said, {"step 1:", "the losses of grain 4", "rank 0 of 1 on " + train::host_name(),
                      "the kernels in use (the first time only)"});
  // Unaudited, nobody says a word, and the result is another one.
  const Trained sound = [&] {
    set_default_device(cpu::make_cpu_device());
    return trained(c);
  }();
  runs = 0;
  const auto gradient = [&](const ir::Graph& g) { return is_gradient(g) && ++runs == 10 ? kFirstGradient + 1 : -1; };
  set_default_device(std::make_shared<FaultyDevice>(gradient, 3));
  EXPECT_NE(trained(c).weights, sound.weights);
}

TEST_F(AuditTest, AWrongGradientNamesTheTensor) {
  Case c = small();
  const std::vector<nn::ParameterSpec> specs = models::architecture_of(c.config).parameters(c.config);
  for (const std::size_t i : {std::size_t{0}, std::size_t{5}, specs.size() - 1}) {
    std::atomic<int> runs{0};
    const auto fault = [&](const ir::Graph& g) {
      return is_gradient(g) && !second_time && ++runs == 2 ? kFirstGradient + static_cast<int>(i) : -1;
    };
    set_default_device(std::make_shared<FaultyDevice>(fault, 0));
    expect_parts(errors(1, c, 1.0)[0], {"step 0:", "the gradient of '" + specs[i].name + "'", "over grain"});
  }
  // A whole batch at once has gradients by parameter.
  c = {.rounds = 1, .grains = 4, .tokens = 64, .steps = 1, .micro = 4};
  const auto fault = [&](const ir::Graph& g) { return is_gradient(g) && !second_time ? kFirstGradient : -1; };
  set_default_device(std::make_shared<FaultyDevice>(fault, 0));
  expect_parts(errors(1, c, 1.0)[0], {"'" + specs[0].name + "' over grains 0 to 3", "no majority"});
}

TEST_F(AuditTest, AFaultyRankIsNamedByTheMajority) {
  Case c = small();
  for (const std::string& mode : train::data_mode_names()) {
    c.data_mode = mode;
    for (const int bad : {0, 2}) {
      const auto fault = [&](const ir::Graph& g) {
        return is_gradient(g) && this_rank == bad ? kFirstGradient + 2 : -1;
      };
      set_default_device(std::make_shared<FaultyDevice>(fault, 1));
      const std::vector<std::string> said = errors(4, c, 1.0);
      EXPECT_EQ(std::set<std::string>(said.begin(), said.end()).size(), 1U) << "every rank says the same";
      expect_parts(said[0], {"step 0:", fmt::format("against the majority stands: rank {} on {} (again).", bad,
                                                    train::host_name())});
    }
  }
  // Once only, and in what a rank computed itself.
  std::atomic<int> runs{0};
  const auto fault = [&](const ir::Graph& g) {
    return is_gradient(g) && this_rank == 1 && ++runs == 1 ? kFirstGradient + 2 : -1;
  };
  set_default_device(std::make_shared<FaultyDevice>(fault, 1));
  expect_parts(errors(3, c, 1.0)[2], {"rank 1 of 3 on", "and then rank 2 on",
                                      "stands: rank 1 on " + train::host_name() + " (the first time only)"});
}

TEST_F(AuditTest, TwoRanksThatDisagreeAreBothNamed) {
  const auto fault = [&](const ir::Graph& g) { return is_gradient(g) && this_rank == 1 ? kFirstGradient + 2 : -1; };
  set_default_device(std::make_shared<FaultyDevice>(fault, 1));
  expect_parts(errors(2, small(), 1.0)[0], {"rank 0 of 2 on", "and then rank 1 on", "no majority"});
}

TEST_F(AuditTest, SharesOutOfRangeAreRefused) {
  EXPECT_DOUBLE_EQ(train::parse_share("1/100"), 0.01);
  EXPECT_DOUBLE_EQ(train::parse_share("1"), 1.0);
  EXPECT_DOUBLE_EQ(train::parse_share("3/4"), 0.75);
  for (const char* bad : {"", "0", "0/5", "2/1", "1/0", "-1/2", "1/", "/2", "1/2/3", "0.5", "1e9",
                          "99999999999999999999", "1/99999999999999999999", " 1/2", "x"}) {
    EXPECT_THROW(static_cast<void>(train::parse_share(bad)), Error) << bad;
  }
}

TEST_F(AuditTest, TheOperationThatIsWrongIsNamed) {
  const Case c = small();
  dist::SilentRank alone;
  train::Stepper stepper(c.config, recipe_of(c), c.micro, alone);
  const train::TrainState state = fresh_state(c.config);
  const data::Batch batch = batch_of(c, 0);
  const auto reference = device::make_interpreter();
  const auto compare = [&] {
    const train::Stepper::Recorded r = stepper.record(state, batch.part(3, 1), 0.01F);
    return train::first_op_difference({r.graph, r.inputs, default_device()}, {r.graph, r.inputs, *reference}, r.names);
  };
  EXPECT_FALSE(compare().has_value()) << "kernels and scalar definitions have the same bits";
  for (const std::string op : {"swiglu", "rms_norm_grad", "cross_entropy", "attention"}) {
    const auto has = [&](const ir::Graph& g) { return g.code.size() == 1 && g.code[0].op == op ? 0 : -1; };
    set_default_device(std::make_shared<FaultyDevice>(has, 8));
    const auto found = compare();
    ASSERT_TRUE(found.has_value()) << op;
    EXPECT_EQ(found->op, op);
    EXPECT_EQ(found->element, 2);
    EXPECT_EQ(found->ulps, 1U);
    EXPECT_EQ(found->wrong, 1);
    expect_parts(found->text_a, {op, "f32["});
  }
  const auto contraction = [](const ir::Graph& g) { return g.code.size() == 1 && g.code[0].op == "contract" ? 0 : -1; };
  set_default_device(std::make_shared<FaultyDevice>(contraction, 0));
  const auto found = compare();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->reads, std::vector<std::string>{"model.layers.0.self_attn.q_proj.weight"});
}

}  // namespace
}  // namespace isotone::bits
