// The cost model's memory against the plan, which knows every buffer.
#include <gtest/gtest.h>

#include <filesystem>

#include "backends/cpu/device.h"
#include "tensor/tensor.h"
#include "train/simulate.h"

namespace isotone::bits {
namespace {

TEST(SimulatePlan, MemoryIsNearThePlans) {
  std::filesystem::current_path(ISOTONE_SOURCE_DIR);
  set_default_device(cpu::make_cpu_device());
  train::Recipe r = train::read_recipe("recipes/demo.toml");
  for (const char* recompute : {"none", "light", "mlp", "layer"}) {
    for (const std::int64_t grains : {1, 4, 32}) {
      r.recompute = recompute;
      r.grains = grains;
      const train::Cost c = train::simulate(r, {}, "1 x H100").cost;
      const train::RankPlan p = train::plan_run(r, {}, 1).most();
      EXPECT_EQ(c.parameter_memory, static_cast<double>(p.parameters));
      EXPECT_EQ(c.optimiser_memory, static_cast<double>(p.optimiser));
      EXPECT_NEAR(c.activation_memory / static_cast<double>(p.activations), 1.0, 0.2)
          << recompute << ", " << grains << " grains";
    }
  }
}

}  // namespace
}  // namespace isotone::bits
