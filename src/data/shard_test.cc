// Shards: what was written comes back; whatever is damaged, cut or absurd is named.
#include "data/shard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error_for_tests.h"

namespace isotone::data {
namespace {

class ShardTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "shards-" + std::to_string(getpid());
    std::filesystem::remove_all(folder_);
    make_folders(folder_);
    path_ = join_path(folder_, "a-00000.grains");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::uint32_t> grain(std::uint32_t number) {
    std::vector<std::uint32_t> words(64);
    for (std::uint32_t i = 0; i < 64; ++i) {
      words[i] = (number << 8) | i | (i == 0 ? kStarts : kLearned);
    }
    return words;
  }

  static void write(const std::string& path, std::uint32_t first, std::uint32_t count) {
    ShardWriter writer(path, 64);
    for (std::uint32_t i = first; i < first + count; ++i) {
      writer.add(grain(i));
    }
    writer.finish();
  }

  std::string said_after(const std::function<void(std::string&)>& change) {
    write(path_, 0, 5);
    std::string bytes = read_text_file(path_);
    change(bytes);
    write_file_atomic(path_, bytes);
    return error_of([&] {
      const Shard shard(path_, 64);
      for (std::int64_t i = 0; i < shard.grains(); ++i) {
        static_cast<void>(shard.words(i));
      }
    });
  }

  std::string folder_, path_;
};

TEST_F(ShardTest, GivesBackWhatWasWritten) {
  write(path_, 0, 5);
  const std::string second = join_path(folder_, "a-00001.grains");
  write(second, 5, 3);
  const ShardedGrains grains({path_, second}, 64, 8);
  MemoryGrains memory(64);
  for (std::uint32_t i = 0; i < 8; ++i) {
    const auto words = grains.words(i);
    EXPECT_EQ(std::vector<std::uint32_t>(words.begin(), words.end()), grain(i)) << i;
    memory.add(grain(i));
  }
  EXPECT_EQ(grains.sha256(), memory.sha256()) << "the hash does not show how the data is kept";
  EXPECT_NE(error_of([&] { static_cast<void>(grains.words(8)); }).find("no grain 8"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(grains.words(-1)); }), "");
  EXPECT_NE(error_of([&] {
              const ShardedGrains other({path_, second}, 64, 9);
            }).find("8 grains, not 9"),
            std::string::npos);
}

TEST_F(ShardTest, MoreThanTheBufferHolds) {
  write(path_, 0, 9000);
  const Shard shard(path_, 64);
  EXPECT_EQ(shard.grains(), 9000);
  const auto words = shard.words(8999);
  EXPECT_EQ(std::vector<std::uint32_t>(words.begin(), words.end()), grain(8999));
}

TEST_F(ShardTest, EveryFlippedBitIsSeen) {
  write(path_, 0, 5);
  const std::size_t size = read_text_file(path_).size();
  ASSERT_EQ(size, 128U + 5U * (256U + 8U));
  for (std::size_t at = 0; at < size; at += at < 128 ? 1 : 13) {
    const std::string said = said_after([&](std::string& bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 4); });
    EXPECT_NE(said.find(path_), std::string::npos) << at << ": " << said;
    if (at >= 128) {
      EXPECT_NE(said.find("grain " + std::to_string((at - 128) / 264) + " is damaged"), std::string::npos) << said;
    }
  }
}

TEST_F(ShardTest, CutAndForeignFilesAreNamed) {
  for (const std::size_t length : {0U, 1U, 127U, 128U, 200U, 128U + 264U, 128U + 5U * 264U - 1U}) {
    const std::string said = said_after([&](std::string& bytes) { bytes.resize(length); });
    EXPECT_NE(said.find(path_), std::string::npos) << length << ": " << said;
  }
  EXPECT_NE(said_after([](std::string& bytes) { bytes += "more"; }).find("5 grains"), std::string::npos);
  EXPECT_NE(said_after([](std::string& bytes) { bytes = std::string(500, 'x'); }).find("no shard"), std::string::npos);
  write(path_, 0, 5);
  EXPECT_NE(error_of([&] { const Shard shard(path_, 128); }).find("64 tokens, not of 128"), std::string::npos);
  EXPECT_NE(error_of([&] { const Shard shard(folder_ + "/none.grains", 64); }).find("none.grains"), std::string::npos);
}

TEST_F(ShardTest, AWriterThatDoesNotFinishLeavesNoShard) {
  {
    ShardWriter writer(path_, 64);
    for (std::uint32_t i = 0; i < 9000; ++i) {
      writer.add(grain(i));
    }
  }
  EXPECT_NE(error_of([&] { const Shard shard(path_, 64); }).find("no shard"), std::string::npos);
}

}  // namespace
}  // namespace isotone::data
