// Shares the tiles of one product out over threads, packing rows of A on the way, and cuts long reductions at nodes of
// their tree so that what is reused stays in cache. Used by contract.cc and contract_packed.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/contract_table.h"
#include "base/dtype.h"

namespace isotone::cpu {

const KernelTable& table_for(Isa isa);

/// How operands of f32, bf16 or f16 run on the instruction set in use, under the profile in use.
struct Route {
  const KernelTable* table;
  std::string_view set;  // name of the instruction set
  const TileFunction* tiles;
  LaneFunction lanes;
  std::int64_t max_rows;  // of a tile
  PackFormat a_format;
  PackFormat b_format;
  std::int64_t b_bytes;  // of a packed element of B
};

/// Throws Error for another dtype.
Route route_for(DType dtype);

/// Bytes of a packed row of A of `k` elements.
std::int64_t packed_row_bytes(PackFormat format, std::int64_t k);

/// Rows of A that tile units load where they lie: address and strides in bytes; `k` elements, contiguous.
struct DirectRows {
  const char* data = nullptr;
  std::int64_t row_bytes = 0;
  std::int64_t outer_bytes = 0;
};

/// The rows as they lie, or none where they must be packed: on lines of 64 bytes, and not so that rows of a tile fall
/// into few sets of the first cache.
DirectRows direct_rows(PackFormat format, const char* data, std::int64_t row_bytes, std::int64_t outer_bytes,
                       std::int64_t k_stride, std::int64_t k);

/// Bytes of this thread's scratch buffer `which` (0: rows of A for one product, 1: panels of B, 2: rows of A for one
/// item of work). Kept between calls; a larger request moves it.
char* thread_scratch(int which, std::int64_t bytes);

/// The leaves of the reduction over (outer, k) in tree order. Throws Error where the tree is deeper than kMaxTreeDepth.
std::vector<LeafStep> tree_steps(std::int64_t outer, std::int64_t k);

/// C's dtype for the kernels; throws Error for one that a contraction cannot give.
CFormat c_format(DType dtype);

/// bf16 is packed in whole pairs.
inline std::int64_t padded_k(DType dtype, std::int64_t k) {
  return dtype == DType::bf16 ? (k + 1) / 2 * 2 : k;
}

/// Where results go: element (row, column) at c[row * row_stride + column * column_stride], strides in elements.
struct Result {
  char* c = nullptr;
  DType dtype = DType::f32;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  std::int64_t unit() const { return static_cast<std::int64_t>(unit_bytes(dtype)); }
  Result at(std::int64_t row, std::int64_t column) const {
    return {c + (row * row_stride + column * column_stride) * unit(), dtype, row_stride, column_stride};
  }
};

/// Rows of A times panels of packed B, over one node of the tree.
struct Product {
  const TileFunction* tiles = nullptr;
  std::int64_t max_rows = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t outer = 1;
  std::int64_t k = 0;
  std::int64_t a_row_bytes = 0;  // packed, of one row in one outer part
  /// Packs elements [k_begin, k_begin + count) of `rows` rows from `row` on into target: [outer][k][rows], all of k.
  std::function<void(std::int64_t row, std::int64_t rows, std::int64_t k_begin, std::int64_t count, char* target)>
      pack_a;
  /// Elements that are packed of all rows of a chunk before the next ones, a multiple of 32: where neighbours in memory
  /// are rows and not elements, a page of them is then used up while it is at hand. 0: all.
  std::int64_t pack_step = 0;
  /// Used instead of pack_a where not none.
  DirectRows a_direct;
  /// KernelTable::finish of the table behind `tiles`.
  void (*finish)() = nullptr;
  const char* b = nullptr;
  std::int64_t b_panel_bytes = 0;
  std::int64_t b_outer_bytes = 0;
  Result c;
};

void multiply(const Product& p);

/// A node of the tree over (outer, k).
struct Node {
  std::int64_t outer_begin, outer, k_begin, k;
};

/// Computes `root` by `product(node, result)`, cutting it into subtrees of at most `longest` elements and joining their
/// f32 results left plus right; what `product` leaves in `c` for an uncut root is final.
void cut_reduction(const Node& root, std::int64_t longest, std::int64_t m, std::int64_t n, const Result& c,
                   const std::function<void(const Node&, const Result&)>& product);

void log_contraction(std::string_view kind, DType dtype, std::string_view set);

}  // namespace isotone::cpu
