// What the two readers of configurations share. For model_config*.cc alone.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "formats/model_config.h"

namespace isotone {

/// One family under the names that the two kinds of files have for it.
struct ModelFamily {
  std::string_view gguf;
  std::string_view class_name;
  std::string_view model_type;
};

inline constexpr std::array<ModelFamily, 4> kModelFamilies = {{{"llama", "LlamaForCausalLM", "llama"},
                                                               {"qwen2", "Qwen2ForCausalLM", "qwen2"},
                                                               {"qwen3", "Qwen3ForCausalLM", "qwen3"},
                                                               {"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe"}}};

inline constexpr std::int64_t kMostLayers = 4096;

/// Adds the ids that are not there yet.
inline void add_ids(std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
  for (const std::int64_t id : from) {
    if (std::find(to.begin(), to.end(), id) == to.end()) {
      to.push_back(id);
    }
  }
}

}  // namespace isotone
