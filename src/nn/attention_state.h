// What a model's forward asks for attention. In training it is causal attention over packed documents, in serving it
// writes the paged cache and attends over it: same model file, same kernels, same bits.
#pragma once

#include "tensor/tensor.h"

namespace isotone::nn {

class AttentionState {
 public:
  virtual ~AttentionState() = default;
  /// q [grain, token, head, width], k and v [grain, token, kv_head, width], already rotated; o like q.
  virtual Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, double scale) = 0;
};

/// Attention within each grain, causal, limited to each token's document.
class PackedAttention : public AttentionState {
 public:
  /// doc_start i32 [grain, token]: where each token's document starts in its grain; empty: a grain is one document.
  explicit PackedAttention(Tensor doc_start = {}) : doc_start_(std::move(doc_start)) {}
  Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, double scale) override;

 private:
  Tensor doc_start_;
};

/// Attention over a cache of pages, one pair of tensors [page, kv_head, slot, width] a layer.
class CachedAttention : public AttentionState {
 public:
  /// table i32 [batch, pages]; positions i32 [batch, token] (negative: padding).
  CachedAttention(std::vector<Tensor> k_pages, std::vector<Tensor> v_pages, Tensor table, Tensor positions);
  Tensor attend(int layer, const Tensor& q, const Tensor& k, const Tensor& v, double scale) override;
  /// The pages after this step, k and v of each layer.
  [[nodiscard]] const std::vector<Tensor>& k_pages() const { return k_pages_; }
  [[nodiscard]] const std::vector<Tensor>& v_pages() const { return v_pages_; }

 private:
  std::vector<Tensor> k_pages_, v_pages_;
  Tensor table_, positions_;
};

}  // namespace isotone::nn
