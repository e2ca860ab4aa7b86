// Loss and gradients of a Llama and of a Qwen3 with experts, shared out over meshes by a plan: the bits of one worker.
#include <mutex>

#include "dist/sharded_function.h"
#include "nn/plan.h"
#include "tests/bits/ranks.h"

namespace isotone::bits {
namespace {

/// Wide enough that every sum over features can be cut in two at least, and heads in four.
ModelConfig wide_config() {
  ModelConfig c = tiny_config();
  c.vocab_size = 1280;
  c.hidden_size = 512;
  c.intermediate_size = 1152;
  c.n_heads = 16;
  c.n_kv_heads = 4;
  c.head_dim = 64;
  c.tie_embeddings = false;
  return c;
}

struct Case {
  const char* what;
  ir::Mesh mesh;
  nn::Plan plan;
  bool grains_cut;  // over "data"
};

std::vector<Case> cases() {
  const nn::Plan tensor = nn::ready_plan("tensor");
  return {{"tensor 2", ir::Mesh({{"tensor", 2}}), tensor, false},
          {"tensor 4", ir::Mesh({{"tensor", 4}}), tensor, false},
          {"tensor 3", ir::Mesh({{"tensor", 3}}), tensor, false},
          {"data 2", ir::Mesh({{"data", 2}}), {}, true},
          {"data 3, parameters in shards", ir::Mesh({{"data", 3}}), nn::ready_plan("stored"), true},
          {"data 2 x tensor 2, parameters in shards", ir::Mesh({{"data", 2}, {"tensor", 2}}),
           nn::ready_plan("tensor+stored"), true}};
}

/// Six experts, of which three workers have two each.
ModelConfig experts_config() {
  ModelConfig c = wide_config();
  c.model_type = "qwen3_moe";
  c.experts = {.count = 6, .per_token = 2, .width = 96, .normalise = true};
  return c;
}

std::vector<Case> expert_cases() {
  const nn::Plan experts = nn::ready_plan("expert");
  return {{"expert 2", ir::Mesh({{"expert", 2}}), experts, false},
          {"expert 3", ir::Mesh({{"expert", 3}}), experts, false},
          {"tensor 2", ir::Mesh({{"tensor", 2}}), nn::ready_plan("tensor"), false},
          {"data 3, parameters in shards", ir::Mesh({{"data", 3}}), nn::ready_plan("stored"), true},
          {"data 2 x expert 2", ir::Mesh({{"data", 2}, {"expert", 2}}), experts, true}};
}

struct Variant {
  const char* name;
  DType dtype;
  ModelConfig (*config)();
  std::vector<Case> (*cases)();
  int joins;  // as many at least in every case
};
void PrintTo(const Variant& v, std::ostream* out) {
  *out << v.name;
}

class ShardModel : public ::testing::TestWithParam<Variant> {};

TEST_P(ShardModel, LossAndGradients) {
  set_default_device(cpu::make_cpu_device());
  const ModelConfig c = GetParam().config();
  const models::Architecture& architecture = models::architecture_of(c);
  const std::vector<nn::ParameterSpec> specs = architecture.parameters(c);
  const nn::Parameters fresh = nn::initialise(specs, 7);
  nn::Parameters tables;
  models::add_tables(c, tables);
  constexpr std::int64_t kGrains = 3, kTokens = 64;
  std::vector<std::int32_t> ids = tiny_ids(kGrains * kTokens, c.vocab_size);
  std::vector<std::int32_t> targets = tiny_ids(kGrains * kTokens, c.vocab_size, 5), positions, starts;
  for (std::int64_t i = 0; i < kGrains * kTokens; ++i) {
    positions.push_back(static_cast<std::int32_t>(i % kTokens));
    starts.push_back(0);
  }
  targets[5] = -1;
  const Shape batch_shape{kGrains, kTokens};
  Tensors whole;
  for (const nn::ParameterSpec& s : specs) {
    whole.push_back(fresh.at(s.name));
  }
  for (const auto& list : {ids, targets, positions, starts}) {
    whole.push_back(Tensor::from(list, batch_shape));
  }
  const std::size_t n = specs.size();
  const DType compute = GetParam().dtype;
  const Function step = [&](const Tensors& a) {
    Tensor per_token;
    const auto objective = [&](const Tensors& values) {
      nn::Parameters p;
      for (std::size_t i = 0; i < n; ++i) {
        p.set(specs[i].name, ops::cast(values[i], compute));
      }
      for (const auto& [name, table] : tables.all()) {
        p.set(name, table);
      }
      nn::PackedAttention attention(a[n + 3]);
      const Tensor hidden = architecture.hidden(c, p, a[n], a[n + 2], attention, {compute, models::Recompute::light});
      per_token = ops::cross_entropy(architecture.logits(c, p, hidden), a[n + 1])[0];
      return Tensors{Tensor(ops::exact_sum({per_token}))};
    };
    Tensors out = value_and_grad(objective)({a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n)}).gradients;
    out.push_back(per_token);
    return out;
  };
  const Tensors expected = compile(step)(whole);
  for (const Case& k : GetParam().cases()) {
    std::vector<dist::Placed> arguments;
    std::vector<std::optional<ir::Placement>> results;
    for (const nn::ParameterSpec& s : specs) {
      arguments.push_back({{DType::f32, s.shape}, nn::place(s, k.plan, k.mesh)});
      results.emplace_back(arguments.back().placement);  // a gradient lies where its parameter does
    }
    ir::Placement rows = ir::replicated(k.mesh);
    if (k.grains_cut) {
      rows[static_cast<std::size_t>(k.mesh.axis("data"))] = ir::cut_evenly(0, kGrains, k.mesh.axes()[0].size);
    }
    for (int i = 0; i < 4; ++i) {
      arguments.push_back({{DType::i32, batch_shape}, rows});
    }
    results.emplace_back();
    std::mutex mutex;
    dist::run_in_process(k.mesh.ranks(), [&](Communicator& ranks) {
      const std::vector<int> at = k.mesh.coordinates(ranks.rank());
      dist::ShardedFunction sharded(step, k.mesh, ranks, arguments, results);
      Tensors parts;
      for (std::size_t i = 0; i < whole.size(); ++i) {
        parts.push_back(dist::part_of(whole[i], arguments[i].placement, at));
      }
      const Tensors found = sharded(parts);
      const std::lock_guard lock(mutex);
      std::int64_t joins = 0;
      for (const passes::Traffic& t : sharded.traffic()) {
        joins += t.op == "tree_all_reduce" || t.op == "tree_reduce_scatter" || t.op == "join_all_reduce" ? 1 : 0;
      }
      EXPECT_GE(joins, GetParam().joins) << k.what << ": no sum is shared";
      for (std::size_t i = 0; i < found.size(); ++i) {
        const Tensor part = dist::part_of(expected[i], sharded.results()[i].placement, at);
        EXPECT_TRUE(part.to_bytes() == found[i].to_bytes())
            << k.what << ": rank " << ranks.rank() << ", " << (i < n ? specs[i].name : "losses") << " "
            << ir::to_string(sharded.results()[i].placement, k.mesh);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ShardModel,
                         ::testing::Values(Variant{"dense_f32", DType::f32, wide_config, cases, 11},
                                           Variant{"dense_bf16", DType::bf16, wide_config, cases, 11},
                                           Variant{"experts_f32", DType::f32, experts_config, expert_cases, 4},
                                           Variant{"experts_bf16", DType::bf16, experts_config, expert_cases, 4}),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace isotone::bits
