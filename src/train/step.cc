#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/exact_sum.h"
#include "base/fmath.h"
#include "base/parallel.h"
#include "dist/agree.h"
#include "train/batch_census.h"

namespace isotone::train {

namespace {

CompileSettings donate_range(std::size_t begin, std::size_t end) {
  CompileSettings s;
  for (std::size_t i = begin; i < end; ++i) {
    s.donate.push_back(i);
  }
  return s;
}

/// Index of the parameter that both the embedding and the logits use; as many as there are where none is.
std::size_t shared_parameter(const ModelConfig& config, const std::vector<nn::ParameterSpec>& specs) {
  for (std::size_t i = 0; config.tie_embeddings && i < specs.size(); ++i) {
    if (specs[i].name == "model.embed_tokens.weight") {
      return i;
    }
  }
  return specs.size();
}

double balance_weight(const ModelConfig& config, const Recipe& recipe) {
  if (config.experts.count == 0) {
    return 0.0;
  }
  return recipe.balance_loss >= 0.0 ? recipe.balance_loss
         : config.experts.balance   ? config.experts.balance_weight
                                    : 0.0;
}

/// Adds the squares of all elements.
void add_squares(const Tensor& t, ExactSum& to) {
  const FlushSubnormals flush;
  if (const void* host = t.host(); host != nullptr) {
    to.add_squares({static_cast<const float*>(host), static_cast<std::size_t>(t.type().elements())});
  } else {
    to.add_squares(t.to_floats());
  }
}

}  // namespace

Stepper::Stepper(const ModelConfig& config, const Recipe& recipe, std::int64_t micro_grains, dist::Communicator& ranks)
    : config_(config),
      recipe_(recipe),
      micro_grains_(std::max<std::int64_t>(1, micro_grains)),
      balance_(balance_weight(config, recipe)),
      architecture_(models::architecture_of(config)),
      specs_(architecture_.parameters(config)),
      shared_(shared_parameter(config, specs_)),
      grid_({recipe.context, recipe.expert, recipe.tensor}, ranks),
      shards_(specs_, shared_, parse_data_mode(recipe.data_mode), grid_),
      micro_([this](const Tensors& a) { return losses_of(a, Want::uses); }, [this] { return places(Want::uses); },
             grid_),
      whole_([this](const Tensors& a) { return losses_of(a, Want::sums); }, [this] { return places(Want::sums); },
             grid_),
      forward_([this](const Tensors& a) { return losses_of(a, Want::losses); }, [this] { return places(Want::losses); },
               grid_),
      add_(
          [](const Tensors& a) {
            Tensors out;
            for (std::size_t i = 0; i < a.size() / 2; ++i) {
              out.push_back(a[i] + a[a.size() / 2 + i]);
            }
            return out;
          },
          donate_range(0, specs_.size() + (shared_ < specs_.size() ? 1 : 0))),
      join_(
          [](const Tensors& a) {
            return Tensors{Tensor(ops::fan_in({a[0], a[1]}, DType::f32))};
          },
          donate_range(0, 1)),
      // p, m, v of every parameter, its gradient, and the scalars with and without weight decay.
      update_(
          [this](const Tensors& a) {
            const std::size_t n = specs_.size();
            Tensors p, m, v;
            for (std::size_t i = 0; i < n; ++i) {
              const Values out =
                  ops::adamw(a[i], a[n + i], a[2 * n + i], a[3 * n + i], a[specs_[i].decay ? 4 * n : 4 * n + 1]);
              p.emplace_back(out[0]);
              m.emplace_back(out[1]);
              v.emplace_back(out[2]);
            }
            p.insert(p.end(), m.begin(), m.end());
            p.insert(p.end(), v.begin(), v.end());
            return p;
          },
          donate_range(0, 3 * specs_.size())) {
  models::add_tables(config_, tables_);
}

Tensors Stepper::losses_of(const Tensors& arguments, Want want) {
  const std::size_t n = specs_.size();
  const auto batch = [&](std::size_t i) { return arguments[n + i]; };
  Tensor per_token, balance;
  const auto objective = [&](const Tensors& values) {
    nn::Parameters p;
    for (std::size_t i = 0; i < n; ++i) {
      p.set(specs_[i].name, ops::cast(values[i], recipe_.dtype));
    }
    for (const auto& [name, table] : tables_.all()) {
      p.set(name, table);
    }
    nn::PackedAttention attention(batch(3));
    nn::RoutingLog routing;
    const Tensor hidden = architecture_.hidden(
        config_, p, batch(0), batch(2), attention,
        {recipe_.dtype, models::parse_recompute(recipe_.recompute), balance_ > 0.0 ? &routing : nullptr});
    if (shared_ < n) {
      p.set(specs_[shared_].name, ops::cast(values[n], recipe_.dtype));
    }
    per_token = ops::cross_entropy(architecture_.logits(config_, p, hidden), batch(1))[0];
    Values parts{ops::mul(per_token, batch(4))};
    if (!routing.empty()) {
      balance = nn::balance_loss(routing);
      const auto all = static_cast<double>(recipe_.rounds * recipe_.grains);
      parts.push_back(ops::mul(balance, ops::full({}, balance_ / all)));
    }
    return Tensors{Tensor(ops::exact_sum(parts))};
  };
  Tensors parameters(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(n));
  if (shared_ < n) {
    parameters.push_back(arguments[shared_]);  // the second use: its gradient is summed over the batch on its own
  }
  if (want == Want::losses) {
    objective(parameters);
    return {per_token};
  }
  Tensors out = value_and_grad(objective)(parameters).gradients;
  if (want == Want::sums && shared_ < n) {
    out[shared_] = Tensor(ops::fan_in({out[shared_], out[n]}, DType::f32));
    out.pop_back();
  }
  // No grain's share where nothing is balanced.
  out.insert(out.begin(), {per_token, balance ? balance : Tensor(ops::full({0}, 0.0))});
  return out;
}

Tensors Stepper::batch_tensors(const data::Batch& b) const {
  const Shape shape{b.grains, b.tokens};
  return {Tensor::from(b.ids, shape), Tensor::from(b.targets, shape), Tensor::from(b.positions, shape),
          Tensor::from(b.starts, shape)};
}

/// Gradients of grains of one round: nodes of the element tree over them, at most micro_grains_ at a time. Where that
/// is not the whole global batch, the uses of a shared parameter stay apart (its second one last): the contract adds
/// them after the rounds.
Tensors Stepper::gradients(const nn::Parameters& parameters, const data::Batch& batch, float weight, Sums& sums) {
  if (batch.grains > micro_grains_) {
    const std::int64_t left = (batch.grains + 1) / 2;
    Tensors both = gradients(parameters, batch.part(0, left), weight, sums);
    Tensors right = gradients(parameters, batch.part(left, batch.grains - left), weight, sums);
    both.insert(both.end(), std::make_move_iterator(right.begin()), std::make_move_iterator(right.end()));
    return add_(both);
  }
  const Timed timed(timeline_, "gradients", Work::compute);
  Tensors out = gradient_step()(arguments_of(parameters, batch, weight), argument_types(batch.grains));
  add_losses(out[0], sums.loss);
  add_losses(out[1], sums.balance);
  grain_losses_.add(batch, out[0]);
  out.erase(out.begin() + 1);
  audit_.note(batch, out);
  out.erase(out.begin());
  return out;
}

/// Gradients of the global batch by parameter: over the grains of a round the tree that the ranks share, over the
/// rounds a left fold. Of several ranks each has its slices.
Tensors Stepper::sum_of_rounds(const nn::Parameters& parameters, const data::GlobalBatch& batch, float weight,
                               Sums& sums) {
  Tensors total;
  for (std::int64_t round = 0; round < recipe_.rounds; ++round) {
    Tensors g = shards_.reduce(recipe_.grains, [&](Span node) {
      return gradients(parameters, batch.part(round * recipe_.grains + node.begin, node.size()), weight, sums);
    });
    if (round == 0) {
      total = std::move(g);
    } else {
      total.insert(total.end(), std::make_move_iterator(g.begin()), std::make_move_iterator(g.end()));
      total = add_(Tensors(std::move(total)));
    }
  }
  if (shared_ < specs_.size() && !whole_batch()) {
    Tensors uses{std::move(total[shared_]), std::move(total.back())};
    total.pop_back();
    total[shared_] = join_(uses)[0];
  }
  return total;
}

std::vector<Span> Stepper::own_grains() const {
  const dist::TreeParts parts = shards_.parts_of(recipe_.grains);
  const Span mine = parts.parts[static_cast<std::size_t>(shards_.rank())];
  std::vector<Span> out;
  for (std::int64_t round = 0; round < recipe_.rounds; ++round) {
    out.push_back({round * recipe_.grains + mine.begin, round * recipe_.grains + mine.end});
  }
  return out;
}

StepResult Stepper::step(TrainState& state, const data::GlobalBatch& batch) {
  StepResult result;
  BatchCensus census;
  {
    const Timed timed(timeline_, "batch", Work::data);
    census = take_census(batch, own_grains(), grid_.data());
  }
  result.tokens = census.learned;
  result.batch_sha256 = std::move(census.sha256);
  require(result.tokens > 0, "step {}: the global batch has no token to learn", state.step);
  const float weight = 1.0F / static_cast<float>(result.tokens);
  Tensors total;
  {
    nn::Parameters gathered;
    if (shards_.cut_parameters()) {
      gathered = shards_.gather(state.parameters);
    }
    const nn::Parameters& parameters = shards_.cut_parameters() ? gathered : state.parameters;
    Sums mine;
    grain_losses_.start(batch.grains());
    audit_.start(state.step);
    total = sum_of_rounds(parameters, batch, weight, mine);
    const auto again = [&](const data::Batch& part) {
      Tensors out = gradient_step()(arguments_of(parameters, part, weight), argument_types(part.grains));
      out.erase(out.begin() + 1);  // the balance
      return out;
    };
    result.audited = audit_.check(batch, again, grid_.data());
    for (std::size_t i = 0; i < total.size(); ++i) {
      if (shards_.counts(i)) {
        add_squares(total[i], mine.squares);
      }
    }
    const std::vector<ExactSum> sums =
        dist::exact_all_reduce(shards_.ranks(), std::vector{mine.loss, mine.squares, mine.balance});
    result.grain_losses = grain_losses_.gather(shards_.ranks());
    result.loss = sums[0].round() / static_cast<double>(result.tokens);
    result.grad_norm = std::sqrt(sums[1].round_to_float());
    result.balance = sums[2].round() / static_cast<double>(recipe_.rounds * recipe_.grains);
    if (!std::isfinite(result.loss) || !std::isfinite(result.grad_norm)) {
      name_fault(state.step, parameters, batch, total);
    }
  }
  const auto clip = static_cast<float>(recipe_.clip);
  update(state, std::move(total), std::min(1.0F, clip / (result.grad_norm + 1e-6F)));
  ++state.step;
  state.tokens += result.tokens;
  return result;
}

/// AdamW where this rank's state lies: on whole tensors, or on its slices.
void Stepper::update(TrainState& state, Tensors gradients, float clip) {
  const Timed timed(timeline_, "update", Work::compute);
  const std::size_t n = specs_.size();
  const bool cut = shards_.cut_optimiser();
  if (!cut && shards_.size() > 1) {
    gradients = shards_.gather(gradients);
  }
  const auto t = static_cast<double>(state.step + 1);
  const auto scalars = [&](double decay) {
    return Tensor::from(
        std::vector<float>{static_cast<float>(learning_rate(recipe_, state.step)), static_cast<float>(recipe_.beta1),
                           static_cast<float>(recipe_.beta2), static_cast<float>(recipe_.eps),
                           static_cast<float>(decay), static_cast<float>(1.0 / (1.0 - fmath64::pow(recipe_.beta1, t))),
                           static_cast<float>(1.0 / (1.0 - fmath64::pow(recipe_.beta2, t))), clip},
        {8});
  };
  Tensors arguments;
  for (std::size_t i = 0; i < n; ++i) {
    const Tensor& p = state.parameters.at(specs_[i].name);
    arguments.push_back(cut && !shards_.cut_parameters() ? shards_.slice_of(i, p) : p);
  }
  for (const nn::Parameters* group : {&state.m, &state.v}) {
    for (const nn::ParameterSpec& s : specs_) {
      arguments.push_back(group->at(s.name));
    }
  }
  // The state lets go of its tensors, so that they can be updated where they lie.
  state.parameters = {};
  state.m = {};
  state.v = {};
  arguments.insert(arguments.end(), std::make_move_iterator(gradients.begin()),
                   std::make_move_iterator(gradients.end()));
  gradients.clear();
  arguments.push_back(scalars(recipe_.weight_decay));
  arguments.push_back(scalars(0.0));
  Tensors updated = update_(arguments);
  arguments.clear();
  for (std::size_t i = 0; i < n; ++i) {
    state.m.set(specs_[i].name, updated[n + i]);
    state.v.set(specs_[i].name, updated[2 * n + i]);
  }
  updated.resize(n);
  if (cut && !shards_.cut_parameters()) {
    updated = shards_.gather(updated);
  }
  for (std::size_t i = 0; i < n; ++i) {
    state.parameters.set(specs_[i].name, updated[i]);
  }
}

Span Stepper::own_share(const data::GlobalBatch& batch) const {
  const std::int64_t rank = shards_.rank(), size = shards_.size();
  return {batch.grains() * rank / size, batch.grains() * (rank + 1) / size};
}

void Stepper::for_own_parts(const data::GlobalBatch& batch,
                            const std::function<void(const data::Batch&, std::int64_t)>& each) const {
  const Span mine = own_share(batch);
  for (std::int64_t at = mine.begin; at < mine.end; at += micro_grains_) {
    each(batch.part(at, std::min(micro_grains_, mine.end - at)), at);
  }
}

double Stepper::evaluate(const TrainState& state, const data::GlobalBatch& batch) {
  const Span mine = own_share(batch);
  const BatchCensus census = take_census(batch, {&mine, 1}, grid_.data());
  nn::Parameters gathered;
  if (shards_.cut_parameters()) {
    gathered = shards_.gather(state.parameters);
  }
  const nn::Parameters& parameters = shards_.cut_parameters() ? gathered : state.parameters;
  ExactSum sum;
  for_own_parts(batch, [&](const data::Batch& part, std::int64_t) {
    add_losses(forward_(arguments_of(parameters, part, 1.0F), argument_types(part.grains))[0], sum);
  });
  return dist::exact_all_reduce(shards_.ranks(), sum).round() /
         static_cast<double>(std::max<std::int64_t>(1, census.learned));
}

std::int64_t Stepper::grains_at_once() const {
  std::int64_t most = 1;
  for (const Span node : shards_.parts_of(recipe_.grains).nodes(shards_.rank())) {
    most = std::max(most, std::min(node.size(), micro_grains_));
  }
  return most;
}

}  // namespace isotone::train
