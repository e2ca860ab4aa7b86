// Walks a result of any shape in contiguous spans: dimensions that lie together are merged, and inputs that are not
// contiguous along the last one are gathered piece by piece into a small buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "backends/cpu/kernels/elementwise.h"
#include "base/error.h"
#include "base/parallel.h"

namespace isotone::cpu {

inline constexpr std::int64_t kSpanGrain = 16384;  // elements worth a hand-over
inline constexpr std::int64_t kGather = 512;       // elements gathered at a time

template <std::size_t kInputs>
struct Walk {
  std::array<const std::byte*, kInputs> data;
  std::array<std::size_t, kInputs> bytes;                           // of an element
  std::array<std::array<std::int64_t, kInputs>, kMaxDims> strides;  // [dim][input], elements
  std::array<std::int64_t, kMaxDims> sizes;
  int dims = 0;
  std::int64_t total = 1;
  std::size_t out_bytes = 0;
};

template <std::size_t kInputs>
Walk<kInputs> make_walk(std::span<const std::int64_t> shape, const std::array<StridedInput, kInputs>& inputs,
                        const std::array<std::size_t, kInputs>& bytes, std::size_t out_bytes) {
  require(shape.size() <= kMaxDims, "elementwise kernels take up to {} dimensions, got {}", kMaxDims, shape.size());
  Walk<kInputs> w{};
  w.bytes = bytes;
  w.out_bytes = out_bytes;
  for (std::size_t k = 0; k < kInputs; ++k) {
    require(inputs[k].strides.empty() || inputs[k].strides.size() == shape.size(),
            "an operand has {} strides for a result of {} dimensions", inputs[k].strides.size(), shape.size());
    w.data[k] = static_cast<const std::byte*>(inputs[k].data);
  }
  std::array<std::int64_t, kInputs> own{};  // contiguous strides for operands that give none
  own.fill(1);
  // From the last dimension to the first; w's dimensions are kept innermost first.
  for (std::size_t d = shape.size(); d-- > 0;) {
    const std::int64_t size = shape[d];
    w.total *= size;
    std::array<std::int64_t, kInputs> stride{};
    for (std::size_t k = 0; k < kInputs; ++k) {
      stride[k] = inputs[k].strides.empty() ? own[k] : inputs[k].strides[d];
      own[k] *= size;
    }
    if (size == 1) {
      continue;
    }
    bool merges = w.dims > 0;
    for (std::size_t k = 0; k < kInputs && merges; ++k) {
      const auto last = static_cast<std::size_t>(w.dims - 1);
      merges = stride[k] == w.strides[last][k] * w.sizes[last];
    }
    if (merges) {
      w.sizes[static_cast<std::size_t>(w.dims - 1)] *= size;
    } else {
      w.strides[static_cast<std::size_t>(w.dims)] = stride;
      w.sizes[static_cast<std::size_t>(w.dims)] = size;
      ++w.dims;
    }
  }
  if (w.dims == 0) {
    w.sizes[0] = 1;
    w.strides[0].fill(1);
    w.dims = 1;
  }
  return w;
}

/// Elements [begin, end) of one row whose inputs start at `row`: body(y offset within the row, inputs, n).
template <std::size_t kInputs, class Body>
void walk_row(const Walk<kInputs>& w, const std::array<const std::byte*, kInputs>& row, std::int64_t begin,
              std::int64_t end, const Body& body) {
  bool gathers = false;
  for (std::size_t k = 0; k < kInputs; ++k) {
    gathers = gathers || w.strides[0][k] != 1;
  }
  std::array<const void*, kInputs> in{};
  if (!gathers) {
    for (std::size_t k = 0; k < kInputs; ++k) {
      in[k] = row[k] + static_cast<std::ptrdiff_t>(w.bytes[k]) * begin;
    }
    body(begin, in, end - begin);
    return;
  }
  alignas(64) std::byte buffer[kInputs][static_cast<std::size_t>(kGather) * 8];
  for (std::int64_t i = begin; i < end; i += kGather) {
    const std::int64_t n = end - i < kGather ? end - i : kGather;
    for (std::size_t k = 0; k < kInputs; ++k) {
      const std::int64_t stride = w.strides[0][k];
      const std::byte* from = row[k] + static_cast<std::ptrdiff_t>(w.bytes[k]) * stride * i;
      if (stride == 1) {
        in[k] = from;
        continue;
      }
      in[k] = buffer[k];
      if (stride == 0 && i != begin) {
        continue;  // filled by the first piece, which was the longest
      }
      const auto gather = [&](auto unit) {
        using Unit = decltype(unit);
        auto* to = reinterpret_cast<Unit*>(buffer[k]);
        const auto* x = reinterpret_cast<const Unit*>(from);
        for (std::int64_t j = 0; j < n; ++j) {
          to[j] = x[j * stride];
        }
      };
      switch (w.bytes[k]) {
        case 1:
          gather(std::uint8_t{});
          break;
        case 2:
          gather(std::uint16_t{});
          break;
        case 4:
          gather(std::uint32_t{});
          break;
        default:
          gather(std::uint64_t{});
          break;
      }
    }
    body(i, in, n);
  }
}

/// Calls body(y, inputs, n) over contiguous spans of the whole result, shared out over the threads.
template <std::size_t kInputs, class Body>
void walk(const Walk<kInputs>& w, void* y, const Body& body) {
  if (w.total == 0) {
    return;
  }
  const std::int64_t n = w.sizes[0];
  const std::int64_t rows = w.total / n;
  const std::int64_t pieces = (n + kSpanGrain - 1) / kSpanGrain;
  const std::int64_t grain = n >= kSpanGrain ? 1 : kSpanGrain / n;
  parallel_for(rows * pieces, grain, [&](std::int64_t first, std::int64_t last, int) {
    for (std::int64_t task = first; task < last; ++task) {
      std::int64_t row = task / pieces;
      const std::int64_t begin = task % pieces * kSpanGrain;
      std::byte* out = static_cast<std::byte*>(y) + static_cast<std::ptrdiff_t>(w.out_bytes) * row * n;
      std::array<const std::byte*, kInputs> at = w.data;
      for (int d = 1; d < w.dims; ++d) {
        const auto dim = static_cast<std::size_t>(d);
        const std::int64_t index = row % w.sizes[dim];
        row /= w.sizes[dim];
        for (std::size_t k = 0; k < kInputs; ++k) {
          at[k] += static_cast<std::ptrdiff_t>(w.bytes[k]) * index * w.strides[dim][k];
        }
      }
      walk_row(w, at, begin, begin + kSpanGrain < n ? begin + kSpanGrain : n,
               [&](std::int64_t i, const std::array<const void*, kInputs>& in, std::int64_t length) {
                 body(out + static_cast<std::ptrdiff_t>(w.out_bytes) * i, in, length);
               });
    }
  });
}

}  // namespace isotone::cpu
