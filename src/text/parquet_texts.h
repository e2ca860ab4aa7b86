// A column of texts of a Parquet file, through the Rust library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace isotone::text {

/// Reads a column from its first row to its last. Memory is a page of the file and what was asked for.
class ParquetTexts {
 public:
  /// `column`: its name, with dots where it lies in a struct. Throws Error naming the file where it is no Parquet file,
  /// or has no such column of texts (it lists the columns).
  ParquetTexts(std::string path, const std::string& column);
  ~ParquetTexts();
  ParquetTexts(const ParquetTexts&) = delete;
  ParquetTexts& operator=(const ParquetTexts&) = delete;

  /// At most `most` further rows, UTF-8; none for a null. Empty at the end. Throws Error naming file and row.
  std::vector<std::optional<std::string>> next(std::size_t most);

 private:
  struct Handle;
  std::string path_;
  std::unique_ptr<Handle> handle_;
};

}  // namespace isotone::text
