// The driver of contractions: checks, packs operands into scratch, and shares tiles of the result out over threads.
// Nothing here touches a value's order; that is in the steps (tree.h) and in contract_tile.h.
#include "backends/cpu/kernels/contract.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/contract_table.h"
#include "base/error.h"
#include "base/kernel_log.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

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

/// Memory that is kept between calls and only grows; aligned to 64 bytes.
class Scratch {
 public:
  char* get(std::size_t bytes) {
    if (bytes > size_) {
      size_ = (bytes + bytes / 4 + 4095) / 4096 * 4096;
      data_.reset(static_cast<char*>(::operator new (size_, std::align_val_t{64})));
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(char* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<char, Free> data_;
  std::size_t size_ = 0;
};

Scratch& scratch(int which) {
  static thread_local Scratch buffers[2];
  return buffers[which];
}

/// The leaves of the whole reduction in tree order.
const std::vector<LeafStep>& tree_steps(std::int64_t outer, std::int64_t k) {
  struct Cached {
    std::int64_t outer = -1, k = -1;
    std::vector<LeafStep> steps;
  };
  static thread_local Cached cached[8];
  static thread_local int next = 0;
  for (const Cached& c : cached) {
    if (c.outer == outer && c.k == k) {
      return c.steps;
    }
  }
  Cached& c = cached[next];
  next = (next + 1) % 8;
  c.outer = outer;
  c.k = k;
  std::vector<LeafStep>& steps = c.steps;
  steps.clear();
  std::int64_t deepest = 0;
  std::int64_t depth = 0;
  const auto add = [&](int, int) {
    ++steps.back().merges;
    --depth;
    return 0;
  };
  element_tree(
      0, outer,
      [&](std::int64_t o) {
        return axis_tree(
            0, k,
            [&](std::int64_t begin, std::int64_t length) {
              steps.push_back({o, begin, length, 0});
              deepest = std::max(deepest, ++depth);
              return 0;
            },
            add);
      },
      add);
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

/// How one dtype runs on one instruction set.
struct Route {
  DType dtype;
  const TileFunction* tiles;
  std::int64_t max_rows;
  PackFormat a_format;
  PackFormat b_format;
  std::int64_t a_bytes;  // a packed element of A, of one row and one k
  std::int64_t b_bytes;
};

std::int64_t padded_k(DType dtype, std::int64_t k) {
  return dtype == DType::bf16 ? (k + 1) / 2 * 2 : k;
}

Route route_for(const KernelTable& t, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return {dtype, t.f32, t.max_rows, PackFormat::words, PackFormat::words, 4, 4};
    case DType::bf16:
      return {dtype, t.bf16, t.max_rows, t.a_bf16, PackFormat::pairs, t.a_bf16 == PackFormat::pairs ? 2 : 4, 2};
    case DType::f16:
      return {dtype, t.f16, t.max_rows, PackFormat::widened, PackFormat::halves, 4, 2};
    default:
      fail("a contraction of {} was asked for; it takes f32, bf16 and f16", dtype_name(dtype));
  }
}

void log_call(std::string_view kind, DType dtype, Isa isa) {
  char name[64];
  const auto end = fmt::format_to_n(name, sizeof name, "{}.{}.{}", kind, dtype_name(dtype), isa_name(isa));
  log_kernel(std::string_view(name, std::min(end.size, sizeof name)));
}

/// Rows 0..m cut into tiles of nearly equal height.
struct Tiles {
  std::int64_t m;
  std::int64_t count;
  Tiles(std::int64_t rows, std::int64_t max_rows) : m(rows), count((rows + max_rows - 1) / max_rows) {}
  std::int64_t begin(std::int64_t tile) const { return tile * m / count; }
};

/// Everything a product of packed A with packed B needs; `b_panel(p)` gives panel p.
struct Product {
  const TileFunction* tiles;
  const std::vector<LeafStep>* steps;
  const char* a;
  std::int64_t a_row_bytes;  // of one row in one outer part; a tile's outer parts follow one another
  std::int64_t outer;
  const char* b;
  std::int64_t b_panel_bytes;
  std::int64_t b_outer_bytes;
  std::int64_t n;
  char* c;
  std::int64_t c_row_stride, c_column_stride;
  DType c_dtype;
};

void multiply(const Product& p, const Tiles& tiles, std::int64_t flops_per_element) {
  const std::int64_t panels = (p.n + kPanel - 1) / kPanel;
  const std::int64_t chunk = std::min<std::int64_t>(tiles.count, 8);  // tiles that reuse a panel in cache
  const std::int64_t chunks = (tiles.count + chunk - 1) / chunk;
  const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(p.c_dtype));
  const CFormat format = c_format(p.c_dtype);
  const std::int64_t work = std::max<std::int64_t>(1, tiles.m / chunks * kPanel * flops_per_element);
  const std::int64_t grain = std::max<std::int64_t>(1, 200000 / work);
  parallel_for(panels * chunks, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t panel = item / chunks;
      const std::int64_t first = item % chunks * chunk;
      const std::int64_t last = std::min(first + chunk, tiles.count);
      for (std::int64_t tile = first; tile < last; ++tile) {
        const std::int64_t row = tiles.begin(tile);
        TileArgs args;
        args.rows = tiles.begin(tile + 1) - row;
        args.a = p.a + row * p.a_row_bytes * p.outer;
        args.a_outer_bytes = args.rows * p.a_row_bytes;
        args.b = p.b + panel * p.b_panel_bytes;
        args.b_outer_bytes = p.b_outer_bytes;
        args.steps = p.steps->data();
        args.step_count = static_cast<std::int64_t>(p.steps->size());
        args.columns = std::min(kPanel, p.n - panel * kPanel);
        args.c = p.c + (row * p.c_row_stride + panel * kPanel * p.c_column_stride) * unit;
        args.c_row_stride = p.c_row_stride;
        args.c_column_stride = p.c_column_stride;
        args.c_format = format;
        p.tiles[args.rows - 1](args);
      }
    }
  });
}

/// Packs rows [0, tiles.m) of A: [tile][outer][k][rows of the tile].
const char* pack_a(const KernelTable& t, const Route& r, const Operand& a, const Tiles& tiles, std::int64_t outer,
                   std::int64_t k) {
  const std::int64_t row_bytes = padded_k(r.dtype, k) * r.a_bytes;
  char* packed = scratch(0).get(static_cast<std::size_t>(std::max<std::int64_t>(64, tiles.m * outer * row_bytes)));
  const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(r.dtype));
  const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, row_bytes * r.max_rows));
  parallel_for(tiles.count * outer, grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t row = tiles.begin(i / outer);
      const std::int64_t rows = tiles.begin(i / outer + 1) - row;
      const std::int64_t o = i % outer;
      t.pack(r.a_format, static_cast<const char*>(a.data) + (row * a.row_stride + o * a.outer_stride) * unit,
             a.row_stride, a.k_stride, rows, rows, k, packed + (row * outer + o * rows) * row_bytes);
    }
  });
  return packed;
}

/// One batch item with plain operands, A and B packed block by block.
void contract_item(const KernelTable& t, const Route& r, const Contraction& c, const char* a_data, const char* b_data,
                   char* c_data) {
  const std::vector<LeafStep> steps = tree_steps(c.outer, c.k);
  const std::int64_t kp = padded_k(r.dtype, c.k);
  const std::int64_t in_unit = static_cast<std::int64_t>(unit_bytes(r.dtype));
  const std::int64_t c_unit = static_cast<std::int64_t>(unit_bytes(c.c_dtype));
  const std::int64_t a_row = std::max<std::int64_t>(1, kp * r.a_bytes * c.outer);
  const std::int64_t panel_bytes = std::max<std::int64_t>(64, kp * kPanel * r.b_bytes * c.outer);
  // Rows of A are packed 16 MiB at a time (at least 480 rows), panels of B 2 MiB at a time (at least 8).
  const std::int64_t block_m = std::max<std::int64_t>((16 << 20) / a_row, 480) / r.max_rows * r.max_rows;
  const std::int64_t block_n = std::max<std::int64_t>((2 << 20) / panel_bytes, 8) * kPanel;
  char* b_packed =
      scratch(1).get(static_cast<std::size_t>(panel_bytes * std::min((c.n + kPanel - 1) / kPanel, block_n / kPanel)));
  for (std::int64_t m0 = 0; m0 < c.m; m0 += block_m) {
    const Tiles tiles(std::min(block_m, c.m - m0), r.max_rows);
    Operand a = c.a;
    a.data = a_data + m0 * a.row_stride * in_unit;
    const char* a_packed = pack_a(t, r, a, tiles, c.outer, c.k);
    for (std::int64_t n0 = 0; n0 < c.n; n0 += block_n) {
      const std::int64_t columns = std::min(block_n, c.n - n0);
      const std::int64_t panels = (columns + kPanel - 1) / kPanel;
      const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, kp * kPanel * r.b_bytes));
      parallel_for(panels * c.outer, grain, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t row = i / c.outer * kPanel;
          const std::int64_t o = i % c.outer;
          t.pack(r.b_format, b_data + ((n0 + row) * c.b.row_stride + o * c.b.outer_stride) * in_unit, c.b.row_stride,
                 c.b.k_stride, std::min(kPanel, columns - row), kPanel, c.k,
                 b_packed + i / c.outer * panel_bytes + o * kp * kPanel * r.b_bytes);
        }
      });
      Product p;
      p.tiles = r.tiles;
      p.steps = &steps;
      p.a = a_packed;
      p.a_row_bytes = kp * r.a_bytes;
      p.outer = c.outer;
      p.b = b_packed;
      p.b_panel_bytes = panel_bytes;
      p.b_outer_bytes = kp * kPanel * r.b_bytes;
      p.n = columns;
      p.c = c_data + (m0 * c.c_row_stride + n0 * c.c_column_stride) * c_unit;
      p.c_row_stride = c.c_row_stride;
      p.c_column_stride = c.c_column_stride;
      p.c_dtype = c.c_dtype;
      multiply(p, tiles, 2 * c.k * c.outer);
    }
  }
}

/// One value per batch item, batch contiguous: lanes over the batch.
void contract_lanes(const KernelTable& t, const Contraction& c) {
  const std::vector<LeafStep> steps = tree_steps(c.outer, c.k);
  const LaneFunction run = c.a.dtype == DType::f32    ? t.lanes_f32
                           : c.a.dtype == DType::bf16 ? t.lanes_bf16
                                                      : t.lanes_f16;
  const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(c.a.dtype));
  const std::int64_t c_unit = static_cast<std::int64_t>(unit_bytes(c.c_dtype));
  const CFormat format = c_format(c.c_dtype);
  parallel_for((c.batch + 63) / 64, 1, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t first = begin * 64;
    LaneArgs args;
    args.a = static_cast<const char*>(c.a.data) + first * unit;
    args.b = static_cast<const char*>(c.b.data) + first * unit;
    args.a_outer = c.a.outer_stride;
    args.a_k = c.a.k_stride;
    args.b_outer = c.b.outer_stride;
    args.b_k = c.b.k_stride;
    args.steps = steps.data();
    args.step_count = static_cast<std::int64_t>(steps.size());
    args.count = std::min(end * 64, c.batch) - first;
    args.c = static_cast<char*>(c.c) + first * c_unit;
    args.c_format = format;
    run(args);
  });
}

}  // namespace

void contract(const Contraction& given) {
  Contraction c = given;
  require(c.a.dtype == c.b.dtype,
          "a contraction of {} with {} was asked for; both sides need one dtype: cast one first", dtype_name(c.a.dtype),
          dtype_name(c.b.dtype));
  require(c.outer >= 1 && c.k >= 0 && c.batch >= 0 && c.m >= 0 && c.n >= 0,
          "a contraction with batch {}, outer {}, m {}, n {}, k {} was asked for; outer is at least 1, the rest not "
          "negative",
          c.batch, c.outer, c.m, c.n, c.k);
  const Isa isa = current_isa();
  const KernelTable& t = table_for(isa);
  const Route r = route_for(t, c.a.dtype);
  c_format(c.c_dtype);
  if (c.batch == 0 || c.m == 0 || c.n == 0) {
    return;
  }
  if (c.m == 1 && c.n == 1 && c.batch > 1 && c.a.batch_stride == 1 && c.b.batch_stride == 1 && c.c_batch_stride == 1) {
    log_call("contract_lanes", c.a.dtype, isa);
    contract_lanes(t, c);
    return;
  }
  log_call("contract", c.a.dtype, isa);
  if (c.batch > 1 && c.b.batch_stride == 0 && c.a.batch_stride == c.m * c.a.row_stride &&
      c.c_batch_stride == c.m * c.c_row_stride) {
    c.m *= c.batch;  // the batch is more rows
    c.batch = 1;
  }
  const std::int64_t in_unit = static_cast<std::int64_t>(unit_bytes(r.dtype));
  const std::int64_t c_unit = static_cast<std::int64_t>(unit_bytes(c.c_dtype));
  const auto item = [&](std::int64_t b) {
    contract_item(t, r, c, static_cast<const char*>(c.a.data) + b * c.a.batch_stride * in_unit,
                  static_cast<const char*>(c.b.data) + b * c.b.batch_stride * in_unit,
                  static_cast<char*>(c.c) + b * c.c_batch_stride * c_unit);
  };
  if (c.batch >= 2 * thread_count()) {
    tree_steps(c.outer, c.k);  // refuses here, not on a worker
    parallel_for(c.batch, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t b = begin; b < end; ++b) {
        item(b);
      }
    });
  } else {
    for (std::int64_t b = 0; b < c.batch; ++b) {
      item(b);
    }
  }
}

PackedWeight pack_weight(const Operand& b, std::int64_t n, std::int64_t k) {
  require(n >= 1 && k >= 0, "a weight of {} x {} was asked to be packed; it needs at least one row", n, k);
  PackedWeight w;
  w.n_ = n;
  w.k_ = k;
  w.dtype_ = b.dtype;
  const bool quantised = is_quantised(b.dtype);
  if (quantised) {
    require(k % kQuantBlock == 0 && b.k_stride == 1 && b.row_stride % kQuantBlock == 0,
            "a {} weight with k {}, k stride {}, row stride {} was asked to be packed; rows are whole blocks of 32",
            dtype_name(b.dtype), k, b.k_stride, b.row_stride);
    w.panel_bytes_ = k / kQuantBlock * kPanel * static_cast<std::int64_t>(unit_bytes(b.dtype));
  } else {
    w.panel_bytes_ = padded_k(b.dtype, k) * kPanel * route_for(kernels_scalar(), b.dtype).b_bytes;
  }
  w.bytes_ = static_cast<std::size_t>(std::max<std::int64_t>(64, w.panel_bytes_ * w.panels()));
  const std::shared_ptr<std::byte> data(static_cast<std::byte*>(::operator new (w.bytes_, std::align_val_t{64})),
                                        [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); });
  const KernelTable& t = table_for(current_isa());
  parallel_for(w.panels(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t row = panel * kPanel;
      const std::int64_t rows = std::min(kPanel, n - row);
      auto* to = reinterpret_cast<unsigned char*>(data.get()) + panel * w.panel_bytes_;
      if (!quantised) {
        t.pack(route_for(t, b.dtype).b_format,
               static_cast<const char*>(b.data) + row * b.row_stride * static_cast<std::int64_t>(unit_bytes(b.dtype)),
               b.row_stride, b.k_stride, rows, kPanel, k, to);
        continue;
      }
      // A block of the panel: scales[64], minima[64] (q4_1), then codes in groups of four features: [group][64][4].
      const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(b.dtype));
      const std::int64_t head = b.dtype == DType::q4_1 ? 4 : 2;
      const unsigned char flip = b.dtype == DType::q8_0 ? 0x80 : 0;  // q8_0 codes become unsigned, biased by 128
      std::fill(to, to + w.panel_bytes_, static_cast<unsigned char>(0));
      for (std::int64_t block = 0; block < k / kQuantBlock; ++block) {
        unsigned char* out = to + block * kPanel * unit;
        for (std::int64_t r = 0; r < rows; ++r) {
          const auto* in =
              static_cast<const unsigned char*>(b.data) + ((row + r) * b.row_stride / kQuantBlock + block) * unit;
          for (std::int64_t h = 0; h < head; h += 2) {
            out[(h / 2 * kPanel + r) * 2] = in[h];
            out[(h / 2 * kPanel + r) * 2 + 1] = in[h + 1];
          }
          for (std::int64_t i = 0; i < unit - head; ++i) {
            out[kPanel * head + (i / 4 * kPanel + r) * 4 + i % 4] = in[head + i] ^ flip;
          }
        }
      }
    }
  });
  w.data_ = data;
  return w;
}

void contract_packed(const PackedContraction& c, const PackedWeight& w) {
  require(static_cast<bool>(w), "contract_packed was given an empty weight; pack_weight makes one");
  require(c.m >= 0, "a packed contraction of {} rows was asked for; it cannot be negative", c.m);
  const Isa isa = current_isa();
  const KernelTable& t = table_for(isa);
  const bool quantised = is_quantised(w.dtype());
  require(quantised ? (c.a_dtype == DType::f32 || c.a_dtype == DType::bf16) : c.a_dtype == w.dtype(),
          "rows of {} times a packed {} weight were asked for; {}", dtype_name(c.a_dtype), dtype_name(w.dtype()),
          quantised ? "a quantised weight takes f32 or bf16 rows" : "both need one dtype");
  c_format(c.c_dtype);
  if (c.m == 0) {
    return;
  }
  log_call("contract_packed", w.dtype(), isa);
  const std::vector<LeafStep> steps = tree_steps(1, w.k());
  const std::int64_t c_unit = static_cast<std::int64_t>(unit_bytes(c.c_dtype));
  Product p;
  p.steps = &steps;
  p.outer = 1;
  p.b = reinterpret_cast<const char*>(w.panel(0));
  p.b_panel_bytes = w.panels() > 1 ? reinterpret_cast<const char*>(w.panel(1)) - p.b : 0;
  p.b_outer_bytes = 0;
  p.n = w.n();
  p.c_row_stride = c.c_row_stride;
  p.c_column_stride = c.c_column_stride;
  p.c_dtype = c.c_dtype;
  const std::int64_t a_unit = static_cast<std::int64_t>(unit_bytes(c.a_dtype));
  const std::int64_t blocks = w.k() / kQuantBlock;
  const Route r = quantised ? Route{} : route_for(t, w.dtype());
  const std::int64_t max_rows = quantised ? t.max_rows_quant : r.max_rows;
  p.a_row_bytes = quantised ? blocks * 40 : padded_k(r.dtype, w.k()) * r.a_bytes;
  p.tiles = quantised ? t.quant[w.dtype() == DType::q8_0 ? 0 : w.dtype() == DType::q4_0 ? 1 : 2] : r.tiles;
  // Rows are packed 16 MiB at a time, so that many rows of a wide weight need no scratch as large as the input.
  const std::int64_t block_m =
      std::max<std::int64_t>((16 << 20) / std::max<std::int64_t>(1, p.a_row_bytes), 480) / max_rows * max_rows;
  for (std::int64_t m0 = 0; m0 < c.m; m0 += block_m) {
    const Tiles tiles(std::min(block_m, c.m - m0), max_rows);
    const char* rows_data = static_cast<const char*>(c.a) + m0 * c.a_row_stride * a_unit;
    if (quantised) {
      char* packed = scratch(0).get(static_cast<std::size_t>(std::max<std::int64_t>(64, tiles.m * p.a_row_bytes)));
      parallel_for(tiles.count, std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, w.k() * max_rows)),
                   [&](std::int64_t begin, std::int64_t end, int) {
                     for (std::int64_t tile = begin; tile < end; ++tile) {
                       const std::int64_t row = tiles.begin(tile);
                       t.quantise(rows_data + row * c.a_row_stride * a_unit, c.a_dtype == DType::bf16, c.a_row_stride,
                                  c.a_k_stride, tiles.begin(tile + 1) - row, blocks, packed + row * p.a_row_bytes);
                     }
                   });
      p.a = packed;
    } else {
      p.a = pack_a(t, r, Operand{rows_data, c.a_dtype, 0, 0, c.a_row_stride, c.a_k_stride}, tiles, 1, w.k());
    }
    p.c = static_cast<char*>(c.c) + m0 * c.c_row_stride * c_unit;
    multiply(p, tiles, 2 * w.k());
  }
}

}  // namespace isotone::cpu
