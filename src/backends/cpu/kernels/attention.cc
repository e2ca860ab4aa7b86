// Forward attention over (packed) sequences: keys and values are packed once per key head, then blocks of 64 queries
// run on their own, the longest first.
#include "backends/cpu/kernels/attention.h"

#include "backends/cpu/kernels/attention_driver.h"

namespace isotone::cpu {
namespace {

using namespace attention;

/// One document and key head.
struct Unit {
  Document doc;
  std::int64_t kv_head;
  Keys keys;
  std::int64_t blocks;
  float* packed;
};
struct Task {
  const Unit* unit;
  std::int64_t block, head;
  std::int64_t cost;
};

void run_queries(const AttentionForward& a, const Tiles& tiles, const Task& task) {
  const AttentionShape& s = a.shape;
  const Document& doc = task.unit->doc;
  const auto bytes = static_cast<std::int64_t>(unit_bytes(s.dtype));
  const auto* q = static_cast<const char*>(a.q.data) + (doc.g * a.q.g_stride + task.head * a.q.h_stride) * bytes;
  const std::int64_t first = task.block * kBlock;
  TileRows rows;
  rows.count = static_cast<int>(std::min<std::int64_t>(kBlock, doc.length - first));
  for (int r = 0; r < rows.count; ++r) {
    rows.q[r] = q + (doc.begin + first + r) * a.q.t_stride * bytes;
    rows.keys[r] = visible_keys(s.causal, s.window, doc.length, first + r);
  }
  const Range blocks = rows.blocks();
  float* memory = scratch(1, tile_floats(tiles, s.d, blocks.begin, blocks.end));
  const States state =
      run_tile(tiles, rows, task.unit->keys, s.d, s.scale, blocks.begin, blocks.end, task.unit->packed, 0, memory);
  float lse[kBlock];
  tiles.lse(rows.count, state.m(0), state.l(0), lse);
  auto* o = static_cast<char*>(a.o.data) + (doc.g * a.o.g_stride + task.head * a.o.h_stride) * bytes;
  for (int r = 0; r < rows.count; ++r) {
    const std::int64_t token = doc.begin + first + r;
    tiles.store(state.o(0) + r * state.width, state.l(0) + r, s.d, o + token * a.o.t_stride * bytes);
    if (a.lse != nullptr) {
      a.lse[(doc.g * s.t + token) * s.heads + task.head] = lse[r];
    }
  }
}

void run_batch(const AttentionForward& a, const Tiles& tiles, std::vector<Unit>& units, std::int64_t floats) {
  const AttentionShape& s = a.shape;
  const PackedSizes sizes(tiles, s.d);
  float* next = scratch(0, floats);
  std::vector<Task> tasks;
  std::vector<std::pair<const Unit*, std::int64_t>> blocks;
  const std::int64_t group = s.heads / s.kv_heads;
  for (Unit& u : units) {
    u.packed = next;
    next += u.blocks * sizes.both();
    for (std::int64_t b = 0; b < u.blocks; ++b) {
      blocks.emplace_back(&u, b);
      const std::int64_t seen = !s.causal ? u.blocks : s.window > 0 ? std::min(b + 1, s.window / kBlock + 2) : b + 1;
      for (std::int64_t h = u.kv_head * group; h < (u.kv_head + 1) * group; ++h) {
        tasks.push_back({&u, b, h, seen * std::min<std::int64_t>(kBlock, u.doc.length - b * kBlock)});
      }
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& x, const Task& y) { return x.cost > y.cost; });
  parallel_for(static_cast<std::int64_t>(blocks.size()), 2, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto& [u, b] = blocks[static_cast<std::size_t>(i)];
      pack_block(tiles, u->keys, b, s.d, sizes.at(u->packed + b * sizes.both()));
    }
  });
  parallel_for(static_cast<std::int64_t>(tasks.size()), 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      run_queries(a, tiles, tasks[static_cast<std::size_t>(i)]);
    }
  });
}

}  // namespace

void attention_forward(const AttentionForward& a) {
  const AttentionShape& s = a.shape;
  const std::vector<Document> documents = check_shape("attention", s);
  if (documents.empty()) {
    return;
  }
  check_pointers("attention", {a.q.data, a.k.data, a.v.data, a.o.data});
  const Tiles& tiles = tiles_for(s.dtype, "attention");
  const PackedSizes sizes(tiles, s.d);
  const auto bytes = static_cast<std::int64_t>(unit_bytes(s.dtype));
  std::vector<Unit> units;
  std::int64_t floats = 0;
  for (const Document& doc : documents) {
    for (std::int64_t h = 0; h < s.kv_heads; ++h) {
      Unit u{doc, h, {}, (doc.length + kBlock - 1) / kBlock, nullptr};
      const auto at = [&](const AttentionInput& x) {
        return static_cast<const char*>(x.data) +
               (doc.g * x.g_stride + doc.begin * x.t_stride + h * x.h_stride) * bytes;
      };
      u.keys.k = at(a.k);
      u.keys.v = at(a.v);
      u.keys.k_stride = a.k.t_stride * bytes;
      u.keys.v_stride = a.v.t_stride * bytes;
      u.keys.end = doc.length;
      const std::int64_t more = u.blocks * sizes.both();
      if (!units.empty() && floats + more > kPackedFloats) {
        run_batch(a, tiles, units, floats);
        units.clear();
        floats = 0;
      }
      units.push_back(u);
      floats += more;
    }
  }
  run_batch(a, tiles, units, floats);
  trim_scratch();
}

}  // namespace isotone::cpu
