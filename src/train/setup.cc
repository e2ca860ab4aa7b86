#include "train/setup.h"

#include "base/error.h"
#include "base/file.h"
#include "base/numerics.h"
#include "models/load.h"
#include "models/tokenizer.h"

namespace isotone::train {

Setup open_setup(const Recipe& r) {
  if (!r.numerics.empty()) {
    set_numerics_profile(parse_numerics_profile(r.numerics));
  }
  Setup s;
  s.files = open_model(r.model.empty() ? r.tokenizer : r.model);
  s.config = r.model.empty() ? parse_model_config(read_text_file(r.config, 1 << 20), r.config) : s.files->config();
  s.tokenizer = models::load_tokenizer(*s.files);
  if (!s.files->chat_template().empty()) {
    s.chat = text::ChatTemplate(s.files->chat_template());
  }
  s.text = model_text_of(*s.files, s.tokenizer);
  ModelConfig f32 = s.config;
  f32.dtype = DType::f32;
  s.text.config_json = model_config_json(f32);
  require(s.tokenizer.vocab_size() <= s.config.vocab_size, "the tokenizer has {} tokens, the model only {}",
          s.tokenizer.vocab_size(), s.config.vocab_size);
  require(r.grain_tokens <= s.config.max_position, "data.grain_tokens is {}, over the model's {} positions",
          r.grain_tokens, s.config.max_position);
  s.specs = models::architecture_of(s.config).parameters(s.config);
  return s;
}

TrainState fresh_state(const Recipe& r, const Setup& s, const Shards& shards) {
  TrainState state;
  const nn::Parameters start = r.model.empty()
                                   ? nn::initialise(s.specs, r.seed)
                                   : models::load_weights(*s.files, models::WeightDtype::f32, false).parameters;
  for (std::size_t i = 0; i < s.specs.size(); ++i) {
    const std::string& name = s.specs[i].name;
    const Tensor& t = start.at(name);
    // A copy of its own: pages mapped from a file must not be written to.
    const std::vector<std::byte> elsewhere = t.host() == nullptr ? t.to_bytes() : std::vector<std::byte>{};
    const auto* bytes = t.host() == nullptr ? elsewhere.data() : static_cast<const std::byte*>(t.host());
    state.parameters.set(name, shards.parameter_from(i, {bytes, t.type().bytes()}));
    state.m.set(name, shards.zero_moment(i));
    state.v.set(name, shards.zero_moment(i));
  }
  return state;
}

}  // namespace isotone::train
