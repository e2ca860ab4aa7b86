#include "dist/agree.h"

#include <algorithm>
#include <exception>
#include <span>

#include "base/error.h"
#include "dist/collectives.h"

namespace isotone::dist {
namespace {

Message message_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const Message& m) {
  return {reinterpret_cast<const char*>(m.data()), m.size()};
}

}  // namespace

std::vector<std::string> texts_of_ranks(Communicator& ranks, const std::string& text, const Site& site) {
  const Call call(ranks, "texts_of_ranks", site);
  std::vector<std::string> out;
  for (const Message& m : all_gather(ranks, message_of(text))) {
    out.push_back(text_of(m));
  }
  return out;
}

std::string text_of_rank_0(Communicator& ranks, std::string text, const Site& site) {
  const Call call(ranks, "text_of_rank_0", site);
  return text_of(broadcast(ranks, 0, message_of(text)));
}

void together(Communicator& ranks, const std::function<void()>& body, const Site& site) {
  const Call call(ranks, "together", site);
  std::exception_ptr mine;
  std::string what;
  try {
    body();
  } catch (const Error& e) {
    mine = std::current_exception();
    what = e.what();
  }
  const std::vector<std::string> all = texts_of_ranks(ranks, what);
  const auto first = std::find_if(all.begin(), all.end(), [](const std::string& s) { return !s.empty(); });
  if (first == all.end()) {
    return;
  }
  if (*first == what) {
    std::rethrow_exception(mine);
  }
  fail("rank {}: {}", first - all.begin(), *first);
}

bool every_rank(Communicator& ranks, bool mine, const Site& site) {
  const Call call(ranks, "every_rank", site);
  return !any_rank(ranks, !mine);
}

bool any_rank(Communicator& ranks, bool mine, const Site& site) {
  const Call call(ranks, "any_rank", site);
  const std::vector<std::string> all = texts_of_ranks(ranks, mine ? "y" : "n");
  return std::find(all.begin(), all.end(), "y") != all.end();
}

}  // namespace isotone::dist
