// The gradient of attention: every instruction set against the definition bit by bit, and against finite differences.
#include <gtest/gtest.h>

#include <cmath>

#include "backends/cpu/kernels/attention.h"
#include "backends/cpu/kernels/attention_test_support.h"

namespace isotone::cpu {
namespace {

using namespace attention_test;

struct Gradients {
  Stored dq, dk, dv;
};

Gradients gradients(const Problem& p, bool reference) {
  const Inputs in = inputs(p);
  const Stored q(p.dtype, in.q), k(p.dtype, in.k), v(p.dtype, in.v), d_o(p.dtype, in.d_o);
  Stored o(p.dtype, in.q.size());
  std::vector<float> lse(static_cast<std::size_t>(p.g * p.t * p.heads));
  const auto s = starts(p);
  attention_forward(
      {shape(p, s), input(p, q, p.heads), input(p, k, p.kv), input(p, v, p.kv), output(p, o, p.heads), lse.data()});
  Gradients g{Stored(p.dtype, in.q.size()), Stored(p.dtype, in.k.size()), Stored(p.dtype, in.k.size())};
  const AttentionBackward a{shape(p, s),           input(p, q, p.heads),   input(p, k, p.kv), input(p, v, p.kv),
                            input(p, o, p.heads),  input(p, d_o, p.heads), lse.data(),        output(p, g.dq, p.heads),
                            output(p, g.dk, p.kv), output(p, g.dv, p.kv)};
  reference ? attention_backward_reference(a) : attention_backward(a);
  return g;
}

void expect_equal(const Gradients& want, const Gradients& got, const std::string& what) {
  EXPECT_EQ(want.dq.bits(), got.dq.bits()) << what;
  EXPECT_EQ(want.dk.bits(), got.dk.bits()) << what;
  EXPECT_EQ(want.dv.bits(), got.dv.bits()) << what;
}

void expect_gradients(const Problem& p) {
  const Gradients want = gradients(p, true);
  for (const Isa isa : supported_isas()) {
    const WithIsa with(isa);
    Problem keeping = p;
    keeping.keep_bytes = p.keep_bytes == 0 ? std::int64_t{64} << 20 : 0;
    expect_equal(want, gradients(p, false), fmt::format("{} {}", isa_name(isa), p.text()));
    expect_equal(want, gradients(keeping, false), fmt::format("{} {} other pass", isa_name(isa), p.text()));
  }
}

TEST(AttentionGradient, EqualsReference) {
  for (const DType t : {DType::f32, DType::bf16, DType::f16}) {
    for (const int tokens : {1, 63, 64, 65, 200}) {
      for (const int d : {64, 32, 80}) {
        for (const auto& [heads, kv] : {std::pair{6, 2}, {3, 3}, {5, 1}}) {
          if (tokens == 200 && (d == 80 || (d == 64 && heads != 6))) {
            continue;
          }
          expect_gradients(Problem{.t = tokens, .heads = heads, .kv = kv, .d = d, .dtype = t});
        }
      }
    }
    expect_gradients(Problem{.t = 70, .heads = 1, .kv = 1, .d = 128, .dtype = t});
    expect_gradients(Problem{.t = 70, .heads = 2, .kv = 1, .d = 7, .dtype = t});
  }
}

TEST(AttentionGradient, WindowsDocumentsAndNoMask) {
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const int window : {0, 1, 50, 64, 100}) {
      for (const bool causal : {true, false}) {
        Problem p{.g = 2, .t = 330, .heads = 2, .kv = 1, .d = 16, .dtype = t, .causal = causal, .window = window};
        expect_gradients(p);
        p.lengths = {37, 64, 128, 1, 100};
        expect_gradients(p);
      }
    }
  }
}

TEST(AttentionGradient, ThreadsDoNotShow) {
  const int before = thread_count();
  for (const DType t : {DType::f32, DType::bf16}) {
    const Problem p{.g = 2, .t = 330, .heads = 9, .kv = 3, .d = 64, .dtype = t};
    set_thread_count(1);
    const Gradients one = gradients(p, false);
    for (const int threads : {2, 5}) {
      set_thread_count(threads);
      expect_equal(one, gradients(p, false), fmt::format("{} threads", threads));
    }
  }
  set_thread_count(before);
}

TEST(AttentionGradient, PackedEqualsAlone) {
  Problem p{.t = 300, .heads = 4, .kv = 2, .d = 32, .dtype = DType::bf16};
  p.lengths = {37, 130, 133};
  const Gradients packed = gradients(p, false);
  const Inputs in = inputs(p);
  std::size_t at = 0;
  for (const int n : p.lengths) {
    Problem alone = p;
    alone.t = n;
    alone.lengths = {};
    const std::size_t q = static_cast<std::size_t>(p.heads * p.d), k = static_cast<std::size_t>(p.kv * p.d);
    const auto count = static_cast<std::size_t>(n);
    alone.given = Inputs{slice(in.q, at * q, count * q), slice(in.k, at * k, count * k), slice(in.v, at * k, count * k),
                         slice(in.d_o, at * q, count * q)};
    const Gradients one = gradients(alone, false);
    EXPECT_EQ(one.dq.bits(), slice(packed.dq.bits(), at * q, count * q));
    EXPECT_EQ(one.dk.bits(), slice(packed.dk.bits(), at * k, count * k));
    EXPECT_EQ(one.dv.bits(), slice(packed.dv.bits(), at * k, count * k));
    at += count;
  }
}

/// Sum of o * d_o in double precision, written without any of our code.
double objective(const Problem& p, const Inputs& in) {
  double sum = 0;
  for (int i = 0; i < p.t; ++i) {
    for (int h = 0; h < p.heads; ++h) {
      const auto at = [&](const std::vector<float>& x, int t, int heads, int head, int c) {
        return static_cast<double>(x[static_cast<std::size_t>((t * heads + head) * p.d + c)]);
      };
      std::vector<double> w;
      double total = 0;
      for (int j = 0; j <= i; ++j) {
        double s = 0;
        for (int c = 0; c < p.d; ++c) {
          s += at(in.q, i, p.heads, h, c) * at(in.k, j, p.kv, h * p.kv / p.heads, c);
        }
        w.push_back(p.window > 0 && i - j >= p.window ? 0.0 : std::exp(s * p.scale()));
        total += w.back();
      }
      for (int j = 0; j <= i; ++j) {
        for (int c = 0; c < p.d; ++c) {
          sum += w[static_cast<std::size_t>(j)] / total * at(in.v, j, p.kv, h * p.kv / p.heads, c) *
                 at(in.d_o, i, p.heads, h, c);
        }
      }
    }
  }
  return sum;
}

TEST(AttentionGradient, FiniteDifferences) {
  for (const int window : {0, 20}) {
    Problem p{.t = 70, .heads = 2, .kv = 1, .d = 4, .window = window};
    p.given = inputs(p);
    const Gradients g = gradients(p, false);
    const auto check = [&](std::vector<float> Inputs::*member, const Stored& got) {
      for (std::size_t i = 0; i < got.bits().size(); i += 13) {
        Inputs up = *p.given, down = *p.given;
        (up.*member)[i] += 1e-3F;
        (down.*member)[i] -= 1e-3F;
        const double step = static_cast<double>((up.*member)[i]) - static_cast<double>((down.*member)[i]);
        const double want = (objective(p, up) - objective(p, down)) / step;
        EXPECT_NEAR(want, got.at(i), 2e-5 * (1 + std::abs(want))) << i;
      }
    };
    check(&Inputs::q, g.dq);
    check(&Inputs::k, g.dk);
    check(&Inputs::v, g.dv);
  }
}

}  // namespace
}  // namespace isotone::cpu
