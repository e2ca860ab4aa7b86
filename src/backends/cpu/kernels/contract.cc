// Contraction of plain operands: B is packed block by block, A chunk by chunk, into scratch (contract_drive.h).
#include "backends/cpu/kernels/contract.h"

#include <algorithm>

#include "backends/cpu/kernels/contract_drive.h"
#include "base/error.h"
#include "base/parallel.h"

namespace isotone::cpu {
namespace {

/// One node of one batch item. `c.a.data` and `c.b.data` are the item's.
void contract_node(const Route& r, const Contraction& c, const Node& node, const Result& result) {
  const DType dtype = c.a.dtype;
  const KernelTable& t = *r.table;
  const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(dtype));
  const std::int64_t kp = padded_k(dtype, node.k);
  const auto* a =
      static_cast<const char*>(c.a.data) + (node.outer_begin * c.a.outer_stride + node.k_begin * c.a.k_stride) * unit;
  const auto* b =
      static_cast<const char*>(c.b.data) + (node.outer_begin * c.b.outer_stride + node.k_begin * c.b.k_stride) * unit;
  Product p;
  p.tiles = r.tiles;
  p.max_rows = r.max_rows;
  p.finish = t.finish;
  p.m = c.m;
  p.outer = node.outer;
  p.k = node.k;
  p.a_row_bytes = packed_row_bytes(r.a_format, node.k);
  p.a_direct = direct_rows(r.a_format, a, c.a.row_stride * unit, c.a.outer_stride * unit, c.a.k_stride, node.k);
  p.pack_step = c.a.k_stride == 1 ? 0 : 32;
  p.pack_a = [&](std::int64_t row, std::int64_t rows, std::int64_t k, std::int64_t count, char* target) {
    for (std::int64_t o = 0; o < node.outer; ++o) {
      t.pack(r.a_format, a + (row * c.a.row_stride + o * c.a.outer_stride + k * c.a.k_stride) * unit, c.a.row_stride,
             c.a.k_stride, rows, rows, count, target + rows * (o * p.a_row_bytes + packed_row_bytes(r.a_format, k)));
    }
  };
  p.b_outer_bytes = kp * kPanel * r.b_bytes;
  p.b_panel_bytes = std::max<std::int64_t>(64, p.b_outer_bytes * node.outer);
  // Panels are packed 8 MiB at a time (at least 8): then chunks of A are packed again rarely.
  const std::int64_t block_n = std::max<std::int64_t>((8 << 20) / p.b_panel_bytes, 8) * kPanel;
  char* packed = thread_scratch(1, p.b_panel_bytes * ((std::min(c.n, block_n) + kPanel - 1) / kPanel));
  p.b = packed;
  for (std::int64_t n0 = 0; n0 < c.n; n0 += block_n) {
    p.n = std::min(block_n, c.n - n0);
    const std::int64_t parts = (p.n + kPanel - 1) / kPanel * node.outer;
    const std::int64_t grain = std::max<std::int64_t>(1, 65536 / std::max<std::int64_t>(1, p.b_outer_bytes));
    parallel_for(parts, grain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / node.outer * kPanel;
        const std::int64_t o = i % node.outer;
        t.pack(r.b_format, b + ((n0 + row) * c.b.row_stride + o * c.b.outer_stride) * unit, c.b.row_stride,
               c.b.k_stride, std::min(kPanel, p.n - row), kPanel, node.k,
               packed + i / node.outer * p.b_panel_bytes + o * p.b_outer_bytes);
      }
    });
    p.c = result.at(0, n0);
    multiply(p);
  }
}

/// One value per batch item, batch contiguous: lanes over the batch.
void contract_lanes(LaneFunction run, const Contraction& c) {
  const std::vector<LeafStep> steps = tree_steps(c.outer, c.k);
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
  const Route r = route_for(c.a.dtype);
  c_format(c.c_dtype);
  if (c.batch == 0 || c.m == 0 || c.n == 0) {
    return;
  }
  if (c.m == 1 && c.n == 1 && c.batch > 1 && c.a.batch_stride == 1 && c.b.batch_stride == 1 && c.c_batch_stride == 1) {
    log_contraction("contract_lanes", c.a.dtype, r.table->finish != nullptr ? isa_name(current_isa()) : r.set);
    contract_lanes(r.lanes, c);
    return;
  }
  log_contraction("contract", c.a.dtype, r.set);
  if (c.batch > 1 && c.b.batch_stride == 0 && c.a.batch_stride == c.m * c.a.row_stride &&
      c.c_batch_stride == c.m * c.c_row_stride) {
    c.m *= c.batch;  // the batch is more rows
    c.batch = 1;
  }
  const std::int64_t unit = static_cast<std::int64_t>(unit_bytes(c.a.dtype));
  const Result result{static_cast<char*>(c.c), c.c_dtype, c.c_row_stride, c.c_column_stride};
  // With more than a tile of rows a panel is used again: its part must fit the cache.
  const std::int64_t longest = c.m > r.max_rows ? (1 << 20) / (kPanel * r.b_bytes) : INT64_MAX;
  const auto item = [&](std::int64_t b) {
    Contraction one = c;
    one.a.data = static_cast<const char*>(c.a.data) + b * c.a.batch_stride * unit;
    one.b.data = static_cast<const char*>(c.b.data) + b * c.b.batch_stride * unit;
    Result to = result;
    to.c += b * c.c_batch_stride * result.unit();
    cut_reduction({0, c.outer, 0, c.k}, longest, c.m, c.n, to,
                  [&](const Node& node, const Result& part) { contract_node(r, one, node, part); });
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

}  // namespace isotone::cpu
