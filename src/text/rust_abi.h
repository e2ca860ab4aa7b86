// The C ABI of crates/text (its src/abi.rs and src/lib.rs are the other side), and owners for what it returns.
// For the sources of this folder only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace isotone::text::rust {

extern "C" {
struct Slice {
  const char* ptr;
  std::size_t len;
};
struct Bytes {
  char* ptr;
  std::size_t len, capacity;
};
struct Ids {
  std::uint32_t* ptr;
  std::size_t len, capacity;
};
struct Tokenizer;
struct Template;
struct ParquetTexts;
struct TokenizerHandle {
  Tokenizer* tokenizer;
  std::uint32_t vocab_size;
  std::uint8_t byte_level;
  std::int64_t named[4];
};
struct GgufParts {
  Slice model, pre;
  const Slice* tokens;
  std::size_t token_count;
  const std::int32_t* types;
  std::size_t type_count;
  const Slice* merges;
  std::size_t merge_count;
  std::int64_t named[4];
  std::uint8_t add_bos, add_eos;
};
struct RenderParts {
  Slice messages, tools, documents, variables, bos_token, eos_token;
  std::uint8_t add_generation_prompt, has_now;
  std::int64_t now;
  const Tokenizer* tokenizer;
};
struct Rendered {
  Bytes text;
  Ids stand_ins;
};
struct Rows {
  Bytes text;
  Ids lengths;
};
void isotone_text_free_bytes(Bytes);
void isotone_text_free_ids(Ids);
int isotone_text_tokenizer_from_json(Slice json, Slice config, TokenizerHandle* out, Bytes* error);
int isotone_text_tokenizer_from_gguf(const GgufParts* parts, TokenizerHandle* out, Bytes* error);
void isotone_text_tokenizer_free(Tokenizer*);
int isotone_text_tokenizer_json(const Tokenizer*, Bytes* out, Bytes* error);
int isotone_text_encode(const Tokenizer*, Slice text, std::uint8_t add_special, std::uint8_t parse_special,
                        const std::uint32_t* stand_ins, std::size_t stand_in_pairs, Ids* out, Bytes* error);
int isotone_text_decode(const Tokenizer*, const std::uint32_t* ids, std::size_t count, std::uint8_t skip_special,
                        Bytes* out, Bytes* error);
int isotone_text_token_bytes(const Tokenizer*, std::uint32_t id, Bytes* out, Bytes* error);
int isotone_text_token_id(const Tokenizer*, Slice token, std::int64_t* out, Bytes* error);
int isotone_text_special_ids(const Tokenizer*, Ids* out, Bytes* error);
int isotone_text_template_new(Slice source, Template** out, Bytes* error);
void isotone_text_template_free(Template*);
int isotone_text_render(const Template*, const RenderParts* parts, Rendered* out, Bytes* error);
int isotone_text_parquet_open(Slice path, Slice column, ParquetTexts** out, Bytes* error);
void isotone_text_parquet_free(ParquetTexts*);
int isotone_text_parquet_next(ParquetTexts*, std::size_t most, Rows* out, Bytes* error);
}

inline Slice slice(std::string_view s) {
  return {s.data(), s.size()};
}

/// Copies and gives back.
inline std::string take(Bytes bytes) {
  std::string s(bytes.ptr, bytes.len);
  isotone_text_free_bytes(bytes);
  return s;
}

inline std::vector<std::int32_t> take(Ids ids) {
  std::vector<std::int32_t> v(ids.ptr, ids.ptr + ids.len);
  isotone_text_free_ids(ids);
  return v;
}

/// Calls `function(args..., &out, &error)` and returns `out`; throws Error with the library's reason.
template <class Out, class Function, class... Args>
Out call(Function function, Args&&... args) {
  Out out{};
  Bytes error{};
  if (function(std::forward<Args>(args)..., &out, &error) != 0) {
    throw Error(take(error));
  }
  return out;
}

}  // namespace isotone::text::rust
