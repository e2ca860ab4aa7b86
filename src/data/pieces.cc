#include "data/pieces.h"

#include <optional>

#include "base/error.h"
#include "base/parallel.h"

namespace isotone::data {

void PieceQueue::push(std::string_view text, std::int64_t number) {
  constexpr std::size_t kMostPieces = 512, kMostBytes = std::size_t{4} << 20;
  waiting_.push_back({text, number});
  bytes_ += text.size();
  if (waiting_.size() >= kMostPieces || bytes_ >= kMostBytes) {
    flush();
  }
}

void PieceQueue::flush() {
  std::vector<Document> documents(waiting_.size());
  std::vector<std::optional<std::string>> faults(waiting_.size());
  parallel_for(static_cast<std::int64_t>(waiting_.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      try {
        documents[i] = encode_(waiting_[i].text);
      } catch (const std::exception& e) {
        faults[i] = e.what();  // bodies of parallel_for must not throw
      }
    }
  });
  for (std::size_t i = 0; i < waiting_.size(); ++i) {
    if (faults[i].has_value()) {
      fail("{}{}: {}", name_, waiting_[i].number > 0 ? fmt::format(", {} {}", unit_, waiting_[i].number) : "",
           *faults[i]);
    }
    if (!documents[i].ids.empty()) {
      sink_(documents[i]);
      ++documents_;
    }
  }
  waiting_.clear();
  bytes_ = 0;
}

}  // namespace isotone::data
