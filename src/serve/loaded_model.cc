#include "serve/loaded_model.h"

#include <chrono>
#include <future>

#include "base/error.h"
#include "base/parallel.h"
#include "models/tokenizer.h"
#include "serve/cached_model.h"

namespace isotone::serve {

namespace {

std::string base_name(std::string path) {
  while (path.size() > 1 && path.back() == '/') {
    path.pop_back();
  }
  path = path.substr(path.find_last_of('/') + 1);
  return path.ends_with(".gguf") ? path.substr(0, path.size() - 5) : path;
}

}  // namespace

std::unique_ptr<LoadedModel> load_model(const std::string& path, const LoadOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (options.threads > 0) {
    set_thread_count(options.threads);
  }
  const models::WeightDtype dtype = models::parse_weight_dtype(options.dtype);
  const std::shared_ptr<ModelFiles> files = open_model(path);
  const std::int64_t most = files->config().max_position;
  require(options.context_length <= most, "a context of {} tokens was asked for; {} was made for at most {}",
          options.context_length, path, most);
  // The tokenizer is built beside the weights: both take tens of milliseconds.
  std::future<text::Tokenizer> tokenizer =
      std::async(std::launch::async, [files] { return models::load_tokenizer(*files); });
  auto out = std::make_unique<LoadedModel>();
  models::LoadedWeights weights = models::load_weights(*files, dtype, true);
  out->model = std::make_unique<CachedModel>(files->config(), std::move(weights), options.context_length);
  out->tokenizer = tokenizer.get();
  if (const std::string source = files->chat_template(); !source.empty()) {
    out->chat = text::ChatTemplate(source);
  }
  require(out->tokenizer.vocab_size() <= files->config().vocab_size,
          "{}: the tokenizer has {} tokens, the model only {}", path, out->tokenizer.vocab_size(),
          files->config().vocab_size);
  for (const std::int64_t id : files->config().eos_ids) {
    out->stop_ids.push_back(static_cast<std::int32_t>(id));
  }
  out->name = base_name(path);
  out->load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace isotone::serve
