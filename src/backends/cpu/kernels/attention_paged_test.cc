// Attention over a paged cache: the bits of the whole prefill however it is cut, paged or split over ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/attention_test_support.h"
#include "base/fmath.h"
#include "base/tree.h"

namespace isotone::cpu {
namespace {

using namespace attention_test;

/// A cache filled with one problem's keys (each sequence one request), pages dealt out of order, free slots poisoned.
struct Cache {
  std::int64_t page, max_pages;
  Stored k, v;
  std::vector<std::int32_t> table;

  Cache(const Problem& p, const Inputs& in, std::int64_t page_slots)
      : page(page_slots),
        max_pages((p.t + page - 1) / page),
        k(p.dtype, std::vector<float>(elements(p), std::nanf(""))),
        v(k),
        table(static_cast<std::size_t>(p.g * max_pages)) {
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(5));
    for (int g = 0; g < p.g; ++g) {
      for (int j = 0; j < p.t; ++j) {
        for (int h = 0; h < p.kv; ++h) {
          for (int c = 0; c < p.d; ++c) {
            const std::int64_t to =
                ((table[static_cast<std::size_t>(g * max_pages + j / page)] * p.kv + h) * page + j % page) * p.d + c;
            const std::size_t from = static_cast<std::size_t>(((g * p.t + j) * p.kv + h) * p.d + c);
            ops::attention_rules::write_element(k.bytes.data(), p.dtype, to, in.k[from]);
            ops::attention_rules::write_element(v.bytes.data(), p.dtype, to, in.v[from]);
          }
        }
      }
    }
  }
  std::size_t elements(const Problem& p) const { return static_cast<std::size_t>(p.g * max_pages * page * p.kv * p.d); }
};

/// One call over tokens [begin, begin + n) of every sequence; rows beyond a sequence's end are padding.
struct Call {
  Stored q, o;
  std::vector<std::int32_t> positions;
  std::vector<float> lse;
  PagedAttention a;

  Call(const Problem& p, const Inputs& in, const Cache& c, int begin, int n, int padding = 0)
      : q(p.dtype, static_cast<std::size_t>(p.g * (n + padding) * p.heads * p.d)),
        o(p.dtype, std::vector<float>(static_cast<std::size_t>(p.g * (n + padding) * p.heads * p.d), 3.0F)),
        lse(static_cast<std::size_t>(p.g * (n + padding) * p.heads), 3.0F) {
    const int t = n + padding, row = p.heads * p.d;
    for (int g = 0; g < p.g; ++g) {
      for (int i = 0; i < t; ++i) {
        positions.push_back(i < n ? begin + i : -1);
        for (int e = 0; e < row; ++e) {
          ops::attention_rules::write_element(
              q.bytes.data(), p.dtype, (g * t + i) * row + e,
              i < n ? in.q[static_cast<std::size_t>((g * p.t + begin + i) * row + e)] : std::nanf(""));
        }
      }
    }
    a.b = p.g;
    a.t = t;
    a.heads = p.heads;
    a.kv_heads = p.kv;
    a.d = p.d;
    a.dtype = p.dtype;
    a.scale = p.scale();
    a.window = p.window;
    a.q = {q.bytes.data(), t * row, row, p.d};
    a.k_pages = c.k.bytes.data();
    a.v_pages = c.v.bytes.data();
    a.pages = p.g * c.max_pages;
    a.page = c.page;
    a.page_stride = p.kv * c.page * p.d;
    a.page_head_stride = c.page * p.d;
    a.page_slot_stride = p.d;
    a.table = c.table.data();
    a.table_stride = c.max_pages;
    a.positions = positions.data();
    a.o = {o.bytes.data(), t * row, row, p.d};
    a.lse = lse.data();
  }
  Call(const Call&) = delete;
};

/// The whole problem in chunks of `chunk` tokens.
Result in_chunks(const Problem& p, std::int64_t page, int chunk, bool reference = false) {
  const Inputs in = inputs(p);
  const Cache cache(p, in, page);
  Result all{std::vector<std::uint32_t>(in.q.size()),
             std::vector<std::uint32_t>(static_cast<std::size_t>(p.g * p.t * p.heads))};
  for (int begin = 0; begin < p.t; begin += chunk) {
    const int n = std::min(chunk, p.t - begin), padding = begin % 3;
    Call call(p, in, cache, begin, n, padding);
    reference ? paged_attention_reference(call.a) : paged_attention(call.a);
    const auto o = call.o.bits(), lse = float_bits(call.lse);
    const std::size_t row = static_cast<std::size_t>(p.heads * p.d);
    for (int g = 0; g < p.g; ++g) {
      for (int i = 0; i < n + padding; ++i) {
        const std::size_t from = static_cast<std::size_t>(g * (n + padding) + i);
        if (i >= n) {  // padding
          EXPECT_EQ(slice(o, from * row, row), std::vector<std::uint32_t>(row, 0));
          continue;
        }
        const std::size_t to = static_cast<std::size_t>(g * p.t + begin + i);
        std::copy_n(o.begin() + static_cast<std::ptrdiff_t>(from * row), row,
                    all.o.begin() + static_cast<std::ptrdiff_t>(to * row));
        std::copy_n(lse.begin() + static_cast<std::ptrdiff_t>(from) * p.heads, p.heads,
                    all.lse.begin() + static_cast<std::ptrdiff_t>(to) * p.heads);
      }
    }
  }
  return all;
}

void expect_equal(const Result& want, const Result& got, const std::string& what) {
  EXPECT_EQ(want.o, got.o) << what;
  EXPECT_EQ(want.lse, got.lse) << what;
}

TEST(PagedAttention, ChunksEqualWhole) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const int window : {0, 70}) {
      const Problem p{.g = 2, .t = 200, .heads = 9, .kv = 3, .d = 64, .dtype = t, .window = window};
      for (const Isa isa : supported_isas()) {
        if (isa == Isa::scalar && t == DType::f16) {
          continue;
        }
        const WithIsa with(isa);
        const Result whole = forward(p, false);
        for (const std::int64_t page : {8, 16, 64}) {
          for (const int chunk : {200, 64, 7, 1}) {
            if (isa == Isa::scalar && (page == 16 || chunk == 64)) {
              continue;
            }
            expect_equal(whole, in_chunks(p, page, chunk),
                         fmt::format("{} page {} chunk {} {}", isa_name(isa), page, chunk, p.text()));
          }
        }
      }
    }
  }
}

TEST(PagedAttention, EqualsReference) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const auto& [heads, kv] : {std::pair{8, 1}, {4, 4}, {70, 1}}) {
      for (const std::int64_t page : {32, 128}) {
        const Problem p{.t = 140, .heads = heads, .kv = kv, .d = 16, .dtype = t};
        expect_equal(in_chunks(p, page, 35, true), in_chunks(p, page, 35), p.text());
        expect_equal(forward(p, true), in_chunks(p, page, 140, true), p.text());
      }
    }
  }
}

TEST(PagedAttention, LongDecodeOnAnyThreads) {
  const int before = thread_count();
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const int window : {0, 700}) {
      const Problem p{.t = 2500, .heads = 3, .kv = 1, .d = 64, .dtype = t, .window = window};
      const Inputs in = inputs(p);
      const Cache cache(p, in, 64);
      for (const int at : {2499, 2048, 2047, 1500}) {
        set_thread_count(1);
        Call one(p, in, cache, at, 1);
        paged_attention(one.a);
        Call reference(p, in, cache, at, 1);
        paged_attention_reference(reference.a);
        EXPECT_EQ(reference.o.bits(), one.o.bits());
        for (const int threads : {2, 3, 8}) {
          set_thread_count(threads);
          Call many(p, in, cache, at, 1);
          paged_attention(many.a);
          EXPECT_EQ(one.o.bits(), many.o.bits()) << threads << " threads, key " << at;
          EXPECT_EQ(float_bits(one.lse), float_bits(many.lse));
        }
      }
    }
  }
  set_thread_count(before);
}

struct OwnedState {
  std::vector<float> m, l, o;
  explicit OwnedState(const PagedAttention& a)
      : m(static_cast<std::size_t>(a.b * a.t * a.heads)), l(m.size()), o(m.size() * static_cast<std::size_t>(a.d)) {}
  AttentionState view() { return {m.data(), l.data(), o.data()}; }
};

/// A node of the tree whose blocks are shared out to ranks: whoever owns all of it computes it, else its halves do.
OwnedState split_node(const PagedAttention& a, int level, std::int64_t index, const std::vector<std::int64_t>& cuts) {
  const std::int64_t begin = index << level, end = (index + 1) << level;
  bool cut = false;
  for (const std::int64_t c : cuts) {
    cut = cut || (c > begin && c < end);
  }
  if (!cut) {
    OwnedState s(a);
    paged_attention_node(a, level, index, s.view());
    return s;
  }
  OwnedState left = split_node(a, level - 1, 2 * index, cuts), right = split_node(a, level - 1, 2 * index + 1, cuts);
  merge_attention_states(static_cast<std::int64_t>(left.m.size()), a.d, left.view(), right.view());
  return left;
}

TEST(PagedAttention, ContextSplitOverRanks) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const int window : {0, 300}) {
      const Problem p{.t = 700, .heads = 4, .kv = 2, .d = 64, .dtype = t, .window = window};
      const Inputs in = inputs(p);
      const Cache cache(p, in, 16);
      Call whole(p, in, cache, 500, 200);
      paged_attention(whole.a);
      for (const int ranks : {1, 2, 3, 4, 8}) {
        std::vector<std::int64_t> cuts;
        for (int r = 1; r < ranks; ++r) {
          cuts.push_back(r * 11 / ranks);
        }
        Call split(p, in, cache, 500, 200);
        OwnedState state = split_node(split.a, 4, 0, cuts);
        finish_attention(split.a, state.view());
        EXPECT_EQ(whole.o.bits(), split.o.bits()) << ranks << " ranks";
        EXPECT_EQ(float_bits(whole.lse), float_bits(split.lse)) << ranks << " ranks";
      }
    }
  }
}

TEST(PagedAttention, BrokenMergeOrderShows) {
  const Problem p{.t = 500, .heads = 2, .kv = 1, .d = 64};
  const Inputs in = inputs(p);
  const Cache cache(p, in, 64);
  Call whole(p, in, cache, 400, 100);
  paged_attention(whole.a);
  Call broken(p, in, cache, 400, 100);
  OwnedState state(broken.a);
  paged_attention_node(broken.a, 0, 0, state.view());
  for (std::int64_t b = 1; b < 8; ++b) {  // a left fold instead of the tree
    OwnedState next(broken.a);
    paged_attention_node(broken.a, 0, b, next.view());
    merge_attention_states(static_cast<std::int64_t>(state.m.size()), p.d, state.view(), next.view());
  }
  finish_attention(broken.a, state.view());
  EXPECT_NE(whole.o.bits(), broken.o.bits());
  for (std::size_t i = 0; i < in.q.size() / 5; ++i) {
    EXPECT_NEAR(whole.o.at(i), broken.o.at(i), 1e-5);
  }
}

TEST(PagedAttention, Errors) {
  const Problem p{.t = 100, .heads = 2, .kv = 1, .d = 16};
  const Inputs in = inputs(p);
  Cache cache(p, in, 16);
  Call call(p, in, cache, 90, 10);
  call.a.page = 24;
  EXPECT_THROW(paged_attention(call.a), Error);
  call.a.page = 16;
  call.positions[3] = 112;
  EXPECT_THROW(paged_attention(call.a), Error);
  call.positions[3] = 93;
  cache.table[2] = 7;
  EXPECT_THROW(paged_attention(call.a), Error);
  cache.table[2] = -1;
  EXPECT_THROW(paged_attention(call.a), Error);
  call.a.window = 20;  // that page is behind the window now
  EXPECT_NO_THROW(paged_attention(call.a));
}

}  // namespace
}  // namespace isotone::cpu
