// What a Tokenizer shares between its copies. For the sources of this folder only.
#pragma once

#include <vector>

#include "text/rust_abi.h"
#include "text/tokenizer.h"

namespace isotone::text {

struct Tokenizer::Impl {
  explicit Impl(const rust::TokenizerHandle& made) : handle(made) {
    specials = rust::take(rust::call<rust::Ids>(rust::isotone_text_special_ids, handle.tokenizer));
  }
  ~Impl() { rust::isotone_text_tokenizer_free(handle.tokenizer); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Id of bos (0), eos (1), unk (2), pad (3).
  [[nodiscard]] std::optional<std::int32_t> named(int which) const {
    const std::int64_t id = handle.named[which];
    return id < 0 ? std::nullopt : std::optional(static_cast<std::int32_t>(id));
  }

  rust::TokenizerHandle handle;
  std::vector<std::int32_t> specials;
};

}  // namespace isotone::text
