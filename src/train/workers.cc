#include "train/workers.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "dist/agree.h"
#include "dist/sliced_collectives.h"

namespace isotone::train {
namespace {

using nlohmann::json;

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "an unnamed host";
}

std::vector<Session> read_sessions(const std::string& out) {
  const std::string path = join_path(out, kWorkersFile);
  const std::string text = path_exists(path) ? read_text_file(path, kMostBytes) : "";
  std::vector<Session> sessions;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const json line = json::parse(text.substr(at, end - at), nullptr, false);
    at = end + 1;
    const auto hosts = line.is_object() ? line.find("hosts") : line.end();
    if (!line.is_object() || !line.contains("from_step") || !line["from_step"].is_number_integer() ||
        hosts == line.end() || !hosts->is_array() || hosts->empty() ||
        !std::all_of(hosts->begin(), hosts->end(), [](const json& h) { return h.is_string(); })) {
      continue;
    }
    const json model = line.value("model_ranks", json(1));
    const int group = model.is_number_integer() ? model.get<int>() : 1;
    if (group < 1 || hosts->size() % static_cast<std::size_t>(group) != 0) {
      continue;
    }
    sessions.push_back({line["from_step"].get<std::int64_t>(), hosts->get<std::vector<std::string>>(), group});
  }
  return sessions;
}

void note_session(const std::string& out, std::int64_t from_step, dist::Communicator& ranks, int model_ranks) {
  const std::vector<std::string> hosts = dist::texts_of_ranks(ranks, host_name());
  dist::together(ranks, [&] {
    if (ranks.rank() != 0) {
      return;
    }
    std::vector<Session> sessions = read_sessions(out);
    std::erase_if(sessions, [&](const Session& s) { return s.from_step >= from_step; });
    sessions.push_back({from_step, hosts, model_ranks});
    std::string text;
    for (const Session& s : sessions) {
      text += json{{"from_step", s.from_step}, {"hosts", s.hosts}, {"model_ranks", s.model_ranks}}.dump(
                  -1, ' ', false, json::error_handler_t::replace) +
              "\n";
    }
    write_file_atomic(join_path(out, kWorkersFile), text);
  });
}

const Session* session_of(const std::vector<Session>& sessions, std::int64_t step) {
  const Session* found = nullptr;
  for (const Session& s : sessions) {
    found = s.from_step < step ? &s : found;
  }
  return found;
}

int rank_of_grain(std::int64_t grain, std::int64_t round_grains, const Session& session) {
  const int ranks = session.ranks() / session.model_ranks;
  const dist::TreeParts parts(ReductionTree(TreeKind::element, round_grains), ranks);
  const std::int64_t in_round = grain % round_grains;
  for (int r = 0; r < ranks; ++r) {
    const Span mine = parts.parts[static_cast<std::size_t>(r)];
    if (mine.begin <= in_round && in_round < mine.end) {
      return r * session.model_ranks;
    }
  }
  return 0;
}

}  // namespace isotone::train
