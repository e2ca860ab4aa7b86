// For tests of row and elementwise kernels: data, the plain reduction written straight from the contract, and a runner
// that flips the instruction set and the number of threads one at a time.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "base/dtype.h"
#include "base/half.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu::test {

using Bytes = std::vector<std::uint8_t>;

inline std::uint32_t bits_of(float x) {
  return std::bit_cast<std::uint32_t>(x);
}

/// n values of type t around zero, widened to f32 and as stored.
struct Data {
  Bytes stored;
  std::vector<float> wide;
  [[nodiscard]] const void* get() const { return stored.data(); }
};

inline float round_to(DType t, float x) {
  if (x != x) {
    return std::bit_cast<float>(0x7fc00000U);
  }
  return t == DType::f32 ? x : t == DType::bf16 ? static_cast<float>(bf16(x)) : static_cast<float>(f16(x));
}

inline void store_as(DType t, float x, std::uint8_t* p) {
  if (t == DType::f32) {
    const float v = x == x ? x : std::bit_cast<float>(0x7fc00000U);
    std::memcpy(p, &v, 4);
  } else {
    const std::uint16_t b = t == DType::bf16 ? bf16(x).bits : f16(x).bits;
    std::memcpy(p, &b, 2);
  }
}

inline Bytes store_all(DType t, const std::vector<float>& values) {
  Bytes out(values.size() * unit_bytes(t));
  for (std::size_t i = 0; i < values.size(); ++i) {
    store_as(t, values[i], out.data() + i * unit_bytes(t));
  }
  return out;
}

inline Data make_data(DType t, std::int64_t n, unsigned seed, float scale = 2.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  Data d;
  for (std::int64_t i = 0; i < n; ++i) {
    d.wide.push_back(round_to(t, normal(random)));
  }
  d.stored = store_all(t, d.wide);
  return d;
}

/// Section 2, written plainly.
template <class Get>
float reference_sum(std::int64_t n, const Get& get) {
  const std::function<float(std::int64_t, std::int64_t)> part = [&](std::int64_t begin, std::int64_t length) -> float {
    if (length > 256) {
      const std::int64_t left = ((length + 1) / 2 + 31) / 32 * 32;
      return part(begin, left) + part(begin + left, length - left);
    }
    std::vector<float> chain(16, 0.0F);
    for (std::int64_t i = 0; i < length; ++i) {
      chain[static_cast<std::size_t>(i % 16)] += get(begin + i);
    }
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) {
        chain[i] = chain[i] + chain[i + half];
      }
    }
    return chain[0] + 0.0F;
  };
  return part(0, n);
}

/// Runs `kernel`, which returns its outputs' bytes, for every instruction set with one and with two threads, and
/// compares each with `want`.
inline void expect_everywhere(const Bytes& want, const std::string& what, const std::function<Bytes()>& kernel) {
  const Isa isa_before = current_isa();
  const int threads_before = thread_count();
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    for (const int threads : {1, 2}) {
      set_thread_count(threads);
      const Bytes got = kernel();
      ASSERT_EQ(got.size(), want.size()) << what;
      std::size_t first = 0;
      while (first < got.size() && got[first] == want[first]) {
        ++first;
      }
      EXPECT_EQ(first, got.size()) << what << ", " << isa_name(isa) << ", " << threads << " threads, byte " << first
                                   << " of " << got.size();
    }
  }
  set_isa(isa_before);
  set_thread_count(threads_before);
}

inline Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const Bytes& p : parts) {
    out.insert(out.end(), p.begin(), p.end());
  }
  return out;
}

inline constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};
inline constexpr std::int64_t kWidths[] = {1, 7, 37, 255, 257, 576, 1000, 1536, 4096};

}  // namespace isotone::cpu::test
