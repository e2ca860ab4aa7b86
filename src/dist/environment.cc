#include "dist/environment.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "dist/gloo_ranks.h"
#include "dist/silent_rank.h"

namespace isotone::dist {

namespace {

struct Names {
  const char* rank;
  const char* size;
};
constexpr Names kLaunchers[] = {
    {"RANK", "WORLD_SIZE"}, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"SLURM_PROCID", "SLURM_NTASKS"}};
constexpr int kMostRanks = 1 << 16;

std::optional<std::string> text_of(const Lookup& lookup, const char* name) {
  const char* text = lookup(name);
  return text != nullptr && *text != 0 ? std::optional<std::string>(text) : std::nullopt;
}

int number(const char* name, const std::string& text, int low, int high) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  require(fault == std::errc() && end == text.data() + text.size() && low <= value && value <= high,
          "{} is '{}' in the environment; a whole number from {} to {} is meant", name, text, low, high);
  return value;
}

}  // namespace

RankEnvironment rank_environment(const Lookup& lookup) {
  RankEnvironment e;
  for (const Names& names : kLaunchers) {
    const auto rank = text_of(lookup, names.rank), size = text_of(lookup, names.size);
    if (!rank.has_value() && !size.has_value()) {
      continue;
    }
    require(rank.has_value() && size.has_value(), "{} is set in the environment but {} is not; a launcher sets both",
            rank ? names.rank : names.size, rank ? names.size : names.rank);
    e.size = number(names.size, *size, 1, kMostRanks);
    e.rank = number(names.rank, *rank, 0, e.size - 1);
    break;
  }
  if (e.size == 1) {
    return e;
  }
  const auto host = text_of(lookup, "MASTER_ADDR"), port = text_of(lookup, "MASTER_PORT");
  require(host.has_value() && port.has_value(),
          "rank {} of {} does not know where to meet the others: {} is not set; set it to rank 0's {}", e.rank, e.size,
          host ? "MASTER_PORT" : "MASTER_ADDR", host ? "free port" : "host");
  e.host = *host;
  e.port = number("MASTER_PORT", *port, 1, 65534);
  if (text_of(lookup, "TORCHELASTIC_USE_AGENT_STORE") == "True") {
    ++e.port;
  }
  return e;
}

std::unique_ptr<Communicator> join_world(const RankEnvironment& e, std::chrono::milliseconds timeout) {
  return e.size == 1 ? std::make_unique<SilentRank>() : join_gloo_ranks(e, timeout);
}

}  // namespace isotone::dist
