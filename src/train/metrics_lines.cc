#include "train/metrics_lines.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"

namespace isotone::train {
namespace {

using nlohmann::json;

MetricsLine line_of(const json& j) {
  MetricsLine m;
  m.step = j.at("step").get<std::int64_t>();
  m.tokens = j.at("tokens").get<std::int64_t>();
  m.loss = j.at("loss").get<double>();
  m.grad_norm = j.at("grad_norm").get<double>();
  m.lr = j.at("lr").get<double>();
  m.batch_sha256 = j.at("batch_sha256").get<std::string>();
  if (j.contains("eval_loss")) {
    m.eval_loss = j["eval_loss"].get<double>();
  }
  m.grain_losses = j.value("grain_losses", std::vector<std::string>());
  m.numerics = j.value("numerics", 0);
  m.profile = j.value("profile", "");
  m.recipe = j.value("recipe", "");
  return m;
}

}  // namespace

std::map<std::int64_t, MetricsLine> read_metrics(const std::string& out) {
  const std::string path = join_path(out, "metrics.jsonl");
  require(path_exists(path), "{}: there is no metrics.jsonl; name the out folder of a run", out);
  const std::string text = read_text_file(path, std::uint64_t{1} << 30);
  std::map<std::int64_t, MetricsLine> lines;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) {
      break;
    }
    ++number;
    try {
      MetricsLine m = line_of(json::parse(text.substr(at, end - at)));
      lines[m.step] = std::move(m);
    } catch (const json::exception& e) {
      fail("{}, line {}: is no line of metrics: {}", path, number, e.what());
    }
    at = end + 1;
  }
  return lines;
}

}  // namespace isotone::train
