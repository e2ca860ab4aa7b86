#include "train/step_flops.h"

#include <gtest/gtest.h>

#include "models/model.h"

namespace isotone::train {
namespace {

ModelConfig config(bool tied) {
  ModelConfig c;
  c.architecture = "LlamaForCausalLM";
  c.model_type = "llama";
  c.vocab_size = 100;
  c.hidden_size = 8;
  c.intermediate_size = 16;
  c.n_layers = 3;
  c.n_heads = 2;
  c.n_kv_heads = 1;
  c.head_dim = 4;
  c.tie_embeddings = tied;
  return c;
}

TEST(StepFlops, CountedByHand) {
  for (const bool tied : {false, true}) {
    const ModelConfig c = config(tied);
    // A layer: q and o 8 x 8, k and v 8 x 4, three of 8 x 16; then the logits, whether or not they share the embedding.
    const double elements = 3 * (2 * 64 + 2 * 32 + 3 * 128) + 100 * 8;
    const double pairs = 64.0 * 65.0 / 2.0;  // of a token and one that it may look at, in a grain
    EXPECT_DOUBLE_EQ(step_flops(c, models::architecture_of(c).parameters(c), 5, 64),
                     5 * (64 * 6 * elements + 12 * 3 * 8 * pairs));
  }
}

}  // namespace
}  // namespace isotone::train
