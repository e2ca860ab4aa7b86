#include "train/run.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/numerics.h"
#include "data/grains.h"
#include "models/load.h"
#include "models/tokenizer.h"
#include "train/checkpoint.h"
#include "train/plot.h"
#include "train/step.h"

namespace isotone::train {

namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

/// The model a recipe names, opened.
struct Setup {
  ModelConfig config;
  std::unique_ptr<ModelFiles> files;  // of the start model, or of the tokenizer's
  text::Tokenizer tokenizer;
  text::ChatTemplate chat;
  ModelText text;
  std::vector<nn::ParameterSpec> specs;
};

Setup open_setup(const Recipe& r) {
  if (!r.numerics.empty()) {
    set_numerics_profile(parse_numerics_profile(r.numerics));
  }
  Setup s;
  s.files = open_model(r.model.empty() ? r.tokenizer : r.model);
  s.config = r.model.empty() ? parse_model_config(read_text_file(r.config, 1 << 20), r.config) : s.files->config();
  s.tokenizer = models::load_tokenizer(*s.files);
  if (!s.files->chat_template().empty()) {
    s.chat = text::ChatTemplate(s.files->chat_template());
  }
  s.text = model_text_of(*s.files, s.tokenizer);
  ModelConfig f32 = s.config;
  f32.dtype = DType::f32;
  s.text.config_json = model_config_json(f32);
  require(s.tokenizer.vocab_size() <= s.config.vocab_size, "the tokenizer has {} tokens, the model only {}",
          s.tokenizer.vocab_size(), s.config.vocab_size);
  require(r.grain_tokens <= s.config.max_position, "data.grain_tokens is {}, over the model's {} positions",
          r.grain_tokens, s.config.max_position);
  s.specs = models::architecture_of(s.config).parameters(s.config);
  return s;
}

data::GrainStore read_data(const Recipe& r, const Setup& s, const std::vector<std::string>& files) {
  std::vector<data::Document> documents;
  for (const std::string& path : files) {
    std::vector<data::Document> more =
        r.kind == "chat" ? data::read_chats(path, s.tokenizer, s.chat) : data::read_text(path, s.tokenizer);
    std::move(more.begin(), more.end(), std::back_inserter(documents));
  }
  return {documents, r.grain_tokens, r.seed};
}

TrainState fresh_state(const Recipe& r, const Setup& s) {
  TrainState state;
  if (r.model.empty()) {
    state.parameters = nn::initialise(s.specs, r.seed);
  } else {
    const models::LoadedWeights loaded = models::load_weights(*s.files, models::WeightDtype::f32, false);
    for (const nn::ParameterSpec& p : s.specs) {
      // A copy of its own: the file's mapped pages must not be written to.
      const Tensor& t = loaded.parameters.at(p.name);
      state.parameters.set(p.name, Tensor::from_bytes(t.host(), t.type()));
    }
  }
  for (const nn::ParameterSpec& p : s.specs) {
    const std::vector<float> zeros(static_cast<std::size_t>(Type{DType::f32, p.shape}.elements()), 0.0F);
    state.m.set(p.name, Tensor::from(zeros, p.shape));
    state.v.set(p.name, Tensor::from(zeros, p.shape));
  }
  return state;
}

std::int64_t micro_grains_of(const Recipe& r, const RunOptions& o) {
  // About 2,048 tokens at once keep the kernels busy and the activations small.
  return o.micro_grains > 0 ? o.micro_grains : std::max<std::int64_t>(1, 2048 / r.grain_tokens);
}

/// metrics.jsonl: kept up to the step from which the run goes on, then appended to.
class Metrics {
 public:
  Metrics(const std::string& out, std::int64_t from_step) : path_(join_path(out, "metrics.jsonl")) {
    if (!path_exists(path_)) {
      return;
    }
    const std::string old = read_text_file(path_, std::uint64_t{1} << 30);
    for (std::size_t at = 0; at < old.size();) {
      std::size_t end = old.find('\n', at);
      end = end == std::string::npos ? old.size() : end;
      const json line = json::parse(old.substr(at, end - at), nullptr, false);
      at = end + 1;
      if (line.is_object() && line.value("step", std::int64_t{0}) >= 1 &&
          line.value("step", std::int64_t{0}) <= from_step) {
        text_ += line.dump() + "\n";
        note(line);
      }
    }
  }

  void add(const StepReport& s) {
    text_ += fmt::format(
        R"({{"step": {}, "loss": {:.9g}, "grad_norm": {:.9g}, "lr": {:.9g}, "tokens": {}, "tok_s": {:.1f}, "batch_sha256": "{}")",
        s.step, s.loss, s.grad_norm, s.lr, s.tokens, s.tok_s, s.batch_sha256);
    if (s.eval_loss >= 0.0) {
      text_ += fmt::format(R"(, "eval_loss": {:.9g})", s.eval_loss);
      eval_.points.emplace_back(s.step, s.eval_loss);
    }
    text_ += "}\n";
    loss_.points.emplace_back(s.step, s.loss);
    append();
  }

  std::string draw(const std::string& out) const {
    std::string path = join_path(out, "loss.svg");
    std::vector<Curve> curves{loss_};
    if (!eval_.points.empty()) {
      curves.push_back(eval_);
    }
    write_file_atomic(path, loss_svg("loss a token", curves));
    return path;
  }

 private:
  void note(const json& line) {
    if (line.contains("loss") && line["loss"].is_number()) {
      loss_.points.emplace_back(line["step"].get<double>(), line["loss"].get<double>());
    }
    if (line.contains("eval_loss") && line["eval_loss"].is_number()) {
      eval_.points.emplace_back(line["step"].get<double>(), line["eval_loss"].get<double>());
    }
  }
  void append() const { write_file_atomic(path_, text_); }

  std::string path_, text_;
  Curve loss_{"training", {}}, eval_{"validation", {}};
};

/// The newest checkpoint that verifies; damaged ones are told about.
std::optional<TrainState> find_checkpoint(const Recipe& r, const Setup& s, const RunOptions& o,
                                          const RunObserver& observer, std::string& from) {
  if (o.resume != "auto" && o.resume != "never") {
    from = o.resume;
    return load_checkpoint(o.resume, s.specs, r.fingerprint());
  }
  const std::vector<std::string> all = list_checkpoints(r.out);
  if (o.resume == "never") {
    require(all.empty(), "{}: there is a checkpoint already ({}); remove it, choose another --out, or resume", r.out,
            all.empty() ? "" : all[0]);
    return std::nullopt;
  }
  std::string first_fault;
  for (const std::string& folder : all) {
    try {
      TrainState state = load_checkpoint(folder, s.specs, r.fingerprint());
      from = folder;
      if (!first_fault.empty()) {
        observer.on_note(fmt::format("the last good checkpoint is {}", folder));
      }
      return state;
    } catch (const OtherRun&) {
      throw;
    } catch (const Error& e) {
      const std::string what = e.what();
      first_fault = first_fault.empty() ? what : first_fault;
      observer.on_note(fmt::format("damaged checkpoint left aside: {}", what));
    }
  }
  require(all.empty(), "{}: no checkpoint is good; the newest: {}", r.out, first_fault);
  return std::nullopt;
}

void prune(const Recipe& r) {
  const std::vector<std::string> all = list_checkpoints(r.out);
  for (std::size_t i = static_cast<std::size_t>(r.keep); i < all.size(); ++i) {
    remove_all(all[i]);
  }
}

}  // namespace

RunPlan plan_run(const Recipe& r, const RunOptions& o) {
  const Setup s = open_setup(r);
  RunPlan plan;
  plan.grains = r.rounds * r.grains;
  plan.micro_grains = std::min(micro_grains_of(r, o), r.grains);
  plan.tokens_a_step = plan.grains * r.grain_tokens;
  for (const nn::ParameterSpec& p : s.specs) {
    plan.parameters += Type{DType::f32, p.shape}.bytes();
  }
  plan.optimiser = 2 * plan.parameters;
  const bool partial = plan.micro_grains < r.grains || r.rounds > 1;
  plan.gradients = (partial ? 2 : 1) * plan.parameters;
  plan.activations = Stepper(s.config, r, plan.micro_grains).memory(plan.micro_grains).arena;
  return plan;
}

RunResult run(const Recipe& r, const RunOptions& o, const RunObserver& observer, const std::stop_token& stop) {
  Setup s = open_setup(r);
  make_folders(r.out);
  RunResult result;
  std::optional<TrainState> resumed = find_checkpoint(r, s, o, observer, result.checkpoint);
  TrainState state = resumed.has_value() ? std::move(*resumed) : fresh_state(r, s);
  resumed.reset();
  if (!result.checkpoint.empty()) {
    observer.on_note(fmt::format("going on from {} at step {}", result.checkpoint, state.step));
  }
  s.files.reset();  // its mapped pages are no longer needed
  const data::GrainStore store = read_data(r, s, r.files);
  std::optional<data::GrainStore> validation;
  if (r.eval_every > 0) {
    validation.emplace(read_data(r, s, r.validation));
  }
  Stepper stepper(s.config, r, micro_grains_of(r, o));
  result.planned_peak_bytes = stepper.memory(std::min(micro_grains_of(r, o), r.grains)).peak();
  Metrics metrics(r.out, state.step);
  const std::int64_t per_step = r.rounds * r.grains, first = state.step;
  std::int64_t saved_step = result.checkpoint.empty() ? -1 : state.step;
  const auto save = [&] {
    if (saved_step == state.step) {
      return;
    }
    const std::string folder = join_path(r.out, checkpoint_name(state.step));
    save_checkpoint(folder, state, s.text, r.fingerprint());
    saved_step = state.step;
    result.checkpoint = folder;
    prune(r);
    observer.on_note(fmt::format("saved {}", folder));
  };
  const auto begin = Clock::now();
  while (state.step < r.steps && !stop.stop_requested() && (o.stop_after == 0 || state.step - first < o.stop_after)) {
    const auto start = Clock::now();
    const data::Batch batch = store.stream(state.step * per_step, per_step);
    StepReport report;
    report.lr = learning_rate(r, state.step);
    report.batch_sha256 = batch.sha256();
    const StepResult done = stepper.step(state, batch);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    report.step = state.step;
    report.steps = r.steps;
    ++result.steps_done;
    report.loss = result.loss = done.loss;
    report.grad_norm = done.grad_norm;
    report.tokens = state.tokens;
    report.tok_s = static_cast<double>(batch.grains * batch.tokens) / seconds;
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    report.seconds_left = elapsed / static_cast<double>(state.step - first) * static_cast<double>(r.steps - state.step);
    if (validation.has_value() && (state.step % r.eval_every == 0 || state.step == r.steps)) {
      report.eval_loss = stepper.evaluate(state.parameters, validation->in_order(0, r.eval_grains));
    }
    metrics.add(report);
    observer.on_step(report);
    if (r.checkpoint_every > 0 && state.step % r.checkpoint_every == 0) {
      save();
      metrics.draw(r.out);
    }
  }
  save();
  result.curve = metrics.draw(r.out);
  result.step = state.step;
  result.finished = state.step >= r.steps;
  return result;
}

}  // namespace isotone::train
