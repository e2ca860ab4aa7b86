// Gathering is memory traffic, so plain loops do (the file is named for its -O3, not for an instruction set); the
// gradient walks the positions of each id down the axis tree and skips parts without any, which changes no bit because
// absent terms are +0.
#include "backends/cpu/kernels/embedding.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/kernel_log.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

f16 half_at(const std::uint8_t* p) {
  std::uint16_t b = 0;
  std::memcpy(&b, p, 2);
  return f16::from_bits(b);
}

void widen_row(DType from, const std::uint8_t* row, std::int64_t n, float* out) {
  switch (from) {
    case DType::f32:
      std::memcpy(out, row, static_cast<std::size_t>(n) * 4);
      return;
    case DType::bf16:
    case DType::f16:
      for (std::int64_t i = 0; i < n; ++i) {
        std::uint16_t b = 0;
        std::memcpy(&b, row + 2 * i, 2);
        out[i] = from == DType::bf16 ? static_cast<float>(bf16::from_bits(b)) : static_cast<float>(f16::from_bits(b));
      }
      return;
    case DType::q8_0:
      for (std::int64_t i = 0; i < n; i += kQuantBlock, row += 34) {
        const float d = static_cast<float>(half_at(row));
        for (int j = 0; j < 32; ++j) {
          out[i + j] = static_cast<float>(static_cast<std::int8_t>(row[2 + j])) * d;
        }
      }
      return;
    case DType::q4_0:
      for (std::int64_t i = 0; i < n; i += kQuantBlock, row += 18) {
        const float d = static_cast<float>(half_at(row));
        for (int j = 0; j < 16; ++j) {
          out[i + j] = static_cast<float>((row[2 + j] & 15) - 8) * d;
          out[i + j + 16] = static_cast<float>((row[2 + j] >> 4) - 8) * d;
        }
      }
      return;
    case DType::q4_1:
      for (std::int64_t i = 0; i < n; i += kQuantBlock, row += 20) {
        const float d = static_cast<float>(half_at(row));
        const float m = static_cast<float>(half_at(row + 2));
        for (int j = 0; j < 16; ++j) {
          out[i + j] = static_cast<float>(row[4 + j] & 15) * d + m;
          out[i + j + 16] = static_cast<float>(row[4 + j] >> 4) * d + m;
        }
      }
      return;
    default:
      return;
  }
}

void narrow_row(DType to, const float* in, std::int64_t n, std::uint8_t* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    if (to == DType::f32) {
      const float v = in[i] == in[i] ? in[i] : std::bit_cast<float>(0x7fc00000U);
      std::memcpy(out + 4 * i, &v, 4);
    } else {
      const std::uint16_t b = to == DType::bf16 ? bf16(in[i]).bits : f16(in[i]).bits;
      std::memcpy(out + 2 * i, &b, 2);
    }
  }
}

/// The positions of one id within a grain, ascending, and what is needed to add their rows.
struct Rows {
  DType t;
  const std::uint8_t* dy;  // of the grain
  std::int64_t n;

  void add(std::int64_t position, float* acc) const {
    const std::uint8_t* row = dy + static_cast<std::size_t>(position * n) * unit_bytes(t);
    if (t == DType::f32) {
      const float* x = reinterpret_cast<const float*>(row);
      for (std::int64_t i = 0; i < n; ++i) {
        acc[i] = acc[i] + x[i];
      }
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint16_t b = 0;
      std::memcpy(&b, row + 2 * i, 2);
      acc[i] =
          acc[i] + (t == DType::bf16 ? static_cast<float>(bf16::from_bits(b)) : static_cast<float>(f16::from_bits(b)));
    }
  }

  /// out [n] = the axis tree over positions [begin, begin + length); `first`..`last` are those that hold the id, at
  /// least one.
  void tree(std::int64_t begin, std::int64_t length, const std::int32_t* first, const std::int32_t* last,
            float* out) const {
    if (length <= kLeaf) {
      std::fill(out, out + n, 0.0F);
      for (; first != last; ++first) {
        add(*first, out);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = out[i] + 0.0F;
      }
      return;
    }
    const std::int64_t left = axis_cut(length);
    const std::int32_t* middle = std::lower_bound(first, last, static_cast<std::int32_t>(begin + left));
    if (middle == first) {
      tree(begin + left, length - left, first, last, out);
    } else if (middle == last) {
      tree(begin, left, first, last, out);
    } else {
      std::vector<float> right(static_cast<std::size_t>(n));
      tree(begin, left, first, middle, out);
      tree(begin + left, length - left, middle, last, right.data());
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = out[i] + right[static_cast<std::size_t>(i)];
      }
    }
  }
};

}  // namespace

std::int64_t first_invalid_id(std::span<const std::int32_t> ids, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocabulary) {
      return static_cast<std::int64_t>(i);
    }
  }
  return -1;
}

void embedding(DType to, void* y, DType from, const void* table, std::span<const std::int32_t> ids, std::int64_t n) {
  require(is_float(to), "embedding gives f32, bf16 or f16, not {}", dtype_name(to));
  require(is_float(from) || (is_quantised(from) && n % kQuantBlock == 0),
          "embedding takes float rows, or quantised ones of a multiple of 32; got {} rows of {}", dtype_name(from), n);
  log_kernel("embedding");
  const std::size_t row_bytes = storage_bytes(from, n);
  const std::size_t out_bytes = storage_bytes(to, n);
  const auto* source = static_cast<const std::uint8_t*>(table);
  auto* target = static_cast<std::uint8_t*>(y);
  parallel_for(static_cast<std::int64_t>(ids.size()), std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(n, 1)),
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::vector<float> wide(from == to ? 0 : static_cast<std::size_t>(n));
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::uint8_t* row =
                       source + static_cast<std::size_t>(ids[static_cast<std::size_t>(i)]) * row_bytes;
                   std::uint8_t* out = target + static_cast<std::size_t>(i) * out_bytes;
                   if (from == to) {
                     std::memcpy(out, row, row_bytes);
                   } else {
                     widen_row(from, row, n, wide.data());
                     narrow_row(to, wide.data(), n, out);
                   }
                 }
               });
}

void embedding_grad(DType t, float* dtable, const void* dy, std::span<const std::int32_t> ids, std::int64_t grains,
                    std::int64_t vocabulary, std::int64_t n) {
  require(is_float(t), "embedding_grad takes f32, bf16 or f16, not {}", dtype_name(t));
  log_kernel("embedding_grad");
  const std::int64_t total = static_cast<std::int64_t>(ids.size());
  const std::int64_t tokens = grains > 0 ? total / grains : 0;
  parallel_for(
      vocabulary, std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(n, 1)),
      [&](std::int64_t begin, std::int64_t end, int) { std::fill(dtable + begin * n, dtable + end * n, 0.0F); });
  // All positions, sorted by id and then by position: one run for each id.
  std::vector<std::int64_t> order(static_cast<std::size_t>(total));
  for (std::int64_t i = 0; i < total; ++i) {
    order[static_cast<std::size_t>(i)] = (static_cast<std::int64_t>(ids[static_cast<std::size_t>(i)]) << 32) | i;
  }
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> runs;
  for (std::int64_t i = 0; i < total; ++i) {
    if (i == 0 || (order[static_cast<std::size_t>(i)] >> 32) != (order[static_cast<std::size_t>(i) - 1] >> 32)) {
      runs.push_back(i);
    }
  }
  runs.push_back(total);
  parallel_for(static_cast<std::int64_t>(runs.size()) - 1, 4, [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::vector<float>> partial;  // one finished sum for each grain that holds the id
    std::vector<std::int32_t> positions;
    for (std::int64_t run = begin; run < end; ++run) {
      const std::int64_t from = runs[static_cast<std::size_t>(run)];
      const std::int64_t to = runs[static_cast<std::size_t>(run) + 1];
      float* out = dtable + (order[static_cast<std::size_t>(from)] >> 32) * n;
      std::vector<std::int64_t> owner;
      partial.clear();
      for (std::int64_t i = from; i < to;) {
        const std::int64_t grain = (order[static_cast<std::size_t>(i)] & 0xffffffff) / tokens;
        positions.clear();
        for (; i < to && (order[static_cast<std::size_t>(i)] & 0xffffffff) / tokens == grain; ++i) {
          positions.push_back(static_cast<std::int32_t>((order[static_cast<std::size_t>(i)] & 0xffffffff) % tokens));
        }
        const Rows rows{t, static_cast<const std::uint8_t*>(dy) + storage_bytes(t, grain * tokens * n), n};
        partial.emplace_back(static_cast<std::size_t>(n));
        owner.push_back(grain);
        rows.tree(0, tokens, positions.data(), positions.data() + positions.size(), partial.back().data());
      }
      // The element tree over all grains; null stands for a grain, or a part, without the id.
      const auto joined = element_tree(
          0, grains,
          [&](std::int64_t grain) -> float* {
            const auto it = std::lower_bound(owner.begin(), owner.end(), grain);
            return it != owner.end() && *it == grain ? partial[static_cast<std::size_t>(it - owner.begin())].data()
                                                     : nullptr;
          },
          [&](float* a, float* b) -> float* {
            if (a == nullptr || b == nullptr) {
              return a == nullptr ? b : a;
            }
            for (std::int64_t i = 0; i < n; ++i) {
              a[i] = a[i] + b[i];
            }
            return a;
          });
      for (std::int64_t i = 0; i < n; ++i) {
        const float v = joined[i] + 0.0F;
        out[i] = v == v ? v : std::bit_cast<float>(0x7fc00000U);
      }
    }
  });
}

std::int64_t first_non_finite(DType t, const void* x, std::int64_t n) {
  require(is_float(t), "first_non_finite takes f32, bf16 or f16, not {}", dtype_name(t));
  std::atomic<std::int64_t> found{n};
  constexpr std::int64_t kBlock = 4096;
  parallel_for((n + kBlock - 1) / kBlock, 16, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t from = block * kBlock;
      const std::int64_t length = std::min(kBlock, n - from);
      if (from >= found.load(std::memory_order_relaxed)) {
        return;
      }
      const auto scan = [&](auto* p, auto mask) {
        using Word = decltype(mask);
        Word bad = 0;
        for (std::int64_t i = 0; i < length; ++i) {
          bad = static_cast<Word>(bad | static_cast<Word>((p[from + i] & mask) == mask));
        }
        if (bad == 0) {
          return;
        }
        for (std::int64_t i = 0; i < length; ++i) {
          if ((p[from + i] & mask) == mask) {
            std::int64_t now = found.load();
            while (from + i < now && !found.compare_exchange_weak(now, from + i)) {
            }
            return;
          }
        }
      };
      if (t == DType::f32) {
        scan(static_cast<const std::uint32_t*>(x), std::uint32_t{0x7f800000});
      } else if (t == DType::bf16) {
        scan(static_cast<const std::uint16_t*>(x), std::uint16_t{0x7f80});
      } else {
        scan(static_cast<const std::uint16_t*>(x), std::uint16_t{0x7c00});
      }
    }
  });
  const std::int64_t index = found.load();
  return index == n ? -1 : index;
}

}  // namespace isotone::cpu
