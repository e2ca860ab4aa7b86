// What a rank is doing when it talks to others: so that a wait that ends badly, and ranks that do different things, can
// be named.
#pragma once

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

namespace isotone::dist {

using Site = std::source_location;

class CallLog {
 public:
  /// Where the run is ("step 12"); in front of every call from here on. The same on every rank.
  void section(std::string text) { section_ = std::move(text); }
  void begin(std::string_view what, const Site& site);
  /// `outer`: what current() was before.
  void end(std::string outer);

  /// "step 12: all_gather", as the messages of this rank carry it; empty between calls.
  [[nodiscard]] const std::string& current() const { return current_; }
  /// The same with its number and where it was called from.
  [[nodiscard]] std::string here() const;
  /// The last calls, oldest first, a line each.
  [[nodiscard]] std::string last_calls() const;
  static constexpr std::size_t kCompared = 112;  ///< first bytes of current() that check() looks at
  /// Throws Error naming both where a message that rank `from` sent belongs to another call than this rank's.
  void check(int from, std::string_view theirs) const;

 private:
  struct Entry {
    std::uint64_t number = 0;
    std::string what, site;
  };
  static constexpr std::size_t kKept = 16;
  std::string section_, current_;
  std::vector<Entry> ring_;
  std::uint64_t calls_ = 0;
};

class Communicator;

/// Whether a call that is part of another is named itself: those inside of a collective made of others are not, a graph
/// that runs while its results are collected is.
enum class Within { other, itself };

/// A call for the time of its life.
class Call {
 public:
  /// `what`: the same on every rank that takes part.
  Call(Communicator& ranks, std::string_view what, const Site& site, Within within = Within::other);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  CallLog& log_;
  std::optional<std::string> outer_;
};

}  // namespace isotone::dist
