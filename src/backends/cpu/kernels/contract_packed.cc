// Weights packed once, and rows times them.
#include <algorithm>
#include <cstring>
#include <new>

#include "backends/cpu/kernels/contract.h"
#include "backends/cpu/kernels/contract_drive.h"
#include "backends/cpu/kernels/weight_memory.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

std::int64_t unit_of(DType dtype) {
  return static_cast<std::int64_t>(unit_bytes(dtype));
}

/// Bytes of `k` features of a panel.
std::int64_t panel_bytes(DType dtype, std::int64_t k) {
  return is_quantised(dtype) ? k / kQuantBlock * kPanel * unit_of(dtype) : padded_k(dtype, k) * kPanel * unit_of(dtype);
}

/// Blocks of a panel: scales[64], minima[64] (q4_1), then codes in groups of four features: [group][64][4].
void pack_blocks(const Operand& b, std::int64_t row0, std::int64_t rows, std::int64_t blocks, unsigned char* target) {
  const std::int64_t unit = unit_of(b.dtype);
  const std::int64_t head = b.dtype == DType::q4_1 ? 4 : 2;
  const unsigned char flip = b.dtype == DType::q8_0 ? 0x80 : 0;  // q8_0 codes become unsigned, biased by 128
  std::memset(target, 0, static_cast<std::size_t>(blocks * kPanel * unit));
  for (std::int64_t block = 0; block < blocks; ++block) {
    unsigned char* out = target + block * kPanel * unit;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto* in =
          static_cast<const unsigned char*>(b.data) + ((row0 + r) * b.row_stride / kQuantBlock + block) * unit;
      for (std::int64_t h = 0; h < head; h += 2) {
        std::memcpy(out + (h / 2 * kPanel + r) * 2, in + h, 2);
      }
      for (std::int64_t i = 0; i < unit - head; ++i) {
        out[kPanel * head + (i / 4 * kPanel + r) * 4 + i % 4] = in[head + i] ^ flip;
      }
    }
  }
}

Route quantised_route(DType dtype) {
  const Isa isa = current_isa();
  const KernelTable& t = table_for(isa);
  const QFormat format = dtype == DType::q8_0 ? QFormat::q8_0 : dtype == DType::q4_0 ? QFormat::q4_0 : QFormat::q4_1;
  return {.table = &t,
          .set = isa_name(isa),
          .tiles = t.quant[static_cast<int>(format)],
          .lanes = nullptr,
          .max_rows = t.max_rows_quant,
          .a_format = PackFormat::words,
          .b_format = PackFormat::words,
          .b_bytes = 0};
}

}  // namespace

PackedWeight pack_weight(const Operand& b, std::int64_t n, std::int64_t k) {
  require(n >= 1 && k >= 0, "a weight of {} x {} was asked to be packed; it needs at least one row", n, k);
  const bool quantised = is_quantised(b.dtype);
  require(quantised || is_float(b.dtype),
          "a weight of {} was asked to be packed; packed are f32, bf16, f16, q8_0, q4_1, q4_0", dtype_name(b.dtype));
  require(!quantised || (k % kQuantBlock == 0 && b.k_stride == 1 && b.row_stride % kQuantBlock == 0),
          "a {} weight with k {}, k stride {}, row stride {} was asked to be packed; rows are whole blocks of 32",
          dtype_name(b.dtype), k, b.k_stride, b.row_stride);
  PackedWeight w;
  w.n_ = n;
  w.k_ = k;
  w.dtype_ = b.dtype;
  w.panel_bytes_ = panel_bytes(b.dtype, k);
  w.bytes_ = static_cast<std::size_t>(std::max<std::int64_t>(64, w.panel_bytes_ * w.panels()));
  const std::shared_ptr<std::byte> data = weight_memory(w.bytes_);
  const KernelTable& t = table_for(current_isa());
  const PackFormat format = b.dtype == DType::f32    ? PackFormat::words
                            : b.dtype == DType::bf16 ? PackFormat::pairs
                                                     : PackFormat::halves;
  parallel_for(w.panels(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      const std::int64_t row = panel * kPanel;
      const std::int64_t rows = std::min(kPanel, n - row);
      std::byte* to = data.get() + panel * w.panel_bytes_;
      if (quantised) {
        pack_blocks(b, row, rows, k / kQuantBlock, reinterpret_cast<unsigned char*>(to));
      } else {
        t.pack(format, static_cast<const char*>(b.data) + row * b.row_stride * unit_of(b.dtype), b.row_stride,
               b.k_stride, rows, kPanel, k, to);
      }
    }
  });
  w.data_ = data;
  return w;
}

void contract_packed(const PackedContraction& c, const PackedWeight& w) {
  require(static_cast<bool>(w), "contract_packed was given an empty weight; pack_weight makes one");
  require(c.m >= 0, "a packed contraction of {} rows was asked for; it cannot be negative", c.m);
  const DType dtype = w.dtype();
  const bool quantised = is_quantised(dtype);
  require(quantised ? (c.a_dtype == DType::f32 || c.a_dtype == DType::bf16) : c.a_dtype == dtype,
          "rows of {} times a packed {} weight were asked for; {}", dtype_name(c.a_dtype), dtype_name(dtype),
          quantised ? "a quantised weight takes f32 or bf16 rows" : "both need one dtype");
  c_format(c.c_dtype);
  if (c.m == 0) {
    return;
  }
  const Route r = quantised ? quantised_route(dtype) : route_for(dtype);
  const KernelTable& t = *r.table;
  log_contraction("contract_packed", dtype, r.set);
  Product p;
  p.tiles = r.tiles;
  p.max_rows = r.max_rows;
  p.finish = quantised ? nullptr : t.finish;
  p.m = c.m;
  p.n = w.n();
  p.b_panel_bytes = panel_bytes(dtype, w.k());
  const std::int64_t longest =
      c.m > p.max_rows ? std::max<std::int64_t>(kLeaf, (1 << 20) / panel_bytes(dtype, kQuantBlock) * kQuantBlock)
                       : INT64_MAX;
  const Result result{static_cast<char*>(c.c), c.c_dtype, c.c_row_stride, c.c_column_stride};
  cut_reduction({0, 1, 0, w.k()}, longest, c.m, w.n(), result, [&](const Node& node, const Result& to) {
    Product part = p;
    part.k = node.k;
    part.c = to;
    part.b = reinterpret_cast<const char*>(w.panel(0)) + panel_bytes(dtype, node.k_begin);
    const auto* a = static_cast<const char*>(c.a) + node.k_begin * c.a_k_stride * unit_of(c.a_dtype);
    part.a_row_bytes = quantised ? node.k / kQuantBlock * 40 : packed_row_bytes(r.a_format, node.k);
    part.a_direct = direct_rows(r.a_format, a, c.a_row_stride * unit_of(c.a_dtype), 0, c.a_k_stride, node.k);
    part.pack_a = [&](std::int64_t row, std::int64_t rows, std::int64_t, std::int64_t, char* target) {
      const char* from = a + row * c.a_row_stride * unit_of(c.a_dtype);
      if (quantised) {
        t.quantise(from, c.a_dtype == DType::bf16, c.a_row_stride, c.a_k_stride, rows, node.k / kQuantBlock, target);
      } else {
        t.pack(r.a_format, from, c.a_row_stride, c.a_k_stride, rows, rows, node.k, target);
      }
    };
    multiply(part);
  });
}

}  // namespace isotone::cpu
