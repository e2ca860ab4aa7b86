// Attention over a paged cache. A tile holds the rows of a few tokens for all query heads of one key head. Many tiles
// share packed keys (prefill); few of them pack as they go, split over aligned stretches of keys (decode): a stretch's
// state is a node of the tree, so where it is cut does not show.
#include <bit>
#include <cmath>
#include <limits>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/attention_driver.h"
#include "base/error.h"
#include "base/fmath.h"

namespace isotone::cpu {
namespace {

using namespace attention;
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Tile {
  TileRows rows;
  std::int64_t out[kBlock];  // (request * t + token) * heads + head
};
/// One request and key head.
struct Unit {
  Keys keys;
  Range blocks{INT64_MAX, 0};
  std::int64_t first_tile = 0, tiles = 0;
  float* packed = nullptr;
};
struct Job {
  const Unit* unit;
  const Tile* tile;
  Range blocks;
  float* state;  // where to keep it, or null: finish the tile
  std::int64_t cost;
};

class Paged {
 public:
  explicit Paged(const PagedAttention& a)
      : a_(a),
        tiles_(tiles_for(a.dtype, "attention_paged")),
        bytes_(static_cast<std::int64_t>(unit_bytes(a.dtype))),
        group_(a.heads / a.kv_heads),
        width_(row_width(a.d)) {
    for (std::int64_t r = 0; r < a.b; ++r) {
      for (std::int64_t h = 0; h < a.kv_heads; ++h) {
        add_unit(r, h);
      }
    }
  }

  void run() {
    clear_padding();
    const PackedSizes sizes(tiles_, a_.d);
    std::vector<Unit*> batch;
    std::int64_t floats = 0;
    for (Unit& u : units_) {
      const std::int64_t more = u.tiles < 2 ? 0 : (u.blocks.end - u.blocks.begin) * sizes.both();
      if (!batch.empty() && floats + more > kPackedFloats) {
        run_batch(batch, floats);
        batch.clear();
        floats = 0;
      }
      batch.push_back(&u);
      floats += more;
    }
    run_batch(batch, floats);
    trim_scratch();
  }

  /// The states of all rows over blocks [blocks.begin, blocks.end).
  void node(Range blocks, const AttentionState& out) {
    parallel_for(static_cast<std::int64_t>(units_.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Unit& u = units_[static_cast<std::size_t>(i)];
        for (std::int64_t t = u.first_tile; t < u.first_tile + u.tiles; ++t) {
          const Tile& tile = all_[static_cast<std::size_t>(t)];
          const Range seen = tile.rows.blocks();
          const Range part{std::max(seen.begin, blocks.begin), std::min(seen.end, blocks.end)};
          if (part.begin >= part.end) {
            continue;
          }
          Keys keys = u.keys;
          keys.begin = std::max(keys.begin, part.begin * kBlock);
          keys.end = std::min(keys.end, part.end * kBlock);
          const States s = run_tile(tiles_, tile.rows, keys, a_.d, a_.scale, part.begin, part.end, nullptr, 0,
                                    scratch(1, tile_floats(tiles_, a_.d, part.begin, part.end)));
          for (int r = 0; r < tile.rows.count; ++r) {
            out.m[tile.out[r]] = s.m(0)[r];
            out.l[tile.out[r]] = s.l(0)[r];
            std::copy_n(s.o(0) + r * width_, a_.d, out.o + tile.out[r] * a_.d);
          }
        }
      }
    });
  }

  void store_row(std::int64_t row, const float* o, const float* l) const {
    const std::int64_t h = row % a_.heads, i = row / a_.heads % a_.t, r = row / a_.heads / a_.t;
    tiles_.store(o, l, a_.d,
                 static_cast<char*>(a_.o.data) + (r * a_.o.g_stride + i * a_.o.t_stride + h * a_.o.h_stride) * bytes_);
  }
  void clear_padding() const {
    for (std::int64_t n = 0; n < a_.b * a_.t * a_.heads; ++n) {
      if (a_.positions[n / a_.heads] < 0) {
        store_row(n, nullptr, nullptr);
        if (a_.lse != nullptr) {
          a_.lse[n] = -kInf;
        }
      }
    }
  }

 private:
  void add_unit(std::int64_t request, std::int64_t kv_head) {
    Unit u;
    const std::int64_t head = kv_head * a_.page_head_stride * bytes_;
    u.keys.k = static_cast<const char*>(a_.k_pages) + head;
    u.keys.v = static_cast<const char*>(a_.v_pages) + head;
    u.keys.k_stride = u.keys.v_stride = a_.page_slot_stride * bytes_;
    u.keys.table = a_.table + request * a_.table_stride;
    u.keys.page = a_.page;
    u.keys.page_stride = a_.page_stride * bytes_;
    u.keys.begin = INT64_MAX;
    u.first_tile = static_cast<std::int64_t>(all_.size());
    const std::int64_t heads = std::min<std::int64_t>(group_, kBlock);  // in a tile
    const int limit = static_cast<int>(kBlock / heads * heads);
    for (std::int64_t part = 0; part < group_; part += heads) {
      bool open = false;
      for (std::int64_t i = 0; i < a_.t; ++i) {
        const std::int64_t p = a_.positions[request * a_.t + i];
        if (p < 0) {
          continue;
        }
        if (!open || all_.back().rows.count + heads > limit) {
          all_.emplace_back();
          open = true;
        }
        Tile& tile = all_.back();
        const Range keys = visible_keys(true, a_.window, 0, p);
        u.keys.begin = std::min(u.keys.begin, keys.begin);
        u.keys.end = std::max(u.keys.end, keys.end);
        for (std::int64_t g = part; g < std::min(group_, part + heads); ++g) {
          const std::int64_t h = kv_head * group_ + g;
          const int r = tile.rows.count++;
          tile.rows.q[r] = static_cast<const char*>(a_.q.data) +
                           (request * a_.q.g_stride + i * a_.q.t_stride + h * a_.q.h_stride) * bytes_;
          tile.rows.keys[r] = keys;
          tile.out[r] = (request * a_.t + i) * a_.heads + h;
        }
      }
    }
    u.tiles = static_cast<std::int64_t>(all_.size()) - u.first_tile;
    if (u.tiles > 0) {
      u.blocks = {u.keys.begin / kBlock, (u.keys.end + kBlock - 1) / kBlock};
      units_.push_back(u);
    }
  }

  void finish(const Tile& tile, const States& s) const {
    float lse[kBlock];
    tiles_.lse(tile.rows.count, s.m(0), s.l(0), lse);
    for (int r = 0; r < tile.rows.count; ++r) {
      store_row(tile.out[r], s.o(0) + r * width_, s.l(0) + r);
      if (a_.lse != nullptr) {
        a_.lse[tile.out[r]] = lse[r];
      }
    }
  }

  void run_job(const Job& job) const {
    const Unit& u = *job.unit;
    const TileRows& rows = job.tile->rows;
    const Range b = job.blocks;
    float* memory = scratch(1, tile_floats(tiles_, a_.d, b.begin, b.end));
    const States s = run_tile(tiles_, rows, u.keys, a_.d, a_.scale, b.begin, b.end, u.packed, u.blocks.begin, memory);
    if (job.state == nullptr) {
      finish(*job.tile, s);
      return;
    }
    const States kept{job.state, width_};
    std::copy_n(s.m(0), rows.count, kept.m(0));
    std::copy_n(s.l(0), rows.count, kept.l(0));
    std::copy_n(s.o(0), rows.count * width_, kept.o(0));
  }

  /// Joins the states of one tile's stretches of 2^level blocks, which lie one after another from `state` on.
  void join(const Tile& tile, int level, float* state) const {
    const Range b = tile.rows.blocks();
    const States s{state, width_};
    const std::int64_t first = b.begin >> level, last = (b.end + (std::int64_t{1} << level) - 1) >> level;
    PrefixStack stack(tile.rows.keys, tile.rows.count, first, std::int64_t{kBlock} << level);
    const auto merge = [&](int left, int right, const Side* sides) {
      tiles_.merge(tile.rows.count, width_, sides, s.m(left), s.l(left), s.o(left), s.m(right), s.l(right), s.o(right));
    };
    for (std::int64_t c = first; c < last; ++c) {
      if (stack.place() != c - first) {  // places already joined are free again
        std::copy_n(s.m(c - first), s.stride(), s.m(stack.place()));
      }
      stack.push(c, merge);
    }
    stack.finish(merge);
    finish(tile, s);
  }

  void run_batch(const std::vector<Unit*>& batch, std::int64_t packed_floats) {
    const PackedSizes sizes(tiles_, a_.d);
    const States shape{nullptr, width_};
    std::int64_t whole = 0, blocks = 0;
    for (const Unit* u : batch) {
      for (std::int64_t t = u->first_tile; t < u->first_tile + u->tiles; ++t) {
        const Range b = all_[static_cast<std::size_t>(t)].rows.blocks();
        ++whole;
        blocks += b.end - b.begin;
      }
    }
    // Stretches of at least four blocks, where there are fewer tiles than would keep the threads busy.
    const std::int64_t wanted = thread_count() > 1 ? 4 * thread_count() : 1;
    int level = 62;
    if (whole < wanted) {
      level = std::max(2, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(blocks / wanted + 1))) - 1);
    }
    struct Split {
      const Tile* tile;
      std::int64_t first_state;
    };
    std::vector<Job> jobs;
    std::vector<Split> splits;
    std::vector<std::int64_t> state_of;  // per job, -1: none
    std::vector<std::pair<const Unit*, std::int64_t>> to_pack;
    std::int64_t states = 0;
    for (Unit* u : batch) {
      for (std::int64_t b = u->blocks.begin; u->tiles > 1 && b < u->blocks.end; ++b) {
        to_pack.emplace_back(u, b);
      }
      for (std::int64_t t = u->first_tile; t < u->first_tile + u->tiles; ++t) {
        const Tile& tile = all_[static_cast<std::size_t>(t)];
        const Range b = tile.rows.blocks();
        const std::int64_t first = b.begin >> level, last = ((b.end - 1) >> level) + 1;
        const bool split = last - first > 1;
        if (split) {
          splits.push_back({&tile, states});
        }
        for (std::int64_t c = first; c < last; ++c) {
          const Range part{std::max(b.begin, c << level), level > 40 ? b.end : std::min(b.end, (c + 1) << level)};
          jobs.push_back({u, &tile, part, nullptr, (part.end - part.begin) * tile.rows.count});
          state_of.push_back(split ? states++ : -1);
        }
      }
    }
    float* memory = scratch(0, packed_floats + states * shape.stride() + 1);
    float* kept = memory + packed_floats;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      jobs[i].state = state_of[i] < 0 ? nullptr : kept + state_of[i] * shape.stride();
    }
    for (Unit* u : batch) {
      if (u->tiles > 1) {
        u->packed = memory;
        memory += (u->blocks.end - u->blocks.begin) * sizes.both();
      }
    }
    std::stable_sort(jobs.begin(), jobs.end(), [](const Job& x, const Job& y) { return x.cost > y.cost; });
    parallel_for(static_cast<std::int64_t>(to_pack.size()), 2, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto& [u, b] = to_pack[static_cast<std::size_t>(i)];
        pack_block(tiles_, u->keys, b, a_.d, sizes.at(u->packed + (b - u->blocks.begin) * sizes.both()));
      }
    });
    parallel_for(static_cast<std::int64_t>(jobs.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        run_job(jobs[static_cast<std::size_t>(i)]);
      }
    });
    parallel_for(static_cast<std::int64_t>(splits.size()), 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        const Split& s = splits[static_cast<std::size_t>(i)];
        join(*s.tile, level, kept + s.first_state * shape.stride());
      }
    });
  }

  const PagedAttention& a_;
  const Tiles& tiles_;
  std::int64_t bytes_, group_, width_;
  std::vector<Tile> all_;
  std::vector<Unit> units_;
};

}  // namespace

void paged_attention(const PagedAttention& a) {
  check_paged(a, {0, INT64_MAX});
  if (a.b > 0 && a.t > 0) {
    check_pointers("paged_attention", {a.o.data});
    Paged(a).run();
  }
}

void paged_attention_node(const PagedAttention& a, int level, std::int64_t index, const AttentionState& out) {
  require(level >= 0 && level < 40 && index >= 0 && index < (std::int64_t{1} << (40 - level)),
          "paged_attention_node: there is no node {} at height {}", index, level);
  const Range blocks{index << level, (index + 1) << level};
  check_paged(a, {blocks.begin * kBlock, blocks.end * kBlock});
  const std::int64_t rows = a.b * a.t * a.heads;
  if (rows == 0) {
    return;
  }
  check_pointers("paged_attention_node", {out.m, out.l, out.o});
  std::fill_n(out.m, rows, -kInf);
  std::fill_n(out.l, rows, 0.0F);
  std::fill_n(out.o, rows * a.d, 0.0F);
  Paged(a).node(blocks, out);
}

void merge_attention_states(std::int64_t rows, std::int64_t d, const AttentionState& left,
                            const AttentionState& right) {
  const FlushSubnormals flush;
  for (std::int64_t r = 0; r < rows; ++r) {
    if (right.m[r] == -kInf && right.l[r] == 0.0F) {
      continue;
    }
    float* o = left.o + r * d;
    const float* other = right.o + r * d;
    if (left.m[r] == -kInf && left.l[r] == 0.0F) {
      left.m[r] = right.m[r];
      left.l[r] = right.l[r];
      std::copy_n(other, d, o);
      continue;
    }
    const float m = std::max(left.m[r], right.m[r]);
    const float a1 = fmath::exp(left.m[r] - m), a2 = fmath::exp(right.m[r] - m);
    left.m[r] = m;
    left.l[r] = left.l[r] * a1 + right.l[r] * a2;
    for (std::int64_t c = 0; c < d; ++c) {
      o[c] = o[c] * a1 + other[c] * a2;
    }
  }
}

void finish_attention(const PagedAttention& a, const AttentionState& state) {
  check_paged(a, {0, 0});
  if (a.b == 0 || a.t == 0) {
    return;
  }
  check_pointers("finish_attention", {a.o.data, state.m, state.l, state.o});
  const FlushSubnormals flush;
  const Paged paged(a);
  paged.clear_padding();
  std::vector<float> row(static_cast<std::size_t>(row_width(a.d)));
  for (std::int64_t n = 0; n < a.b * a.t * a.heads; ++n) {
    if (a.positions[n / a.heads] >= 0) {
      std::copy_n(state.o + n * a.d, a.d, row.data());
      paged.store_row(n, row.data(), state.l + n);
      if (a.lse != nullptr) {
        write_element(a.lse, DType::f32, n, state.m[n] + fmath::log(state.l[n]));
      }
    }
  }
}

}  // namespace isotone::cpu
