// Checkpoints: a folder a step, complete or not there at all, that can also be served as MODEL.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/model_files.h"
#include "nn/parameters.h"
#include "text/tokenizer.h"

namespace isotone::train {

/// What a run needs to go on.
struct TrainState {
  std::int64_t step = 0;    ///< steps done
  std::int64_t tokens = 0;  ///< learned tokens so far
  nn::Parameters parameters, m, v;
};

/// The files beside the weights that make a checkpoint a model.
struct ModelText {
  std::string config_json, tokenizer_json, tokenizer_config_json, generation_json;
};
ModelText model_text_of(const ModelFiles& files, const text::Tokenizer& tokenizer);

/// Writes `folder` whole or not at all: model.safetensors, optimiser.safetensors, the model's text files and
/// manifest.json with the SHA-256 of every tensor, the recipe's fingerprint and the numerics contract's version. Throws
/// Error for a full disk or a folder that cannot be written, leaving what was there before.
void save_checkpoint(const std::string& folder, const TrainState& state, const ModelText& text,
                     const std::string& fingerprint);

/// A checkpoint that is whole but belongs to another run: another recipe, numerics profile or version of the contract.
class OtherRun : public Error {
 public:
  using Error::Error;
};

/// Loads and verifies a checkpoint. Throws Error naming the file or the tensor that is damaged, and OtherRun where the
/// recipe's fingerprint is not `fingerprint`.
TrainState load_checkpoint(const std::string& folder, const std::vector<nn::ParameterSpec>& specs,
                           const std::string& fingerprint);

/// Folders "step-N" below `out`, newest first; leftovers of killed saves are not listed.
std::vector<std::string> list_checkpoints(const std::string& out);
std::string checkpoint_name(std::int64_t step);

}  // namespace isotone::train
