#include "train/metrics.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

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

Metrics::Metrics(const std::string& out, std::int64_t from_step) : out_(out), path_(join_path(out, "metrics.jsonl")) {
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
      note(line, loss_, eval_);
    }
  }
}

void Metrics::add(const StepReport& s) {
  text_ += fmt::format(
      R"({{"step": {}, "loss": {:.9g}, "grad_norm": {:.9g}, "lr": {:.9g}, "tokens": {}, "tok_s": {:.1f}, "batch_sha256": "{}")",
      s.step, s.loss, s.grad_norm, s.lr, s.tokens, s.tok_s, s.batch_sha256);
  if (s.eval_loss >= 0.0) {
    text_ += fmt::format(R"(, "eval_loss": {:.9g})", s.eval_loss);
    eval_.points.emplace_back(s.step, s.eval_loss);
  }
  text_ += "}\n";
  loss_.points.emplace_back(s.step, s.loss);
  write_file_atomic(path_, text_);
}

std::string Metrics::draw() const {
  std::string path = join_path(out_, "loss.svg");
  std::vector<Curve> curves{loss_};
  if (!eval_.points.empty()) {
    curves.push_back(eval_);
  }
  write_file_atomic(path, loss_svg("loss a token", curves));
  return path;
}

}  // namespace isotone::train
