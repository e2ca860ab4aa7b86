// Packing: documents at multiples of 64 tokens, targets and masks as they were before, and streams whose slices do not
// depend on who reads them.
#include "data/grains.h"

#include <gtest/gtest.h>

#include "base/error_for_tests.h"
#include "base/philox.h"
#include "data/stream.h"

namespace isotone::data {
namespace {

Document document_of(std::int64_t length, std::int32_t first, std::int64_t every = 1) {
  Document d;
  for (std::int64_t i = 0; i < length; ++i) {
    d.ids.push_back(first + static_cast<std::int32_t>(i));
    d.learn.push_back(i % every == 0);
  }
  return d;
}

std::shared_ptr<MemoryGrains> packed(const std::vector<Document>& documents, std::int64_t tokens) {
  auto out = std::make_shared<MemoryGrains>(tokens);
  Packer packer(tokens, [&](std::span<const std::uint32_t> words) { out->add(words); });
  for (const Document& d : documents) {
    packer.add(d);
  }
  packer.finish();
  return out;
}

TEST(Packer, DocumentsBeginAtBlocksAndAreMasked) {
  const auto grains = packed({document_of(3, 10), document_of(1, 90), document_of(70, 100)}, 128);
  ASSERT_EQ(grains->size(), 2);
  Batch b;
  b.tokens = 128;
  append_grain(*grains, 0, b);
  append_grain(*grains, 1, b);
  const auto at = [&](const std::vector<std::int32_t>& v, std::size_t i) { return v[i]; };
  EXPECT_EQ(at(b.ids, 0), 10);
  EXPECT_EQ(at(b.targets, 0), 11);
  EXPECT_EQ(at(b.targets, 2), -1) << "the last token has no target";
  EXPECT_EQ(at(b.ids, 3), 0);
  EXPECT_EQ(at(b.targets, 63), -1);
  EXPECT_EQ(at(b.starts, 63), 0) << "padding goes on with the document before it";
  EXPECT_EQ(at(b.ids, 64), 100) << "a document of one token teaches nothing and is left out";
  EXPECT_EQ(at(b.starts, 64), 64);
  EXPECT_EQ(at(b.positions, 65), 1);
  EXPECT_EQ(at(b.targets, 127), -1) << "the grain ends";
  EXPECT_EQ(at(b.ids, 128), 164) << "what does not fit goes on as a document of its own";
  EXPECT_EQ(at(b.starts, 128), 0);
  EXPECT_EQ(at(b.positions, 128), 0);
  EXPECT_EQ(at(b.targets, 128), 165);
  EXPECT_EQ(at(b.targets, 133), -1);
  EXPECT_EQ(b.learned(), 2 + 63 + 5);
}

TEST(Packer, OnlyWhatIsLearnedHasATarget) {
  const auto grains = packed({document_of(64, 1, 3)}, 64);
  Batch b;
  b.tokens = 64;
  append_grain(*grains, 0, b);
  for (std::int32_t i = 0; i < 64; ++i) {
    EXPECT_EQ(b.targets[static_cast<std::size_t>(i)], i < 63 && (i + 1) % 3 == 0 ? i + 2 : -1) << i;
  }
}

TEST(Packer, AbsurdIdsAndNothingToLearn) {
  EXPECT_NE(error_of([] { packed({document_of(2, 1 << 30)}, 64); }).find("1073741824"), std::string::npos);
  EXPECT_NE(error_of([] { packed({document_of(2, -5)}, 64); }).find("-5"), std::string::npos);
  EXPECT_NE(error_of([] { packed({document_of(1, 5)}, 64); }).find("no token to learn"), std::string::npos);
  EXPECT_NE(error_of([] { packed({document_of(2, 5)}, 100); }).find("multiple of 64"), std::string::npos);
  const auto most = packed({document_of(2, (1 << 30) - 2)}, 64);
  Batch b;
  b.tokens = 64;
  append_grain(*most, 0, b);
  EXPECT_EQ(b.targets[0], (1 << 30) - 1);
}

/// Two sources whose grains all differ.
Stream make_stream(std::uint64_t seed) {
  std::vector<Document> a, b;
  for (std::int32_t i = 0; i < 7; ++i) {
    a.push_back(document_of(64, 1000 * i));
  }
  for (std::int32_t i = 0; i < 12; ++i) {
    b.push_back(document_of(64, 100'000 + 1000 * i));
  }
  return {{{"a", packed(a, 64)}, {"b", packed(b, 64)}}, Mixture({{0, {1, 2}}, {60, {1, 0}}}, seed), seed};
}

std::string hash_of(const GlobalBatch& batch) {
  std::vector<std::string> hashes;
  for (std::int64_t i = 0; i < batch.grains(); ++i) {
    hashes.push_back(batch.part(i, 1).grain_sha256(0));
  }
  return batch_sha256(batch.tokens(), hashes);
}

TEST(Stream, ABatchIsAFunctionOfItsNumber) {
  const Stream forward = make_stream(3), anywhere = make_stream(3), other = make_stream(4);
  std::vector<std::string> hashes;
  for (std::int64_t b = 0; b < 20; ++b) {
    hashes.push_back(hash_of(forward.batch(b * 5, 5)));
  }
  for (const std::int64_t b : {17, 3, 19, 0, 8}) {
    EXPECT_EQ(hash_of(anywhere.batch(b * 5, 5)), hashes[static_cast<std::size_t>(b)]) << b;
  }
  EXPECT_NE(hash_of(other.batch(0, 5)), hashes[0]);
}

TEST(Stream, SlicesOfAnyNumberOfRanksAreTheWhole) {
  const Stream stream = make_stream(9);
  const GlobalBatch batch = stream.batch(40, 12);
  const Batch whole = batch.part(0, 12);
  for (const std::int64_t world : {1, 2, 3, 5, 12, 13}) {
    Batch joined;
    for (std::int64_t rank = 0; rank < world; ++rank) {
      const std::int64_t begin = 12 * rank / world, end = 12 * (rank + 1) / world;
      const Batch mine = batch.part(begin, end - begin);
      EXPECT_EQ(mine.first, begin);
      joined.ids.insert(joined.ids.end(), mine.ids.begin(), mine.ids.end());
      joined.targets.insert(joined.targets.end(), mine.targets.begin(), mine.targets.end());
    }
    EXPECT_EQ(joined.ids, whole.ids) << world;
    EXPECT_EQ(joined.targets, whole.targets) << world;
  }
  EXPECT_NE(error_of([&] { static_cast<void>(batch.part(10, 3)); }).find("12"), std::string::npos);
}

/// Counts what is read of it.
class Counted : public MemoryGrains {
 public:
  Counted(std::int64_t grains, std::vector<std::int64_t>& seen) : MemoryGrains(64), seen_(seen) {
    for (std::int64_t i = 0; i < grains; ++i) {
      add(std::vector<std::uint32_t>(64, static_cast<std::uint32_t>(i)));
    }
  }
  [[nodiscard]] std::span<const std::uint32_t> words(std::int64_t i) const override {
    seen_.push_back(i);
    return MemoryGrains::words(i);
  }

 private:
  std::vector<std::int64_t>& seen_;
};

TEST(Stream, ASliceReadsItsGrainsOnlyHoweverFarItIs) {
  std::vector<std::int64_t> seen;
  const Stream stream({{"", std::make_shared<Counted>(1000, seen)}}, Mixture({{0, {1}}}, 1), 1);
  const GlobalBatch batch = stream.batch(std::int64_t{1} << 50, 64);
  EXPECT_TRUE(seen.empty());
  static_cast<void>(batch.part(16, 8));
  EXPECT_EQ(seen.size(), 8U);
}

TEST(BatchHash, SeesEveryTokenTargetAndMask) {
  const auto grains = packed({document_of(40, 1), document_of(40, 50)}, 128);
  const GlobalBatch whole = in_order(*grains, 5);
  EXPECT_EQ(whole.grains(), 1);
  const Batch b = whole.part(0, 1);
  const std::string hash = b.grain_sha256(0);
  for (std::vector<std::int32_t> Batch::*row : {&Batch::ids, &Batch::targets, &Batch::starts}) {
    Batch changed = b;
    ++(changed.*row)[77];
    EXPECT_NE(changed.grain_sha256(0), hash);
  }
  EXPECT_NE(batch_sha256(64, {hash, hash}), batch_sha256(128, {hash, hash}));
}

}  // namespace
}  // namespace isotone::data
