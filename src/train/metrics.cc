#include "train/metrics.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/numerics.h"
#include "base/tree.h"
#include "train/grain_hashes.h"

namespace isotone::train {
namespace {

using nlohmann::json;

void note(const json& line, Curve& loss, Curve& eval) {
  if (line.contains("loss") && line["loss"].is_number()) {
    loss.points.emplace_back(line["step"].get<double>(), line["loss"].get<double>());
  }
  if (line.contains("eval_loss") && line["eval_loss"].is_number()) {
    eval.points.emplace_back(line["step"].get<double>(), line["eval_loss"].get<double>());
  }
}

}  // namespace

Metrics::Metrics(const std::string& out, std::int64_t from_step, const std::string& recipe)
    : out_(out),
      origin_(fmt::format(R"("numerics": {}, "profile": "{}", "recipe": "{}")", kNumericsVersion,
                          numerics_profile_name(numerics_profile()), recipe.substr(0, 16))) {
  const std::string path = join_path(out, "metrics.jsonl");
  const std::string old = path_exists(path) ? read_text_file(path, std::uint64_t{1} << 30) : "";
  std::string kept;
  for (std::size_t at = 0; at < old.size();) {
    std::size_t end = old.find('\n', at);
    end = end == std::string::npos ? old.size() : end;
    const std::string text = old.substr(at, end - at);
    const json line = json::parse(text, nullptr, false);  // a process that was killed may have left half a line
    at = end + 1;
    if (line.is_object() && line.contains("step") && line["step"].is_number_integer() && line["step"] >= 1 &&
        line["step"] <= from_step) {
      kept += text + "\n";
      note(line, loss_, eval_);
    }
  }
  write_file_atomic(path, kept);
  size_ = kept.size();
  file_.emplace(path);
}

void Metrics::add(const StepReport& s) {
  std::string line = fmt::format(
      R"({{"step": {}, "loss": {}, "grad_norm": {}, "lr": {}, "tokens": {}, "tok_s": {:.1f}, "batch_sha256": "{}", )",
      s.step, s.loss, s.grad_norm, s.lr, s.tokens, s.tok_s, s.batch_sha256);
  if (s.balance > 0.0) {
    line += fmt::format(R"("balance_loss": {}, )", s.balance);
  }
  if (s.eval_loss >= 0.0) {
    line += fmt::format(R"("eval_loss": {}, )", s.eval_loss);
    eval_.points.emplace_back(s.step, s.eval_loss);
  }
  line += fmt::format(
      "\"grain_losses\": [\"{}\"], {}, \"cost\": {{\"seconds\": {:.6f}, \"communication_share\": {:.4f}, "
      "\"peak_share\": "
      "{:.4f}, \"sent_bytes\": {}, \"received_bytes\": {}, \"planned_bytes\": {}, \"resident_bytes\": {}}}}}\n",
      fmt::join(grain_hash_texts(s.grain_losses), "\", \""), origin_, s.cost.seconds, s.cost.communication_share,
      s.cost.peak_share, s.cost.sent_bytes, s.cost.received_bytes, s.cost.planned_bytes, s.cost.resident_bytes);
  loss_.points.emplace_back(s.step, s.loss);
  file_->write_at(size_, std::as_bytes(std::span(line)));
  size_ += line.size();
}

std::string Metrics::draw() {
  file_->sync();
  std::string path = join_path(out_, "loss.svg");
  std::vector<Curve> curves{loss_};
  if (!eval_.points.empty()) {
    curves.push_back(eval_);
  }
  write_file_atomic(path, loss_svg("loss a token", curves));
  return path;
}

}  // namespace isotone::train
