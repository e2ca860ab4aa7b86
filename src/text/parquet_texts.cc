#include "text/parquet_texts.h"

#include "base/file.h"
#include "text/rust_abi.h"

namespace isotone::text {

struct ParquetTexts::Handle {
  rust::ParquetTexts* texts;
  explicit Handle(rust::ParquetTexts* t) : texts(t) {}
  ~Handle() { rust::isotone_text_parquet_free(texts); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

ParquetTexts::ParquetTexts(std::string path, const std::string& column) : path_(std::move(path)) {
  static_cast<void>(file_size(path_));  // a folder, or nothing there, in the words of every other file
  try {
    handle_ = std::make_unique<Handle>(
        rust::call<rust::ParquetTexts*>(rust::isotone_text_parquet_open, rust::slice(path_), rust::slice(column)));
  } catch (const Error& e) {
    throw e.in(path_);
  }
}

ParquetTexts::~ParquetTexts() = default;

std::vector<std::optional<std::string>> ParquetTexts::next(std::size_t most) {
  constexpr std::uint32_t kNull = UINT32_MAX;
  try {
    const auto rows = rust::call<rust::Rows>(rust::isotone_text_parquet_next, handle_->texts, most);
    const std::string text = rust::take(rows.text);
    std::vector<std::optional<std::string>> out;
    std::size_t at = 0;
    for (const std::int32_t taken : rust::take(rows.lengths)) {
      const auto length = static_cast<std::uint32_t>(taken);
      if (length == kNull) {
        out.emplace_back(std::nullopt);
      } else {
        out.emplace_back(text.substr(at, length));
        at += length;
      }
    }
    return out;
  } catch (const Error& e) {
    throw e.in(path_);
  }
}

}  // namespace isotone::text
