// Forward attention against its definition, bit by bit: instruction sets, threads, documents, windows, groups, paged or
// whole, chunks, a context split over ranks, and merges broken on purpose.
#include "backends/cpu/kernels/attention.h"

#include <gtest/gtest.h>

#include "backends/cpu/kernels/attention_test_support.h"
#include "base/kernel_log.h"

namespace isotone::cpu {
namespace {

using namespace attention_test;

void expect_forward(const Problem& p) {
  const Result want = forward(p, true);
  for (const Isa isa : supported_isas()) {
    const WithIsa with(isa);
    const Result got = forward(p, false);
    EXPECT_EQ(want.o, got.o) << isa_name(isa) << " " << p.text();
    EXPECT_EQ(want.lse, got.lse) << isa_name(isa) << " " << p.text();
  }
}

TEST(Attention, EqualsReference) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const int tokens : {1, 2, 63, 64, 65, 130, 200}) {
      for (const int d : {64, 32, 128, 80}) {
        for (const auto& [heads, kv] : {std::pair{9, 3}, {4, 4}, {8, 1}}) {
          if (tokens >= 130 && (d == 128 || d == 32) && heads != 4) {
            continue;
          }
          expect_forward(Problem{.t = tokens, .heads = heads, .kv = kv, .d = d, .dtype = t});
        }
      }
    }
  }
}

TEST(Attention, OddWidths) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const int d : {1, 2, 7, 33, 96, 255, 256}) {
      expect_forward(Problem{.t = 70, .heads = 2, .kv = 1, .d = d, .dtype = t});
    }
  }
}

TEST(Attention, WindowsAndNoMask) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const int window : {0, 1, 5, 64, 65, 100, 1000}) {
      for (const bool causal : {true, false}) {
        expect_forward(Problem{.t = 330, .heads = 2, .kv = 1, .d = 32, .dtype = t, .causal = causal, .window = window});
      }
    }
  }
}

TEST(Attention, Documents) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const std::vector<int>& lengths :
         {std::vector<int>{1, 64, 63, 100, 37, 65}, {128, 72, 130}, {65, 65, 65, 65, 70}}) {
      for (const bool causal : {true, false}) {
        for (const int window : {0, 40}) {
          Problem p{.g = 2, .t = 330, .heads = 4, .kv = 2, .d = 32, .dtype = t, .causal = causal, .window = window};
          p.lengths = lengths;
          expect_forward(p);
        }
      }
    }
  }
}

TEST(Attention, PackedEqualsAlone) {
  for (const DType t : {DType::f32, DType::bf16}) {
    Problem p{.t = 300, .heads = 6, .kv = 2, .d = 64, .dtype = t};
    p.lengths = {37, 130, 1, 132};
    const Result packed = forward(p, false);
    std::int64_t at = 0;
    for (const int n : p.lengths) {
      Problem alone = p;
      alone.t = n;
      alone.lengths = {};
      const std::size_t q_row = p.heads * p.d, k_row = p.kv * p.d;
      Inputs in = inputs(p);
      alone.given = Inputs{slice(in.q, at * q_row, n * q_row), slice(in.k, at * k_row, n * k_row),
                           slice(in.v, at * k_row, n * k_row)};
      const Result one = forward(alone, false);
      EXPECT_EQ(one.o, slice(packed.o, at * q_row, n * q_row));
      EXPECT_EQ(one.lse, slice(packed.lse, at * p.heads, n * p.heads));
      at += n;
    }
  }
}

TEST(Attention, ThreadsDoNotShow) {
  const int before = thread_count();
  for (const DType t : {DType::f32, DType::bf16}) {
    const Problem p{.g = 2, .t = 330, .heads = 9, .kv = 3, .d = 64, .dtype = t};
    set_thread_count(1);
    const Result one = forward(p, false);
    for (const int threads : {2, 5}) {
      set_thread_count(threads);
      const Result many = forward(p, false);
      EXPECT_EQ(one.o, many.o);
      EXPECT_EQ(one.lse, many.lse);
    }
  }
  set_thread_count(before);
}

TEST(Attention, LargeAndSpecialValues) {
  for (const DType t : {DType::f32, DType::bf16}) {
    Problem p{.t = 130, .heads = 2, .kv = 1, .d = 64, .dtype = t};
    p.given = inputs(p);
    for (std::size_t i = 0; i < p.given->q.size(); i += 3) {
      p.given->q[i] *= 1e18F;  // scores far apart: most weights underflow
    }
    expect_forward(p);
    p.given->k[100 * 64] = std::numeric_limits<float>::quiet_NaN();
    const Result want = forward(p, true), got = forward(p, false);
    EXPECT_EQ(want.lse, got.lse);
    for (std::size_t i = 0; i < want.o.size(); ++i) {
      EXPECT_EQ(want.o[i], got.o[i]) << i;
    }
  }
}

TEST(Attention, WhatIsMaskedDoesNotShow) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const int window : {0, 30}) {
      Problem p{.t = 150, .heads = 2, .kv = 1, .d = 32, .dtype = t, .window = window};
      p.given = inputs(p);
      Problem poisoned = p;
      for (std::size_t i = 101 * 32; i < 102 * 32; ++i) {
        poisoned.given->k[i] = std::numeric_limits<float>::quiet_NaN();
        poisoned.given->v[i] =
            i % 2 == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
      }
      const Result reference = forward(poisoned, true);
      for (const Isa isa : supported_isas()) {
        const WithIsa with(isa);
        const Result clean = forward(p, false), dirty = forward(poisoned, false);
        EXPECT_EQ(reference.o, dirty.o) << isa_name(isa) << " " << p.text();
        EXPECT_EQ(slice(clean.o, 0, 101 * 64), slice(dirty.o, 0, 101 * 64)) << isa_name(isa) << " " << p.text();
        EXPECT_NE(slice(clean.o, 101 * 64, 64), slice(dirty.o, 101 * 64, 64));
        if (window > 0) {
          EXPECT_EQ(slice(clean.o, 131 * 64, 19 * 64), slice(dirty.o, 131 * 64, 19 * 64)) << isa_name(isa);
        }
      }
    }
  }
}

TEST(Attention, KernelLogNamesTheKernel) {
  for (const Isa isa : supported_isas()) {
    const WithIsa with(isa);
    set_kernel_log(true);
    forward(Problem{.t = 3, .dtype = DType::bf16}, false);
    set_kernel_log(false);
    EXPECT_EQ(kernel_calls(fmt::format("attention.bf16.{}", isa_name(isa))), 1);
  }
}

TEST(Attention, Errors) {
  AttentionForward a;
  a.shape.t = 4;
  a.shape.d = 64;
  EXPECT_THROW(attention_forward(a), Error);  // no data
  a.shape.d = 257;
  EXPECT_THROW(attention_forward(a), Error);
  a.shape.d = 64;
  a.shape.heads = 3;
  a.shape.kv_heads = 2;
  EXPECT_THROW(attention_forward(a), Error);
  a.shape.kv_heads = 1;
  const std::int32_t starts[] = {0, 0, 1, 3};
  a.shape.doc_start = starts;
  EXPECT_THROW(attention_forward(a), Error);
  a.shape.doc_start = nullptr;
  a.shape.dtype = DType::i32;
  EXPECT_THROW(attention_forward(a), Error);
}

}  // namespace
}  // namespace isotone::cpu
