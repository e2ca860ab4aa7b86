// What a recipe names, opened: model, tokenizer, and the state a run begins with.
#pragma once

#include <memory>

#include "formats/model_files.h"
#include "text/chat_template.h"
#include "train/checkpoint.h"
#include "train/recipe.h"

namespace isotone::train {

struct Setup {
  ModelConfig config;
  std::unique_ptr<ModelFiles> files;  ///< of the start model, or of the tokenizer's
  text::Tokenizer tokenizer;
  text::ChatTemplate chat;
  ModelText text;
  std::vector<nn::ParameterSpec> specs;
};
Setup open_setup(const Recipe& recipe);

/// This rank's part of the state before the first step.
TrainState fresh_state(const Recipe& recipe, const Setup& setup, const Shards& shards);

}  // namespace isotone::train
