#include "backends/cpu/kernels/contract_drive.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/half.h"
#include "base/kernel_log.h"
#include "base/numerics.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {

const KernelTable& table_for(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::avx2:
      return kernels_avx2();
    case Isa::avx512:
      return kernels_avx512();
    case Isa::avx512_bf16:
      return kernels_avx512_bf16();
#endif
#if defined(__aarch64__)
    case Isa::neon:
      return kernels_neon();
#endif
    default:
      return kernels_scalar();
  }
}

Route route_for(DType dtype) {
  const Isa isa = current_isa();
  const KernelTable& t = table_for(isa);
  switch (dtype) {
    case DType::f32:
      return {&t, isa_name(isa), t.f32, t.lanes_f32, t.max_rows, PackFormat::words, PackFormat::words, 4};
    case DType::bf16:
      if (numerics_profile() == NumericsProfile::amx_1) {
        const bool tiles = amx_in_use();
#if defined(__x86_64__)
        const KernelTable& b = tiles ? kernels_amx() : t;
#else
        const KernelTable& b = t;
#endif
        return {&b,
                tiles ? "amx" : isa_name(isa),
                b.bf16_blocks,
                b.lanes_blocks,
                b.max_rows_blocks,
                b.a_blocks,
                PackFormat::pairs,
                2};
      }
      return {&t, isa_name(isa), t.bf16, t.lanes_bf16, t.max_rows, t.a_bf16, PackFormat::pairs, 2};
    case DType::f16:
      return {&t, isa_name(isa), t.f16, t.lanes_f16, t.max_rows, PackFormat::widened, PackFormat::halves, 2};
    default:
      fail("a contraction of {} was asked for; it takes f32, bf16 and f16", dtype_name(dtype));
  }
}

std::int64_t packed_row_bytes(PackFormat format, std::int64_t k) {
  switch (format) {
    case PackFormat::words:
    case PackFormat::widened:
      return k * 4;
    case PackFormat::halves:
      return k * 2;
    case PackFormat::pairs:
      return (k + 1) / 2 * 4;
    case PackFormat::swapped:
      return (k + 1) / 2 * 8;
    case PackFormat::tiles:
      return (k + 31) / 32 * 64;
  }
  return 0;
}

DirectRows direct_rows(PackFormat format, const char* data, std::int64_t row_bytes, std::int64_t outer_bytes,
                       std::int64_t k_stride, std::int64_t k) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % 64 == 0 && row_bytes % 64 == 0 && outer_bytes % 64 == 0;
  if (format != PackFormat::tiles || !aligned || k_stride != 1 || k % 32 != 0 || row_bytes % 2048 == 0) {
    return {};
  }
  return {data, row_bytes, outer_bytes};
}

char* thread_scratch(int which, std::int64_t bytes) {
  struct Free {
    void operator()(char* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  struct Buffer {
    std::unique_ptr<char, Free> data;
    std::int64_t size = 0;
  };
  static thread_local Buffer buffers[3];
  Buffer& b = buffers[which];
  if (bytes > b.size || b.data == nullptr) {
    b.size = (bytes + bytes / 4 + 4096) / 4096 * 4096;
    b.data.reset(static_cast<char*>(::operator new (static_cast<std::size_t>(b.size), std::align_val_t{64})));
  }
  return b.data.get();
}

std::vector<LeafStep> tree_steps(std::int64_t outer, std::int64_t k) {
  std::vector<LeafStep> steps;
  std::int64_t deepest = 0;
  std::int64_t depth = 0;
  const auto add = [&](int, int) {
    ++steps.back().merges;
    --depth;
    return 0;
  };
  const auto grain = [&](std::int64_t o) {
    const auto leaf = [&](std::int64_t begin, std::int64_t length) {
      steps.push_back({o, begin, length, 0});
      deepest = std::max(deepest, ++depth);
      return 0;
    };
    return axis_tree(0, k, leaf, add);
  };
  element_tree(0, outer, grain, add);
  require(deepest <= kMaxTreeDepth, "a contraction over {} x {} elements needs a tree of depth {}; at most {} is built",
          outer, k, deepest, kMaxTreeDepth);
  return steps;
}

CFormat c_format(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return CFormat::f32;
    case DType::bf16:
      return CFormat::bf16;
    case DType::f16:
      return CFormat::f16;
    default:
      fail("a contraction into {} was asked for; it gives f32, bf16 and f16", dtype_name(dtype));
  }
}

void log_contraction(std::string_view kind, DType dtype, std::string_view set) {
  char name[64];
  const auto end = fmt::format_to_n(name, sizeof name, "{}.{}.{}", kind, dtype_name(dtype), set);
  log_kernel(std::string_view(name, std::min(end.size, sizeof name)));
}

void multiply(const Product& p) {
  if (p.m == 0 || p.n == 0) {
    return;
  }
  const std::vector<LeafStep> steps = tree_steps(p.outer, p.k);
  const CFormat format = c_format(p.c.dtype);
  const std::int64_t panels = (p.n + kPanel - 1) / kPanel;
  const std::int64_t tile_count = (p.m + p.max_rows - 1) / p.max_rows;
  const bool direct = p.a_direct.data != nullptr;
  const std::int64_t row_bytes = std::max<std::int64_t>(1, p.a_row_bytes * p.outer);
  // Tiles of nearly equal height; tile units, which are set up for a height, get few different ones.
  const auto tile_begin = [&](std::int64_t tile) {
    return p.finish != nullptr ? std::min(tile * p.max_rows, p.m) : tile * p.m / tile_count;
  };
  const auto run = [&](const char* a, std::int64_t tile, std::int64_t panel) {
    const std::int64_t row = tile_begin(tile);
    const Result c = p.c.at(row, panel * kPanel);
    TileArgs args;
    args.rows = tile_begin(tile + 1) - row;
    args.a = direct ? p.a_direct.data + row * p.a_direct.row_bytes : a;
    args.a_outer_bytes = direct ? p.a_direct.outer_bytes : args.rows * p.a_row_bytes;
    args.a_row_bytes = direct ? p.a_direct.row_bytes : 0;
    args.b = p.b + panel * p.b_panel_bytes;
    args.b_outer_bytes = p.b_outer_bytes;
    args.steps = steps.data();
    args.step_count = static_cast<std::int64_t>(steps.size());
    args.columns = std::min(kPanel, p.n - panel * kPanel);
    args.c = c.c;
    args.c_row_stride = c.row_stride;
    args.c_column_stride = c.column_stride;
    args.c_format = format;
    p.tiles[args.rows - 1](args);
  };
  const auto pack_rows = [&](std::int64_t first, std::int64_t last, char* packed) {
    const std::int64_t row0 = tile_begin(first);
    const std::int64_t step = p.pack_step > 0 ? p.pack_step : std::max<std::int64_t>(1, p.k);
    for (std::int64_t k = 0; k < p.k; k += step) {
      for (std::int64_t tile = first; tile < last; ++tile) {
        const std::int64_t row = tile_begin(tile);
        p.pack_a(row, tile_begin(tile + 1) - row, k, std::min(step, p.k - k), packed + (row - row0) * row_bytes);
      }
    }
  };
  const auto finish = [&] {
    if (p.finish != nullptr) {
      p.finish();
    }
  };
  const std::int64_t threads = thread_count();
  if (tile_count >= 4 * threads) {
    // Many rows: an item is a chunk of tiles, whose packed A stays in the second-level cache while a group of panels
    // passes by. Groups are long, so that packing a chunk again for each is little; the chunks of a group follow one
    // another, so that its panels come from memory once.
    const std::int64_t groups = std::max<std::int64_t>(1, panels / 32);
    const std::int64_t fitting = std::max<std::int64_t>(4, (3 << 18) / (row_bytes * p.max_rows));
    // As many chunks for each thread, of nearly equal size: a short one at the end would leave threads waiting.
    const std::int64_t wanted = std::max({threads, 4 * threads / groups, (tile_count + fitting - 1) / fitting});
    const std::int64_t chunks = std::min(tile_count, (wanted + threads - 1) / threads * threads);
    parallel_for(groups * chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t item = begin; item < end; ++item) {
        const std::int64_t first = item % chunks * tile_count / chunks;
        const std::int64_t last = (item % chunks + 1) * tile_count / chunks;
        const std::int64_t row0 = tile_begin(first);
        char* packed = direct ? nullptr : thread_scratch(2, (tile_begin(last) - row0) * row_bytes);
        if (!direct) {
          pack_rows(first, last, packed);
        }
        const std::int64_t group = item / chunks;
        for (std::int64_t panel = group * panels / groups; panel < (group + 1) * panels / groups; ++panel) {
          for (std::int64_t tile = first; tile < last; ++tile) {
            run(direct ? nullptr : packed + (tile_begin(tile) - row0) * row_bytes, tile, panel);
          }
        }
      }
      finish();
    });
    return;
  }
  // Few rows: A is packed once, panels are shared out, each streamed once.
  char* packed = direct ? nullptr : thread_scratch(0, p.m * row_bytes);
  const std::int64_t pack_grain = std::max<std::int64_t>(1, 65536 / (row_bytes * p.max_rows));
  parallel_for(direct ? 0 : tile_count, pack_grain, [&](std::int64_t begin, std::int64_t end, int) {
    pack_rows(begin, end, packed + tile_begin(begin) * row_bytes);
  });
  const std::int64_t work = std::max<std::int64_t>(1, 2 * p.m * kPanel * p.k * p.outer);
  parallel_for(panels, std::max<std::int64_t>(1, 200000 / work), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      for (std::int64_t tile = 0; tile < tile_count; ++tile) {
        run(direct ? nullptr : packed + tile_begin(tile) * row_bytes, tile, panel);
      }
    }
    finish();
  });
}

namespace {

using Part = std::unique_ptr<float[]>;

/// target = the node's value; `spare` holds the right halves, one buffer a level.
void reduce_node(const Node& node, std::int64_t longest, std::int64_t m, std::int64_t n, float* target,
                 std::vector<Part>& spare, std::size_t level,
                 const std::function<void(const Node&, const Result&)>& product) {
  const bool cut_outer = node.outer > 1;
  if (node.outer * node.k <= longest || (!cut_outer && node.k <= kLeaf)) {
    product(node, {reinterpret_cast<char*>(target), DType::f32, n, 1});
    return;
  }
  Node left = node;
  Node right = node;
  if (cut_outer) {
    left.outer = (node.outer + 1) / 2;
    right.outer_begin += left.outer;
    right.outer -= left.outer;
  } else {
    left.k = axis_cut(node.k);
    right.k_begin += left.k;
    right.k -= left.k;
  }
  if (spare.size() <= level) {
    spare.push_back(Part(new float[static_cast<std::size_t>(m * n)]));
  }
  float* other = spare[level].get();
  reduce_node(left, longest, m, n, target, spare, level + 1, product);
  reduce_node(right, longest, m, n, other, spare, level + 1, product);
  parallel_for(m * n, 16384, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      target[i] = target[i] + other[i];
    }
  });
}

}  // namespace

void cut_reduction(const Node& root, std::int64_t longest, std::int64_t m, std::int64_t n, const Result& c,
                   const std::function<void(const Node&, const Result&)>& product) {
  if (root.outer * root.k <= longest || (root.outer == 1 && root.k <= kLeaf)) {
    product(root, c);
    return;
  }
  const Part whole(new float[static_cast<std::size_t>(m * n)]);
  std::vector<Part> spare;
  reduce_node(root, longest, m, n, whole.get(), spare, 0, product);
  parallel_for(m, std::max<std::int64_t>(1, 16384 / n), [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t row = begin; row < end; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        float x = whole[static_cast<std::size_t>(row * n + column)];
        x = x != x ? std::bit_cast<float>(0x7fc00000U) : x;
        const std::int64_t at = row * c.row_stride + column * c.column_stride;
        switch (c.dtype) {
          case DType::bf16:
            reinterpret_cast<bf16*>(c.c)[at] = bf16(x);
            break;
          case DType::f16:
            reinterpret_cast<f16*>(c.c)[at] = f16(x);
            break;
          default:
            reinterpret_cast<float*>(c.c)[at] = x;
        }
      }
    }
  });
}

}  // namespace isotone::cpu
