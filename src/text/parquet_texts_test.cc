// Columns of texts of files that Arrow wrote: every codec and encoding gives the same rows; what is wrong is named.
#include "text/parquet_texts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error_for_tests.h"
#include "base/file.h"

namespace isotone::text {
namespace {

using Rows = std::vector<std::optional<std::string>>;

std::string golden(const std::string& name) {
  return std::string(ISOTONE_SOURCE_DIR) + "/tests/goldens/parquet/" + name + ".parquet";
}

Rows all_rows(const std::string& path, const std::string& column, std::size_t most) {
  ParquetTexts texts(path, column);
  Rows out;
  for (Rows rows = texts.next(most); !rows.empty(); rows = texts.next(most)) {
    EXPECT_LE(rows.size(), most);
    out.insert(out.end(), rows.begin(), rows.end());
  }
  EXPECT_TRUE(texts.next(most).empty()) << "the end stays the end";
  return out;
}

Rows expected() {
  return {"The sea is deep.", std::nullopt,         "Grüße von der Küste – 海は深い", "", "two\nlines",
          "The sea is deep.", std::string(300, 'x')};
}

TEST(ParquetTexts, EveryCodecAndBatchSizeGivesTheSameRows) {
  for (const std::string codec : {"snappy", "zstd", "gzip", "none"}) {
    for (const std::size_t most : {1, 2, 3, 4, 100}) {
      EXPECT_EQ(all_rows(golden(codec), "text", most), expected()) << codec << ", " << most;
    }
  }
}

TEST(ParquetTexts, ColumnsInStructsAndColumnsWithoutNulls) {
  const Rows inner = all_rows(golden("snappy"), "inner.body", 3);
  ASSERT_EQ(inner.size(), 7U);
  EXPECT_EQ(inner[0], "THE SEA IS DEEP.");
  EXPECT_EQ(inner[1], std::nullopt);
  const Rows always = all_rows(golden("none"), "always", 2);
  ASSERT_EQ(always.size(), 7U);
  EXPECT_EQ(always[1], "-");
  EXPECT_EQ(always[6], std::string(300, 'x'));
}

std::string said(const std::string& path, const std::string& column) {
  return error_of([&] { static_cast<void>(all_rows(path, column, 2)); });
}

TEST(ParquetTexts, WrongColumnsAreNamed) {
  const std::string none = said(golden("snappy"), "body");
  EXPECT_NE(none.find("no column 'body'"), std::string::npos) << none;
  EXPECT_NE(none.find("inner.body, always, number"), std::string::npos) << none;
  EXPECT_NE(said(golden("snappy"), "number").find("no column of texts"), std::string::npos);
  EXPECT_NE(said(golden("snappy"), "many.list.element").find("no column of texts"), std::string::npos);
  EXPECT_NE(said(golden("snappy"), "raw").find("row 2: the text is not UTF-8"), std::string::npos);
  EXPECT_NE(said(golden("brotli"), "text").find("brotli"), std::string::npos) << said(golden("brotli"), "text");
}

/// Without waiting for the disk.
void write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

TEST(ParquetTexts, DamagedFilesAreErrors) {
  const std::string path = testing::TempDir() + "damaged-" + std::to_string(getpid()) + ".parquet";
  const std::string whole = read_text_file(golden("snappy"));
  for (std::size_t length = 0; length < whole.size(); length += 97) {
    write(path, whole.substr(0, length));
    EXPECT_NE(said(path, "text").find(path), std::string::npos) << length;
  }
  for (std::size_t at = 0; at < whole.size(); at += 5) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string hurt = whole;
      hurt[at] = static_cast<char>(hurt[at] ^ flip);
      write(path, hurt);
      static_cast<void>(said(path, "text"));  // an error or other rows: pages have no checksums; never a crash
    }
  }
  std::filesystem::remove(path);
  EXPECT_NE(said(path, "text").find(path), std::string::npos);
  EXPECT_NE(said(testing::TempDir(), "text").find("regular file"), std::string::npos);
}

}  // namespace
}  // namespace isotone::text
