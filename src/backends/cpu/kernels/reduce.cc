// Shares reductions out over the threads (rows or blocks of columns), and rounds to the output's type.
#include "backends/cpu/kernels/reduce.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "backends/cpu/kernels/elementwise_table.h"
#include "backends/cpu/kernels/reduce_table.h"
#include "base/error.h"
#include "base/half.h"
#include "base/kernel_log.h"
#include "base/parallel.h"

namespace isotone::cpu {
namespace {

constexpr std::int64_t kWork = 16384;  // elements worth a hand-over
constexpr std::int64_t kColumns = 64;  // columns reduced together: a cache line or more of each row

std::int64_t per_task(std::int64_t n) {
  return std::max<std::int64_t>(1, kWork / std::max<std::int64_t>(n, 1));
}

const std::byte* at(DType t, const void* p, std::int64_t elements) {
  return static_cast<const std::byte*>(p) + static_cast<std::ptrdiff_t>(unit_bytes(t)) * elements;
}

template <class Visit>
void visit_type(DType t, const Visit& visit) {
  switch (t) {
    case DType::f32:
      return visit(float{});
    case DType::bf16:
      return visit(bf16{});
    case DType::f16:
      return visit(f16{});
    case DType::i8:
      return visit(std::int8_t{});
    case DType::u8:
    case DType::boolean:
      return visit(std::uint8_t{});
    case DType::i32:
      return visit(std::int32_t{});
    default:
      return visit(std::int64_t{});
  }
}

template <class T>
auto widen(T x) {
  if constexpr (std::is_same_v<T, bf16> || std::is_same_v<T, f16>) {
    return static_cast<float>(x);
  } else {
    return x;
  }
}

template <class T>
std::int32_t position(const T* x, std::int64_t n, std::int64_t stride, bool largest) {
  std::int64_t best = 0;
  auto top = widen(x[0]);
  for (std::int64_t i = 1; i < n && top == top; ++i) {
    const auto v = widen(x[i * stride]);
    if (v != v || (largest ? v > top : v < top)) {
      best = i;
      top = v;
    }
  }
  return static_cast<std::int32_t>(best);
}

void arg(DType t, std::int32_t* y, const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner,
         bool largest) {
  require(!is_quantised(t) && (n > 0 || outer * inner == 0), "argmax needs a plain dtype and a non-empty axis; got {}",
          dtype_name(t));
  log_kernel(largest ? "argmax" : "argmin");
  const ReduceTable& table = reduce_table();
  parallel_for(outer * inner, per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t o = begin; o < end; ++o) {
      visit_type(t, [&](auto zero) {
        using T = decltype(zero);
        const T* row = static_cast<const T*>(x) + o / inner * n * inner + o % inner;
        if (is_float(t) && inner == 1 && n >= 64) {
          // The value by vectors, then the first element equal to it.
          float top = 0.0F;
          table.rows[static_cast<int>(largest ? ReduceOp::max : ReduceOp::min)][static_cast<int>(t)](&top, row, 1, n);
          std::int64_t i = 0;
          while (i + 1 < n && !(top == top ? static_cast<float>(row[i]) == top
                                           : static_cast<float>(row[i]) != static_cast<float>(row[i]))) {
            ++i;
          }
          y[o] = static_cast<std::int32_t>(i);
        } else {
          y[o] = position(row, n, inner, largest);
        }
      });
    }
  });
}

template <class T>
void sort_line(const T* x, std::int64_t n, std::int64_t k, std::int64_t stride, bool descending, T* values,
               std::int32_t* positions, std::vector<std::pair<float, std::int32_t>>* scratch) {
  auto& order = *scratch;
  order.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    order[static_cast<std::size_t>(i)] = {static_cast<float>(x[i * stride]), static_cast<std::int32_t>(i)};
  }
  const auto before = [descending](const auto& a, const auto& b) {
    const bool a_nan = a.first != a.first;
    const bool b_nan = b.first != b.first;
    if (a_nan || b_nan) {
      return a_nan == b_nan ? a.second < b.second : b_nan;
    }
    if (a.first != b.first) {
      return descending ? a.first > b.first : a.first < b.first;
    }
    return a.second < b.second;  // equals in order of position: stable
  };
  if (k < n) {
    std::partial_sort(order.begin(), order.begin() + k, order.end(), before);
  } else {
    std::sort(order.begin(), order.end(), before);
  }
  for (std::int64_t i = 0; i < k; ++i) {
    const auto from = order[static_cast<std::size_t>(i)].second;
    if (values != nullptr) {
      values[i * stride] = x[from * stride];
    }
    positions[i * stride] = from;
  }
}

}  // namespace

void reduce(ReduceOp op, DType to, void* y, DType from, const void* x, std::int64_t outer, std::int64_t n,
            std::int64_t inner) {
  require(is_float(to) && is_float(from), "reductions take f32, bf16 or f16, not {} to {}", dtype_name(from),
          dtype_name(to));
  log_kernel("reduce");
  const ReduceTable& table = reduce_table();
  const auto narrow = elementwise_table().cast[0][static_cast<int>(to)];
  const auto rows = table.rows[static_cast<int>(op)][static_cast<int>(from)];
  const auto columns = table.columns[static_cast<int>(op)][static_cast<int>(from)];
  const auto out = [&](std::int64_t i) {
    return static_cast<std::byte*>(y) + static_cast<std::ptrdiff_t>(unit_bytes(to)) * i;
  };
  if (inner == 1) {
    parallel_for(outer, per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
      float part[64];
      for (std::int64_t o = begin; o < end; o += 64) {
        const std::int64_t count = std::min<std::int64_t>(64, end - o);
        rows(part, at(from, x, o * n), count, n);
        narrow(out(o), part, count);
      }
    });
    return;
  }
  const std::int64_t blocks = (inner + kColumns - 1) / kColumns;
  parallel_for(outer * blocks, per_task(n * std::min(inner, kColumns)), [&](std::int64_t begin, std::int64_t end, int) {
    float part[kColumns];
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t o = task / blocks;
      const std::int64_t i = task % blocks * kColumns;
      const std::int64_t count = std::min(kColumns, inner - i);
      columns(part, at(from, x, o * n * inner + i), count, n, inner);
      narrow(out(o * inner + i), part, count);
    }
  });
}

void argmax(DType t, std::int32_t* y, const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  arg(t, y, x, outer, n, inner, true);
}
void argmin(DType t, std::int32_t* y, const void* x, std::int64_t outer, std::int64_t n, std::int64_t inner) {
  arg(t, y, x, outer, n, inner, false);
}

void cumsum(DType t, void* yv, const void* xv, std::int64_t outer, std::int64_t n, std::int64_t inner, bool reverse) {
  require(is_float(t), "cumsum takes f32, bf16 or f16, not {}", dtype_name(t));
  log_kernel("cumsum");
  parallel_for(outer * inner, per_task(n), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t o = begin; o < end; ++o) {
      const auto line = [&](auto zero) {
        using T = decltype(zero);
        const std::int64_t first = o / inner * n * inner + o % inner;
        const T* x = static_cast<const T*>(xv) + first;
        T* y = static_cast<T*>(yv) + first;
        float sum = 0.0F;
        for (std::int64_t k = 0; k < n; ++k) {
          const std::int64_t i = (reverse ? n - 1 - k : k) * inner;
          sum += static_cast<float>(x[i]);
          y[i] = T(sum == sum ? sum : std::bit_cast<float>(0x7fc00000U));
        }
      };
      t == DType::f32 ? line(float{}) : t == DType::bf16 ? line(bf16{}) : line(f16{});
    }
  });
}

void sort(DType t, void* values, std::int32_t* positions, const void* x, std::int64_t outer, std::int64_t n,
          std::int64_t inner, bool descending) {
  require(is_float(t), "sort takes f32, bf16 or f16, not {}", dtype_name(t));
  log_kernel("sort");
  parallel_for(outer * inner, per_task(16 * n), [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::pair<float, std::int32_t>> scratch;
    for (std::int64_t o = begin; o < end; ++o) {
      const std::int64_t first = o / inner * n * inner + o % inner;
      const auto line = [&](auto zero) {
        using T = decltype(zero);
        sort_line(static_cast<const T*>(x) + first, n, n, inner, descending,
                  values == nullptr ? nullptr : static_cast<T*>(values) + first, positions + first, &scratch);
      };
      t == DType::f32 ? line(float{}) : t == DType::bf16 ? line(bf16{}) : line(f16{});
    }
  });
}

void topk(DType t, void* values, std::int32_t* positions, const void* x, std::int64_t rows, std::int64_t n,
          std::int64_t k) {
  require(is_float(t) && k >= 1 && k <= n, "topk takes f32, bf16 or f16 and 1 <= k <= {}; got {} and k = {}", n,
          dtype_name(t), k);
  log_kernel("topk");
  parallel_for(rows, per_task(4 * n), [&](std::int64_t begin, std::int64_t end, int) {
    std::vector<std::pair<float, std::int32_t>> scratch;
    for (std::int64_t row = begin; row < end; ++row) {
      const auto line = [&](auto zero) {
        using T = decltype(zero);
        sort_line(static_cast<const T*>(x) + row * n, n, k, 1, true,
                  values == nullptr ? nullptr : static_cast<T*>(values) + row * k, positions + row * k, &scratch);
      };
      t == DType::f32 ? line(float{}) : t == DType::bf16 ? line(bf16{}) : line(f16{});
    }
  });
}

}  // namespace isotone::cpu
