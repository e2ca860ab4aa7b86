// Stop strings cut in every place, several at once, overlapping, and never shown.
#include "serve/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace isotone::serve {
namespace {

/// Feeds `text` cut at the bits of `cuts` (bit i: a cut after byte i); checks that nothing shown is taken back.
std::string run(const std::string& text, const std::vector<std::string>& stops, unsigned cuts, bool* matched) {
  StopMatcher matcher(stops);
  std::string shown;
  std::string piece;
  for (std::size_t i = 0; i < text.size(); ++i) {
    piece += text[i];
    if (((cuts >> i) & 1U) != 0 || i + 1 == text.size()) {
      shown += matcher.push(piece);
      piece.clear();
    }
  }
  shown += matcher.finish();
  *matched = matcher.matched();
  return shown;
}

TEST(StopMatcher, EveryWayToCutAText) {
  struct Case {
    std::string text;
    std::vector<std::string> stops;
    std::string shown;
    bool matched;
  };
  const std::vector<Case> cases = {
      {"ab##c##END", {"##END"}, "ab##c", true},
      {"aabaabaac", {"aabaac"}, "aab", true},
      {"abcabcab", {"abcabd"}, "abcabcab", false},
      {"hello", {"lo", "ll"}, "he", true},
      {"xSTOP", {"STOP"}, "x", true},
      {"xSTO", {"STOP"}, "xSTO", false},
      {"STOPx", {"STOP"}, "", true},
      {"one", {}, "one", false},
      {"xabcd", {"abcd", "bc"}, "xa", true},
      {"xabc", {"bc", "abc"}, "x", true},
  };
  for (const Case& c : cases) {
    for (unsigned cuts = 0; cuts < (1U << (c.text.size() - 1)); ++cuts) {
      bool matched = false;
      ASSERT_EQ(run(c.text, c.stops, cuts, &matched), c.shown) << c.text << " cuts " << cuts;
      ASSERT_EQ(matched, c.matched);
    }
  }
}

TEST(StopMatcher, NeverShowsPartOfAStopStringEarly) {
  StopMatcher matcher({"<end>"});
  EXPECT_EQ(matcher.push("a<e"), "a");
  EXPECT_EQ(matcher.push("nd"), "");
  EXPECT_EQ(matcher.push("x"), "<endx");
  EXPECT_EQ(matcher.push("y<end>z"), "y");
  EXPECT_EQ(matcher.stop(), "<end>");
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopMatcher, FirstToBeCompleteWinsNotTheFirstListed) {
  StopMatcher matcher({"zz", "b"});
  EXPECT_EQ(matcher.push("abzz"), "a");
  EXPECT_EQ(matcher.stop(), "b");
}

TEST(StopMatcher, ShowsWholeCharactersOnly) {
  StopMatcher matcher({"\xC3\xA9!"});  // é!
  EXPECT_EQ(matcher.push("x\xC3\xA9"), "x");
  EXPECT_EQ(matcher.push("?"), "\xC3\xA9?");
}

TEST(StopMatcher, RefusesAnEmptyString) {
  EXPECT_THROW(StopMatcher({""}), Error);
}

}  // namespace
}  // namespace isotone::serve
