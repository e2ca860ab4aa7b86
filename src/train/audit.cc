#include "train/audit.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "base/philox.h"
#include "dist/agree.h"
#include "dist/collectives.h"
#include "train/workers.h"

namespace isotone::train {
namespace {

using Numbers = std::vector<std::uint64_t>;

std::uint64_t hash_of(const Tensor& t) {
  const void* host = t.host();
  return host == nullptr ? xxh3_64(t.to_bytes()) : xxh3_64({static_cast<const std::byte*>(host), t.type().bytes()});
}

std::string grains_text(std::int64_t first, std::int64_t grains) {
  return grains == 1 ? fmt::format("grain {}", first) : fmt::format("grains {} to {}", first, first + grains - 1);
}

std::int64_t digits(std::string_view text) {
  std::int64_t n = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), n);
  return code == std::errc() && end == text.data() + text.size() ? n : -1;
}

}  // namespace

double parse_share(std::string_view text) {
  const std::size_t slash = text.find('/');
  const std::int64_t part = digits(text.substr(0, slash));
  const std::int64_t whole = slash == std::string_view::npos ? 1 : digits(text.substr(slash + 1));
  require(part >= 1 && whole >= part, "--audit takes a share such as 1/100, at most 1; got '{}'", text);
  return static_cast<double>(part) / static_cast<double>(whole);
}

Audit::Audit(AuditOptions options, std::uint64_t seed, std::vector<std::string> names)
    : options_(std::move(options)), seed_(seed), names_(std::move(names)) {}

void Audit::start(std::int64_t step) {
  step_ = step;
  noted_.clear();
}

Audit::Record Audit::record_of(const data::Batch& part, const Tensors& results) {
  Record r{part.first, part.grains, {}, {}};
  const std::vector<std::byte> losses = results[0].to_bytes();
  const std::size_t a_grain = losses.size() / static_cast<std::size_t>(part.grains);
  for (std::size_t i = 0; i < static_cast<std::size_t>(part.grains); ++i) {
    r.losses.push_back(xxh3_64(std::span(losses).subspan(i * a_grain, a_grain)));
  }
  for (std::size_t i = 1; i < results.size(); ++i) {
    r.gradients.push_back(hash_of(results[i]));
  }
  return r;
}

void Audit::note(const data::Batch& part, const Tensors& results) {
  if (options_.share <= 0.0) {
    return;
  }
  const auto step = static_cast<std::uint64_t>(step_);
  const std::uint32_t drawn = Philox(seed_, "audit")
                                  .bits(static_cast<std::uint64_t>(part.first), static_cast<std::uint32_t>(step),
                                        static_cast<std::uint32_t>(step >> 32));
  if (static_cast<double>(drawn) < options_.share * 0x1p32) {
    noted_.push_back(record_of(part, results));
  }
}

/// Every rank's records, by rank.
std::vector<std::vector<Audit::Record>> Audit::exchange(const std::vector<Record>& mine, dist::Communicator& ranks) {
  Numbers flat;
  for (const Record& r : mine) {
    flat.insert(flat.end(), {static_cast<std::uint64_t>(r.first), static_cast<std::uint64_t>(r.grains),
                             static_cast<std::uint64_t>(r.gradients.size())});
    flat.insert(flat.end(), r.losses.begin(), r.losses.end());
    flat.insert(flat.end(), r.gradients.begin(), r.gradients.end());
  }
  const auto bytes = std::as_bytes(std::span(flat));
  std::vector<std::vector<Record>> all;
  for (const dist::Message& m : dist::all_gather(ranks, dist::Message(bytes.begin(), bytes.end()))) {
    Numbers theirs(m.size() / sizeof(std::uint64_t));
    std::memcpy(theirs.data(), m.data(), theirs.size() * sizeof(std::uint64_t));
    all.emplace_back();
    for (auto at = theirs.begin(); at != theirs.end();) {
      Record r;
      r.first = static_cast<std::int64_t>(*at++);
      r.grains = static_cast<std::int64_t>(*at++);
      const auto gradients = static_cast<std::ptrdiff_t>(*at++);
      r.losses.assign(at, at + static_cast<std::ptrdiff_t>(r.grains));
      at += static_cast<std::ptrdiff_t>(r.grains);
      r.gradients.assign(at, at + gradients);
      at += gradients;
      all.back().push_back(std::move(r));
    }
  }
  return all;
}

Audit::Record Audit::again(const data::GlobalBatch& batch, const Record& noted, const Compute& compute,
                           bool elsewhere) const {
  const data::Batch part = batch.part(noted.first, noted.grains);
  Record r;
  const auto body = [&] { r = record_of(part, compute(part)); };
  if (elsewhere && options_.elsewhere) {
    options_.elsewhere(body);
  } else {
    body();
  }
  return r;
}

std::string Audit::difference(const Record& noted, const Record& checked) const {
  for (std::size_t i = 0; i < noted.losses.size(); ++i) {
    if (noted.losses[i] != checked.losses[i]) {
      return fmt::format("the losses of grain {}", noted.first + static_cast<std::int64_t>(i));
    }
  }
  for (std::size_t i = 0; i < noted.gradients.size(); ++i) {
    if (noted.gradients[i] != checked.gradients[i]) {
      return fmt::format("the gradient of '{}' over {}", i < names_.size() ? names_[i] : fmt::format("use {}", i),
                         grains_text(noted.first, noted.grains));
    }
  }
  return "";
}

/// Everybody computes the grains once more. `tries`: the first result and its check. What most agree on is taken for
/// right, and whoever gave something else is named.
std::string Audit::verdict(const std::vector<Record>& tries, const data::GlobalBatch& batch, const Compute& compute,
                           int producer, dist::Communicator& ranks) const {
  const bool alone = ranks.size() == 1;
  std::vector<Record> votes;
  std::vector<std::string> voters;
  if (alone) {
    votes = {again(batch, tries[0], compute, false), again(batch, tries[0], compute, true)};
    voters = {"the kernels in use", "the kernels of the check"};
  } else {
    for (const std::vector<Record>& r : exchange({again(batch, tries[0], compute, false)}, ranks)) {
      votes.push_back(r.at(0));
    }
    const std::vector<std::string> hosts = dist::texts_of_ranks(ranks, host_name());
    for (std::size_t r = 0; r < hosts.size(); ++r) {
      voters.push_back(fmt::format("rank {} on {}", r, hosts[r]));
    }
  }
  const auto right = std::find_if(votes.begin(), votes.end(), [&](const Record& v) {
    return 2 * std::count(votes.begin(), votes.end(), v) > static_cast<std::ptrdiff_t>(votes.size());
  });
  if (right == votes.end()) {
    return "computed once more they still differ, and there is no majority: either may be wrong";
  }
  std::vector<std::string> wrong;
  for (std::size_t i = 0; i < votes.size(); ++i) {
    if (votes[i] != *right) {
      wrong.push_back(voters[i] + " (again)");
    }
  }
  const std::size_t first = alone ? 0 : static_cast<std::size_t>(producer);
  const std::size_t second = alone ? 1 : static_cast<std::size_t>((producer + 1) % ranks.size());
  if (tries[0] != *right && votes[first] == *right) {
    wrong.push_back(voters[first] + " (the first time only)");
  }
  if (tries[1] != *right && votes[second] == *right) {
    wrong.push_back(voters[second] + " (in the check only)");
  }
  return fmt::format("all workers computed it once more, and against the majority stands: {}", fmt::join(wrong, ", "));
}

std::int64_t Audit::check(const data::GlobalBatch& batch, const Compute& compute, dist::Communicator& ranks) const {
  if (options_.share <= 0.0) {
    return 0;
  }
  const std::vector<std::vector<Record>> all = exchange(noted_, ranks);
  const int before = (ranks.rank() + ranks.size() - 1) % ranks.size();
  std::vector<Record> mine;
  for (const Record& r : all[static_cast<std::size_t>(before)]) {
    mine.push_back(again(batch, r, compute, ranks.size() == 1));
  }
  const std::vector<std::vector<Record>> checked = exchange(mine, ranks);
  std::int64_t grains = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    const std::size_t next = (r + 1) % all.size();
    for (std::size_t i = 0; i < all[r].size(); ++i) {
      grains += all[r][i].grains;
      const std::string what = difference(all[r][i], checked[next][i]);
      if (what.empty()) {
        continue;
      }
      const std::vector<std::string> hosts = dist::texts_of_ranks(ranks, host_name());
      const std::string who = all.size() == 1 ? fmt::format("rank 0 of 1 on {} computed them twice", hosts[0])
                                              : fmt::format("rank {} of {} on {} and then rank {} on {} computed them",
                                                            r, all.size(), hosts[r], next, hosts[next]);
      fail(
          "step {}: the audit found a chip that computes wrongly: {} have other bits the second time; {}; {}. The step "
          "is not kept and the last checkpoint is whole: leave that machine out and run the same command",
          step_, what, who, verdict({all[r][i], checked[next][i]}, batch, compute, static_cast<int>(r), ranks));
    }
  }
  return grains;
}

}  // namespace isotone::train
