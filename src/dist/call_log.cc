#include "dist/call_log.h"

#include "base/error.h"
#include "dist/communicator.h"

namespace isotone::dist {

namespace {

/// The path from the source folder on.
std::string short_site(const Site& site) {
  const std::string_view path = site.file_name();
  const std::size_t at = path.rfind("src/");
  return fmt::format("{}:{}", at == std::string_view::npos ? path : path.substr(at), site.line());
}

}  // namespace

void CallLog::begin(std::string_view what, const Site& site) {
  current_ = section_.empty() ? std::string(what) : fmt::format("{}: {}", section_, what);
  Entry entry{calls_++, current_, short_site(site)};
  if (ring_.size() < kKept) {
    ring_.push_back(std::move(entry));
  } else {
    ring_[entry.number % kKept] = std::move(entry);
  }
}

void CallLog::end(std::string outer) {
  current_ = std::move(outer);
}

std::string CallLog::here() const {
  if (current_.empty()) {
    return calls_ == 0 ? "before the first call" : fmt::format("after call {}", calls_);
  }
  const Entry& e = ring_[(calls_ - 1) % kKept];
  return fmt::format("{} (call {}, {})", e.what, calls_, e.site);
}

std::string CallLog::last_calls() const {
  std::string out;
  for (std::uint64_t i = calls_ > kKept ? calls_ - kKept : 0; i < calls_; ++i) {
    const Entry& e = ring_[i % kKept];
    out += fmt::format("{}call {}: {} ({})", out.empty() ? "" : "\n", e.number + 1, e.what, e.site);
  }
  return out;
}

void CallLog::check(int from, std::string_view theirs) const {
  require(theirs == std::string_view(current_).substr(0, kCompared),
          "ranks do different things: this one is in {}, rank {} in {}; the last calls here:\n{}",
          current_.empty() ? here() : "'" + here() + "'", from,
          theirs.empty() ? "no collective" : fmt::format("'{}'", theirs), last_calls());
}

Call::Call(Communicator& ranks, std::string_view what, const Site& site, Within within) : log_(ranks.calls()) {
  if (log_.current().empty() || within == Within::itself) {
    outer_ = log_.current();
    log_.begin(what, site);
  }
}

Call::~Call() {
  if (outer_) {
    log_.end(std::move(*outer_));
  }
}

}  // namespace isotone::dist
