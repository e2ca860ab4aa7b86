// The gradient of attention. Two kinds of tasks, each owner of its outputs: a block of queries sums dq over the blocks
// of keys it sees; a block of keys sums dk and dv over the blocks of queries that see it, then over the heads of the
// group.
#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/attention_driver.h"

namespace isotone::cpu {
namespace {

using namespace attention;

/// One document and key head, with what is packed for it.
struct Unit {
  Document doc;
  std::int64_t kv_head;
  std::int64_t blocks;
  float* packed = nullptr;
  float* kept = nullptr;  // dS of every head of the group and pair of blocks, or null
};
struct Task {
  const Unit* unit;
  std::int64_t block;
  std::int64_t head;  // of queries; -1: the keys of `block`
  std::int64_t cost;
};

class Backward {
 public:
  explicit Backward(const AttentionBackward& a)
      : a_(a),
        s_(a.shape),
        tiles_(tiles_for(s_.dtype, "attention_grad")),
        bytes_(static_cast<std::int64_t>(unit_bytes(s_.dtype))),
        group_(s_.heads / s_.kv_heads),
        width_(row_width(s_.d)),
        transposed_(tiles_.words(s_.d) * kBlock),
        rows_(kBlock * width_) {}

  void run(const std::vector<Document>& documents) {
    std::vector<Unit> units;
    std::int64_t floats = 0;
    for (const Document& doc : documents) {
      for (std::int64_t h = 0; h < s_.kv_heads; ++h) {
        const Unit u{doc, h, (doc.length + kBlock - 1) / kBlock};
        const std::int64_t more = u.blocks * block_floats() + (keeps(u) ? kept_floats(u) : 0);
        if (!units.empty() && floats + more > kPackedFloats) {
          run_batch(units, floats);
          units.clear();
          floats = 0;
        }
        units.push_back(u);
        floats += more;
      }
    }
    run_batch(units, floats);
    trim_scratch();
  }

 private:
  // Packed per block: k transposed, v transposed, k rows; per head of the group q and d_o transposed, their rows, and
  // lse and delta.
  std::int64_t key_floats() const { return 2 * transposed_ + rows_; }
  std::int64_t query_floats() const { return 2 * transposed_ + 2 * rows_ + 2 * kBlock; }
  std::int64_t block_floats() const { return key_floats() + group_ * query_floats(); }
  struct KeyBlock {
    float *kt, *vt, *k;
  };
  struct QueryBlock {
    float *qt, *dt, *q, *d_o, *lse, *delta;
  };
  KeyBlock key_block(const Unit& u, std::int64_t b) const {
    float* p = u.packed + b * block_floats();
    return {p, p + transposed_, p + 2 * transposed_};
  }
  QueryBlock query_block(const Unit& u, std::int64_t b, std::int64_t head) const {
    float* p = u.packed + b * block_floats() + key_floats() + head % group_ * query_floats();
    float* r = p + 2 * transposed_;
    return {p, p + transposed_, r, r + rows_, r + 2 * rows_, r + 2 * rows_ + kBlock};
  }

  // Kept blocks [64 keys][64 queries] in the dtype, by pair of blocks: a triangle, a band (window) or a square.
  std::int64_t kept_block() const { return kBlock * kBlock * bytes_ / static_cast<std::int64_t>(sizeof(float)); }
  std::int64_t band(const Unit& u) const {
    return s_.causal && s_.window > 0 ? std::min(u.blocks, s_.window / kBlock + 2) : u.blocks;
  }
  std::int64_t pairs(const Unit& u) const {
    return s_.causal && band(u) == u.blocks ? u.blocks * (u.blocks + 1) / 2 : u.blocks * band(u);
  }
  std::int64_t kept_floats(const Unit& u) const { return group_ * pairs(u) * kept_block(); }
  bool keeps(const Unit& u) const { return kept_floats(u) <= a_.keep_bytes / static_cast<std::int64_t>(sizeof(float)); }
  float* kept(const Unit& u, std::int64_t head, std::int64_t queries, std::int64_t keys) const {
    const std::int64_t n = band(u);
    const std::int64_t pair = !s_.causal      ? queries * n + keys
                              : n == u.blocks ? queries * (queries + 1) / 2 + keys
                                              : queries * n + keys - queries + n - 1;
    return u.kept + (head % group_ * pairs(u) + pair) * kept_block();
  }

  int count(const Unit& u, std::int64_t block) const {
    return static_cast<int>(std::min<std::int64_t>(kBlock, u.doc.length - block * kBlock));
  }
  std::int64_t offset(const auto& x, const Unit& u, std::int64_t i, std::int64_t head) const {
    return (u.doc.g * x.g_stride + (u.doc.begin + i) * x.t_stride + head * x.h_stride) * bytes_;
  }
  int row_pointers(const AttentionInput& x, const Unit& u, std::int64_t block, std::int64_t head,
                   const void** rows) const {
    const int n = count(u, block);
    for (int r = 0; r < n; ++r) {
      rows[r] = static_cast<const char*>(x.data) + offset(x, u, block * kBlock + r, head);
    }
    return n;
  }
  void write(const AttentionOutput& x, const Unit& u, std::int64_t block, std::int64_t head,
             const float* values) const {
    for (int r = 0; r < count(u, block); ++r) {
      tiles_.store(values + r * width_, nullptr, s_.d,
                   static_cast<char*>(x.data) + offset(x, u, block * kBlock + r, head));
    }
  }

  void pack(const Unit& u, std::int64_t b) const {
    const void* rows[kBlock];
    const void* other[kBlock];
    const KeyBlock k = key_block(u, b);
    int n = row_pointers(a_.k, u, b, u.kv_head, rows);
    tiles_.pack_transposed(rows, n, s_.d, k.kt);
    tiles_.pack_rows(rows, n, s_.d, width_, k.k);
    n = row_pointers(a_.v, u, b, u.kv_head, rows);
    tiles_.pack_transposed(rows, n, s_.d, k.vt);
    for (std::int64_t h = u.kv_head * group_; h < (u.kv_head + 1) * group_; ++h) {
      const QueryBlock q = query_block(u, b, h);
      row_pointers(a_.q, u, b, h, rows);
      tiles_.pack_transposed(rows, n, s_.d, q.qt);
      tiles_.pack_rows(rows, n, s_.d, width_, q.q);
      row_pointers(a_.d_o, u, b, h, rows);
      tiles_.pack_transposed(rows, n, s_.d, q.dt);
      tiles_.pack_rows(rows, n, s_.d, width_, q.d_o);
      row_pointers(a_.o, u, b, h, other);
      for (int r = 0; r < kBlock; ++r) {
        const std::int64_t token = u.doc.begin + b * kBlock + r;
        q.lse[r] = r < n ? a_.lse[(u.doc.g * s_.t + token) * s_.heads + h] : 0.0F;
        q.delta[r] = r < n ? tiles_.delta(rows[r], other[r], s_.d) : 0.0F;
      }
    }
  }

  /// dq of one block of queries: scratch holds the stack of partial sums and the left operands.
  void run_queries(const Unit& u, std::int64_t block, std::int64_t head) const {
    Range ranges[kBlock];
    Range blocks{INT64_MAX, 0};
    const int n = count(u, block);
    for (int r = 0; r < n; ++r) {
      ranges[r] = visible_keys(s_.causal, s_.window, u.doc.length, block * kBlock + r);
      blocks.begin = std::min(blocks.begin, ranges[r].begin / kBlock);
      blocks.end = std::max(blocks.end, (ranges[r].end + kBlock - 1) / kBlock);
    }
    const std::int64_t places = PrefixStack::places(blocks.begin, blocks.end);
    float* sums = scratch(1, places * rows_ + 2 * transposed_ + kBlock * kBlock);
    float* q = sums + places * rows_;
    float* d_o = q + transposed_;
    float* ds = d_o + transposed_;
    const void* rows[kBlock];
    if (u.kept == nullptr) {
      row_pointers(a_.q, u, block, head, rows);
      tiles_.pack_left(rows, n, s_.d, q);
      row_pointers(a_.d_o, u, block, head, rows);
      tiles_.pack_left(rows, n, s_.d, d_o);
    }
    const QueryBlock own = query_block(u, block, head);
    PrefixStack stack(ranges, n, blocks.begin, kBlock);
    const auto merge = [&](int left, int right, const Side* sides) {
      tiles_.add(n, width_, sides, sums + left * rows_, sums + right * rows_);
    };
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      Slots seen[kBlock];
      for (int r = 0; r < n; ++r) {
        seen[r] = slots_of(ranges[r], b);
      }
      const KeyBlock k = key_block(u, b);
      if (u.kept != nullptr) {
        float* from = kept(u, head, block, b);
        if (!tiles_.plain) {
          for (int r = 0; r < kBlock; ++r) {
            rows[r] = from + r * kept_block() / kBlock;
          }
          tiles_.pack_rows(rows, kBlock, kBlock, kBlock, ds);
          from = ds;
        }
        tiles_.product(from, k.k, n, width_, seen, sums + stack.place() * rows_);
        stack.push(b, merge);
        continue;
      }
      BackwardBlock step{};
      step.left_s = q;
      step.left_p = d_o;
      step.right_s = k.kt;
      step.right_p = k.vt;
      step.rows_s = k.k;
      step.rows = n;
      step.d = static_cast<int>(s_.d);
      step.width = static_cast<int>(width_);
      step.seen = seen;
      step.scale = s_.scale;
      step.lse = own.lse;
      step.delta = own.delta;
      step.out_s = sums + stack.place() * rows_;
      tiles_.backward_dq(step);
      stack.push(b, merge);
    }
    stack.finish(merge);
    write(a_.dq, u, block, head, sums);
  }

  /// dk and dv of one block of keys. Scratch: per head the result, dk then dv; the stack, pairs of them; left operands.
  void run_keys(const Unit& u, std::int64_t block) const {
    Range ranges[kBlock];
    Range blocks{INT64_MAX, 0};
    const int n = count(u, block);
    for (int r = 0; r < n; ++r) {
      ranges[r] = visible_queries(s_.causal, s_.window, u.doc.length, block * kBlock + r);
      blocks.begin = std::min(blocks.begin, ranges[r].begin / kBlock);
      blocks.end = std::max(blocks.end, (ranges[r].end + kBlock - 1) / kBlock);
    }
    const std::int64_t places = PrefixStack::places(blocks.begin, blocks.end);
    const std::int64_t pair = 2 * rows_;
    float* sums = scratch(1, (group_ + places) * pair + 2 * transposed_);
    float* k = sums + (group_ + places) * pair;
    float* v = k + transposed_;
    const void* rows[kBlock];
    row_pointers(a_.k, u, block, u.kv_head, rows);
    tiles_.pack_left(rows, n, s_.d, k);
    row_pointers(a_.v, u, block, u.kv_head, rows);
    tiles_.pack_left(rows, n, s_.d, v);
    for (std::int64_t h = 0; h < group_; ++h) {
      float* top = sums + h * pair;  // the stack begins where this head's result belongs
      PrefixStack stack(ranges, n, blocks.begin, kBlock);
      const auto merge = [&](int left, int right, const Side* sides) {
        tiles_.add(n, width_, sides, top + left * pair, top + right * pair);
        tiles_.add(n, width_, sides, top + left * pair + rows_, top + right * pair + rows_);
      };
      for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
        Slots seen[kBlock];
        for (int r = 0; r < n; ++r) {
          seen[r] = slots_of(ranges[r], b);
        }
        const QueryBlock q = query_block(u, b, h);
        BackwardBlock step{};
        step.left_s = k;
        step.left_p = v;
        step.right_s = q.qt;
        step.right_p = q.dt;
        step.rows_s = q.q;
        step.rows_p = q.d_o;
        step.rows = n;
        step.d = static_cast<int>(s_.d);
        step.width = static_cast<int>(width_);
        step.seen = seen;
        step.scale = s_.scale;
        step.lse = q.lse;
        step.delta = q.delta;
        step.out_s = top + stack.place() * pair;
        step.out_p = step.out_s + rows_;
        if (u.kept != nullptr) {
          float* to = kept(u, h, b, block);
          step.ds = to;
          std::fill(to + n * kept_block() / kBlock, to + kept_block(), 0.0F);
        }
        tiles_.backward_dkv(step);
        stack.push(b, merge);
      }
      stack.finish(merge);
    }
    element_tree(
        0, group_, [](std::int64_t h) { return h; },
        [&](std::int64_t left, std::int64_t right) {
          tiles_.add(n, width_, nullptr, sums + left * pair, sums + right * pair);
          tiles_.add(n, width_, nullptr, sums + left * pair + rows_, sums + right * pair + rows_);
          return left;
        });
    write(a_.dk, u, block, u.kv_head, sums);
    write(a_.dv, u, block, u.kv_head, sums + rows_);
  }

  void run_batch(std::vector<Unit>& units, std::int64_t floats) const {
    float* next = scratch(0, floats);
    std::vector<Task> keys, queries;
    for (Unit& u : units) {
      u.packed = next;
      next += u.blocks * block_floats();
      if (keeps(u)) {
        u.kept = next;
        next += kept_floats(u);
      }
      for (std::int64_t b = 0; b < u.blocks; ++b) {
        const std::int64_t before = s_.causal ? b + 1 : u.blocks, after = s_.causal ? u.blocks - b : u.blocks;
        keys.push_back({&u, b, -1, std::min(after, band(u)) * count(u, b)});
        for (std::int64_t h = u.kv_head * group_; h < (u.kv_head + 1) * group_; ++h) {
          queries.push_back({&u, b, h, std::min(before, band(u)) * count(u, b)});
        }
      }
    }
    const auto longest_first = [](const Task& x, const Task& y) { return x.cost > y.cost; };
    std::stable_sort(keys.begin(), keys.end(), longest_first);
    std::stable_sort(queries.begin(), queries.end(), longest_first);
    each(keys, [&](const Task& t) { pack(*t.unit, t.block); });
    each(keys, [&](const Task& t) { run_keys(*t.unit, t.block); });
    each(queries, [&](const Task& t) { run_queries(*t.unit, t.block, t.head); });
  }
  static void each(const std::vector<Task>& tasks, const auto& run) {
    parallel_for(static_cast<std::int64_t>(tasks.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        run(tasks[static_cast<std::size_t>(i)]);
      }
    });
  }

  const AttentionBackward& a_;
  const AttentionShape& s_;
  const Tiles& tiles_;
  std::int64_t bytes_, group_, width_, transposed_, rows_;
};

}  // namespace

void attention_backward(const AttentionBackward& a) {
  const std::vector<Document> documents = check_shape("attention_grad", a.shape);
  if (documents.empty()) {
    return;
  }
  check_pointers("attention_grad",
                 {a.q.data, a.k.data, a.v.data, a.o.data, a.d_o.data, a.lse, a.dq.data, a.dk.data, a.dv.data});
  Backward(a).run(documents);
}

}  // namespace isotone::cpu
