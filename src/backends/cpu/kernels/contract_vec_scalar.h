// The vector type of one lane: plain C++ with fma. The readable twin of the wide ones, and the slow way everywhere.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/contract_table.h"

namespace isotone::cpu {
namespace {

struct VecScalar {
  using F = float;
  using I = std::uint32_t;
  static constexpr int W = 1;
  static constexpr int kRegisters = 16;
  static constexpr int kRows = 2;
  static constexpr int kQuantRows = 2;
  static constexpr bool kPairDot = false;
  static constexpr int kQ8Bias = 0;

  static F zero() { return 0.0F; }
  static F load(const float* p) { return *p; }
  static void store(float* p, F x) { *p = x; }
  static F broadcast(const float* p) { return *p; }
  static F fma(F a, F b, F c) { return __builtin_fmaf(a, b, c); }
  static F add(F a, F b) { return a + b; }
  static F mul(F a, F b) { return a * b; }
  static F divide(F a, F b) { return a / b; }
  static F canonical(F x) { return x != x ? as_float(0x7fc00000U) : x; }
  static F as_float(I x) {
    float value = 0;
    __builtin_memcpy(&value, &x, 4);
    return value;
  }
  static I as_words(F x) {
    I word = 0;
    __builtin_memcpy(&word, &x, 4);
    return word;
  }
  static F load_f16(const std::uint16_t* p) {
    StoredHalf half;
    __builtin_memcpy(&half, p, 2);
    return static_cast<float>(half);
  }
  static F load_bf16(const std::uint16_t* p) { return as_float(static_cast<I>(*p) << 16); }
  static void store_f16(std::uint16_t* p, F x) {
    const StoredHalf half = static_cast<StoredHalf>(x);
    __builtin_memcpy(p, &half, 2);
  }
  static void store_bf16(std::uint16_t* p, F x) {
    const I u = as_words(x);
    *p = static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
  static void store_rounded(std::int32_t* p, F x) { *p = static_cast<std::int32_t>(__builtin_nearbyintf(x)); }

  static I load_words(const void* p) {
    I word = 0;
    __builtin_memcpy(&word, p, 4);
    return word;
  }
  static I broadcast_word(const char* p) { return load_words(p); }
  static I broadcast_int(std::int32_t x) { return static_cast<I>(x); }
  static F upper_half(I x) { return as_float(x & 0xffff0000U); }
  static F lower_half(I x) { return as_float(x << 16); }
  static F pair_dot(F acc, I, I) { return acc; }
  static I low_nibbles(I x) { return x & 0x0f0f0f0fU; }
  static I high_nibbles(I x) { return (x >> 4) & 0x0f0f0f0fU; }
  static I dot(I acc, I w, I a, int bias) {
    std::int32_t sum = static_cast<std::int32_t>(acc);
    for (int i = 0; i < 32; i += 8) {
      sum += (static_cast<std::int32_t>((w >> i) & 255U) - bias) * static_cast<std::int8_t>((a >> i) & 255U);
    }
    return static_cast<I>(sum);
  }
  static I dot_q8(I acc, I w, I a) { return dot(acc, w, a, 128); }
  static I dot_q4(I acc, I w, I a) { return dot(acc, w, a, 0); }
  static F to_float(I x) { return static_cast<float>(static_cast<std::int32_t>(x)); }
};

}  // namespace
}  // namespace isotone::cpu
