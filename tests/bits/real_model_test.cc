// SmolLM2-135M-Instruct itself: the text and the log-probabilities that PyTorch gives, and the same bits from the
// trainer, from the server, and however the server was fed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/isa.h"
#include "base/parallel.h"
#include "models/load.h"
#include "nn/sampling.h"
#include "serve/cached_model.h"
#include "serve/scoring.h"
#include "tests/bits/real_model.h"

namespace isotone::bits {
namespace {

using nlohmann::json;

class RealModel : public RealModelTest {
 protected:
  [[nodiscard]] serve::CachedModel server(models::WeightDtype dtype) const {
    return {files_->config(), models::load_weights(*files_, dtype, true), 0};
  }

  /// Log-probability of text_[i], i >= 1, with the text fed in pieces of `chunk`.
  std::vector<float> served(serve::LanguageModel& model, std::size_t chunk) {
    const auto sequence = model.start();
    std::vector<float> out;
    for (std::size_t at = 0; at + 1 < text_.size(); at += chunk) {
      const std::size_t n = std::min(chunk, text_.size() - 1 - at);
      sequence->extend_all(std::span(text_).subspan(at, n), [&](std::int64_t i, std::span<const float> logits) {
        out.push_back(nn::log_normaliser(logits).logprob(
            logits[static_cast<std::size_t>(text_[at + static_cast<std::size_t>(i) + 1])]));
      });
    }
    return out;
  }

  /// The same from the trainer's forward pass and loss: a grain of `documents` copies of the text, the last one's.
  std::vector<float> trained(DType dtype, std::int64_t documents) const {
    const ModelConfig& c = files_->config();
    const models::LoadedWeights w = models::load_weights(
        *files_, dtype == DType::f32 ? models::WeightDtype::f32 : models::WeightDtype::bf16, false);
    const auto n = static_cast<std::int64_t>(text_.size()) - 1;
    const std::int64_t room = (n + 63) / 64 * 64;  // documents begin at multiples of 64
    std::vector<std::int32_t> ids, positions, starts, targets;
    for (std::int64_t d = 0; d < documents; ++d) {
      for (std::int64_t i = 0; i < room; ++i) {
        const auto at = static_cast<std::size_t>(std::min(i, n));
        // Other documents are other texts: the one looked at must not see them.
        ids.push_back(d + 1 == documents ? text_[at] : text_[text_.size() - 1 - at]);
        targets.push_back(i < n ? text_[at + 1] : -1);
        positions.push_back(static_cast<std::int32_t>(i));
        starts.push_back(static_cast<std::int32_t>(d * room));
      }
    }
    const Shape shape{1, documents * room};
    nn::PackedAttention attention(Tensor::from(starts, shape));
    const models::Architecture& a = models::architecture_of(c);
    const Tensor hidden =
        a.hidden(c, w.parameters, Tensor::from(ids, shape), Tensor::from(positions, shape), attention, {dtype});
    std::vector<float> loss =
        Tensor(ops::cross_entropy(a.logits(c, w.parameters, hidden), Tensor::from(targets, shape))[0]).to_floats();
    std::vector<float> out(loss.end() - room, loss.end() - room + n);
    std::transform(out.begin(), out.end(), out.begin(), [](float x) { return -x; });
    return out;
  }
};

TEST_F(RealModel, SaysWhatPyTorchSays) {
  serve::CachedModel model = server(models::WeightDtype::f32);
  for (const json& p : golden_["prompts"]) {
    const auto prompt = p["ids"].get<std::vector<std::int32_t>>();
    const auto greedy = p["greedy"].get<std::vector<std::int32_t>>();
    ASSERT_EQ(greedy.size(), 32U);
    const auto sequence = model.start();
    std::span<const float> logits = sequence->extend(prompt);
    for (std::size_t i = 0; i < greedy.size(); ++i) {
      const auto best = static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
      ASSERT_EQ(best, greedy[i]) << "token " << i << " after " << p["text"];
      EXPECT_NEAR(nn::log_normaliser(logits).logprob(logits[static_cast<std::size_t>(best)]),
                  p["logprobs"][i].get<float>(), 2e-4)
          << i;
      logits = sequence->extend({&greedy[i], 1});
    }
  }
}

TEST_F(RealModel, ScoresAsPyTorchDoes) {
  serve::CachedModel model = server(models::WeightDtype::f32);
  const serve::Score score = serve::score(model, text_);
  EXPECT_NEAR(score.mean_nll, golden_["score"]["mean_nll"].get<double>(), 1e-6);
  const json& nll = golden_["score"]["nll"];
  ASSERT_EQ(nll.size() + 1, score.logprobs.size());
  for (std::size_t i = 0; i < nll.size(); ++i) {
    EXPECT_NEAR(-score.logprobs[i + 1], nll[i].get<double>(), 5e-5) << i;
  }
}

TEST_F(RealModel, TheServersLogProbabilitiesAreTheTrainers) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    serve::CachedModel model = server(dtype == DType::f32 ? models::WeightDtype::f32 : models::WeightDtype::bf16);
    const std::vector<float> expected = served(model, text_.size());
    EXPECT_EQ(trained(dtype, 1), expected) << dtype_name(dtype) << ", alone";
    EXPECT_EQ(trained(dtype, 3), expected) << dtype_name(dtype) << ", packed behind two other documents";
  }
}

TEST_F(RealModel, HoweverItIsFed) {
  for (const models::WeightDtype dtype :
       {models::WeightDtype::f32, models::WeightDtype::bf16, models::WeightDtype::native}) {
    serve::CachedModel model = server(dtype);
    const std::vector<float> expected = served(model, text_.size());
    for (const std::size_t chunk : {1, 7, 64}) {
      EXPECT_EQ(served(model, chunk), expected) << "pieces of " << chunk;
    }
    const int threads = thread_count();
    set_thread_count(threads == 1 ? 2 : 1);
    EXPECT_EQ(served(model, 100), expected) << thread_count() << " threads";
    set_thread_count(threads);
    const cpu::Isa saved = cpu::current_isa();
    for (const cpu::Isa isa : cpu::supported_isas()) {
      if (isa != cpu::Isa::scalar) {  // the whole model is too slow for that one; the tiny model has it
        cpu::set_isa(isa);
        EXPECT_EQ(served(model, 100), expected) << cpu::isa_name(isa);
      }
    }
    cpu::set_isa(saved);
  }
}

TEST_F(RealModel, TruncatedAndContinuedLikeFresh) {
  serve::CachedModel model = server(models::WeightDtype::native);
  const auto used = model.start();
  const std::span<const std::int32_t> text = text_;
  static_cast<void>(used->extend(text));
  used->truncate(70);
  const std::span<const float> again = used->extend(text.subspan(70, 20));
  const std::vector<float> continued(again.begin(), again.end());
  const std::span<const float> fresh = model.start()->extend(text.first(90));
  EXPECT_EQ(continued, std::vector<float>(fresh.begin(), fresh.end()));
}

}  // namespace
}  // namespace isotone::bits
