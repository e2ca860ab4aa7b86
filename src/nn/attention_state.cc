#include "nn/attention_state.h"

namespace isotone::nn {

Tensor PackedAttention::attend(int, const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  return ops::attention(q, k, v, doc_start_, scale)[0];
}

CachedAttention::CachedAttention(std::vector<Tensor> k_pages, std::vector<Tensor> v_pages, Tensor table,
                                 Tensor positions)
    : k_pages_(std::move(k_pages)),
      v_pages_(std::move(v_pages)),
      table_(std::move(table)),
      positions_(std::move(positions)) {}

Tensor CachedAttention::attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  Tensor& kp = k_pages_[static_cast<std::size_t>(layer)];
  Tensor& vp = v_pages_[static_cast<std::size_t>(layer)];
  kp = ops::cache_write(kp, k, table_, positions_);
  vp = ops::cache_write(vp, v, table_, positions_);
  return ops::paged_attention(q, kp, vp, table_, positions_, scale);
}

}  // namespace isotone::nn
