// Checkpoints: a folder a step, complete or not there at all, that can also be served as MODEL.
#pragma once

#include <future>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "formats/model_files.h"
#include "formats/safetensors.h"
#include "nn/parameters.h"
#include "text/tokenizer.h"
#include "train/manifest.h"
#include "train/shards.h"

namespace isotone::train {

/// What a run needs to go on; of several ranks, this one's part of it (shards.h).
struct TrainState {
  std::int64_t step = 0;    ///< steps done
  std::int64_t tokens = 0;  ///< learned tokens so far
  nn::Parameters parameters, m, v;
  std::vector<EarlierRecipe> earlier;  ///< under which the first steps were done
};

/// What a checkpoint keeps of its run's recipe, and is asked for when it is loaded.
struct RunRecipe {
  std::string fingerprint;
  RecipeFields fields;
  /// A checkpoint whose recipe has this fingerprint (or one that begins so) is taken as well.
  std::string accepted;
  RecipeFields contents = {};  ///< of its data (RunData); none where that is not known
};

/// The files beside the weights that make a checkpoint a model.
struct ModelText {
  std::string config_json, tokenizer_json, tokenizer_config_json, generation_json;
};
ModelText model_text_of(const ModelFiles& files, const text::Tokenizer& tokenizer);

/// A checkpoint that all ranks write together while training goes on: model.safetensors, optimiser.safetensors, the
/// model's text files and manifest.json (manifest.h). The files' bytes do not show how many ranks wrote them. All ranks
/// need the folder's file system. Errors (a full disk, no permission) are every rank's and leave what was there before.
class CheckpointWriter {
 public:
  /// Every rank calls it with its part of the state. Slices are exchanged for whole tensors here; a thread writes.
  /// What it writes is not copied: the next step does that, for tensors that are still held.
  CheckpointWriter(std::string folder, const TrainState& state, const ModelText& text, RunRecipe recipe,
                   const Shards& shards);
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// Whether this rank's part is on the disk, or has failed.
  [[nodiscard]] bool written() const;
  /// Every rank calls it: waits for all parts and puts the folder, whole, at its place.
  void commit();

 private:
  using Hashes = std::map<std::string, std::string>;  // of tensors, by name
  struct Part {
    std::string path;  // of the file
    SafetensorsPlan plan;
    std::vector<TensorView> mine;
  };
  static Hashes write(const std::vector<Part>& parts, bool first, const std::string& aside, const ModelText& text);

  std::string folder_;
  Manifest manifest_;  // all but the checksums, until the commit
  dist::Communicator& ranks_;
  std::optional<AsideFolder> aside_;  // of rank 0, which makes and renames the folder
  std::string aside_path_;
  std::future<Hashes> writing_;  // ends before the folder is removed
};

/// Writes it and waits.
void save_checkpoint(const std::string& folder, const TrainState& state, const ModelText& text, const RunRecipe& recipe,
                     const Shards& shards);

/// A checkpoint that is whole but belongs to another run: another recipe, numerics profile or version of the contract.
class OtherRun : public Error {
 public:
  using Error::Error;
};

/// Loads each rank's part of a checkpoint, written by any number of ranks; every tensor is verified by one of them.
/// Throws, on every rank, Error naming the file or the tensor that is damaged, and OtherRun where it belongs to
/// another run: where the recipe is another one, with the keys that differ.
TrainState load_checkpoint(const std::string& folder, const RunRecipe& recipe, const Shards& shards);

/// Folders "step-N" below `out`, newest first; leftovers of killed saves are not listed.
std::vector<std::string> list_checkpoints(const std::string& out);
std::string checkpoint_name(std::int64_t step);

}  // namespace isotone::train
