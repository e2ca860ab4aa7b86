#include "train/step_flops.h"

#include "base/timeline.h"
#include "dist/collectives.h"
#include "tensor/transforms.h"

namespace isotone::train {

double step_flops(const ModelConfig& config, const std::vector<nn::ParameterSpec>& specs, double grains,
                  double tokens) {
  double elements = 0.0;
  for (const nn::ParameterSpec& s : specs) {
    const bool looked_up = s.name == "model.embed_tokens.weight" && !config.tie_embeddings;
    if (s.shape.size() >= 2 && !looked_up) {
      elements += static_cast<double>(Type{DType::f32, s.shape}.elements());
    }
  }
  const double seen = (tokens + 1.0) / 2.0;  // tokens that a token looks at, on average
  const auto width = static_cast<double>(config.n_heads * config.head_dim);
  return grains * tokens * (6.0 * elements + 12.0 * static_cast<double>(config.n_layers) * width * seen);
}

double matmul_flops_a_second(dist::Communicator& ranks, DType dtype) {
  Compiled product(
      [dtype](const Tensors& a) { return Tensors{Tensor(ops::contract(a[0], a[1], "ab,cb->ac", dtype, false))}; });
  constexpr std::int64_t kLargest = 1024, kWindow = 40'000'000;
  double seconds = 0.0, done = 0.0;
  for (std::int64_t n = 64; n <= kLargest; n *= 2) {  // small ones are enough for a slow device
    const std::vector<float> ones(static_cast<std::size_t>(n * n), 1.0F);
    const Tensor matrix(ops::cast(Tensor::from(ones, {n, n}), dtype));
    eval(matrix);
    eval(product({matrix, matrix}));
    if (n == kLargest) {
      dist::barrier(ranks);
    }
    const std::int64_t begin = clock_ns();
    std::int64_t end = begin;
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    done = 0.0;
    while (end == begin || (n == kLargest && end - begin < kWindow)) {
      eval(product({matrix, matrix}));
      done += flops;
      end = clock_ns();
    }
    seconds = static_cast<double>(end - begin) / 1e9;
    if (end - begin > kWindow / 2 && n < kLargest) {
      dist::barrier(ranks);  // the others wait there
      break;
    }
  }
  double sum = 0.0;
  for (const float each : dist::all_gather(ranks, std::vector<float>{static_cast<float>(done / seconds)})) {
    sum += static_cast<double>(each);
  }
  return sum;
}

}  // namespace isotone::train
