// What each instruction set's file gives norm.cc: functions over whole rows, one for each of f32, bf16, f16.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/vec_dispatch.h"

namespace isotone::cpu {

struct NormTable {
  using Rms = void (*)(void* y, const void* x, const float* w, float eps, std::int64_t rows, std::int64_t n);
  using RmsGrad = void (*)(void* dx, void* h, const void* x, const float* w, const void* dy, float eps,
                           std::int64_t rows, std::int64_t n);
  using RmsStatistics = void (*)(float* r, const void* x, float eps, std::int64_t rows, std::int64_t n);
  using Layer = void (*)(void* y, const void* x, const float* w, const float* b, float eps, std::int64_t rows,
                         std::int64_t n);
  using Softmax = void (*)(void* y, const void* x, float* scratch, std::int64_t rows, std::int64_t n);
  using SoftmaxGrad = void (*)(void* dx, const void* y, const void* dy, std::int64_t rows, std::int64_t n);
  using CrossEntropy = void (*)(float* loss, float* lse, const void* logits, const std::int32_t* targets,
                                std::int64_t rows, std::int64_t n);
  using CrossEntropyGrad = void (*)(void* dlogits, const void* logits, const float* lse, const std::int32_t* targets,
                                    const float* dloss, std::int64_t rows, std::int64_t n);
  Rms rms_norm[3];
  RmsGrad rms_norm_grad[3];
  RmsStatistics rms_statistics[3];
  Layer layer_norm[3];
  Softmax softmax[3];
  Softmax log_softmax[3];
  SoftmaxGrad softmax_grad[3];
  CrossEntropy cross_entropy[3];
  CrossEntropyGrad cross_entropy_grad[3];
};

ISOTONE_CPU_TABLE(NormTable, norm)

}  // namespace isotone::cpu
