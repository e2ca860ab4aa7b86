// Norms, softmax, cross-entropy, rotary, SwiGLU and AdamW against scalar references written from docs/numerics.md,
// section 12, for every instruction set and one or two threads: equal bits.
#include "backends/cpu/kernels/norm.h"

#include <cmath>

#include "backends/cpu/kernels/elementwise_fused.h"
#include "backends/cpu/kernels/vec_test_support.h"
#include "base/fmath.h"

namespace isotone::cpu::test {
namespace {

constexpr float kEps = 1e-5F;

float reciprocal(float sum, std::int64_t n) {
  return 1.0F / std::sqrt(sum / static_cast<float>(n) + kEps);
}

struct Case {
  DType t;
  std::int64_t rows, n;
  std::string name;
};

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const DType t : kFloats) {
    for (const std::int64_t n : kWidths) {
      out.push_back({t, n < 300 ? 19 : 5, n, std::string(dtype_name(t)) + " n=" + std::to_string(n)});
    }
    out.push_back({t, 2, 49152, std::string(dtype_name(t)) + " n=49152"});
  }
  return out;
}

/// The reference's rows, each from a function of (row's offset, output vector).
Bytes by_rows(const Case& c, const std::function<void(std::int64_t, std::vector<float>&)>& row) {
  const FlushSubnormals flush;
  std::vector<float> y(static_cast<std::size_t>(c.rows * c.n));
  for (std::int64_t r = 0; r < c.rows; ++r) {
    row(r * c.n, y);
  }
  return store_all(c.t, y);
}

TEST(Norm, RmsNorm) {
  for (const Case& c : cases()) {
    const Data x = make_data(c.t, c.rows * c.n, 1);
    const Data w = make_data(c.t, c.n, 2);
    const Bytes want = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const float* v = x.wide.data() + o;
      const float r = reciprocal(reference_sum(c.n, [&](std::int64_t i) { return v[i] * v[i]; }), c.n);
      for (std::int64_t i = 0; i < c.n; ++i) {
        y[static_cast<std::size_t>(o + i)] = (v[i] * r) * w.wide[static_cast<std::size_t>(i)];
      }
    });
    expect_everywhere(want, "rms_norm " + c.name, [&] {
      Bytes y(want.size());
      rms_norm(c.t, y.data(), x.get(), w.get(), kEps, c.rows, c.n);
      return y;
    });
  }
}

TEST(Norm, RmsNormGrad) {
  for (const Case& c : cases()) {
    const Data x = make_data(c.t, c.rows * c.n, 1);
    const Data w = make_data(c.t, c.n, 2);
    const Data dy = make_data(c.t, c.rows * c.n, 3);
    std::vector<float> h(static_cast<std::size_t>(c.rows * c.n));
    const Bytes dx = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const float* v = x.wide.data() + o;
      const float* d = dy.wide.data() + o;
      const float r = reciprocal(reference_sum(c.n, [&](std::int64_t i) { return v[i] * v[i]; }), c.n);
      const float s =
          reference_sum(c.n, [&](std::int64_t i) { return (d[i] * w.wide[static_cast<std::size_t>(i)]) * v[i]; });
      const float k = (s / static_cast<float>(c.n)) * ((r * r) * r);
      for (std::int64_t i = 0; i < c.n; ++i) {
        const float g = d[i] * w.wide[static_cast<std::size_t>(i)];
        y[static_cast<std::size_t>(o + i)] = g * r - v[i] * k;
        h[static_cast<std::size_t>(o + i)] = v[i] * r;
      }
    });
    expect_everywhere(joined({dx, store_all(c.t, h)}), "rms_norm_grad " + c.name, [&] {
      Bytes a(dx.size());
      Bytes b(dx.size());
      rms_norm_grad(c.t, a.data(), b.data(), x.get(), w.get(), dy.get(), kEps, c.rows, c.n);
      return joined({a, b});
    });
  }
}

TEST(Norm, LayerNorm) {
  for (const Case& c : cases()) {
    const Data x = make_data(c.t, c.rows * c.n, 4);
    const Data w = make_data(c.t, c.n, 5);
    const Data b = make_data(c.t, c.n, 6);
    const Bytes want = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const float* v = x.wide.data() + o;
      const float mu = reference_sum(c.n, [&](std::int64_t i) { return v[i]; }) / static_cast<float>(c.n);
      const float r = reciprocal(reference_sum(c.n, [&](std::int64_t i) { return (v[i] - mu) * (v[i] - mu); }), c.n);
      for (std::int64_t i = 0; i < c.n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        y[static_cast<std::size_t>(o + i)] = (((v[i] - mu) * r) * w.wide[k]) + b.wide[k];
      }
    });
    expect_everywhere(want, "layer_norm " + c.name, [&] {
      Bytes y(want.size());
      layer_norm(c.t, y.data(), x.get(), w.get(), b.get(), kEps, c.rows, c.n);
      return y;
    });
  }
}

float row_maximum(const float* v, std::int64_t n) {
  float m = -INFINITY;
  for (std::int64_t i = 0; i < n; ++i) {
    m = v[i] > m ? v[i] : m;
  }
  return m;
}

TEST(Softmax, ForwardLogAndGradient) {
  for (const Case& c : cases()) {
    const Data x = make_data(c.t, c.rows * c.n, 7, 5.0F);
    const Data dy = make_data(c.t, c.rows * c.n, 8);
    const auto exp_sum = [&](const float* v, float m) {
      return reference_sum(c.n, [&](std::int64_t i) { return fmath::exp(v[i] - m); });
    };
    const Bytes soft = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const float* v = x.wide.data() + o;
      const float m = row_maximum(v, c.n);
      const float l = exp_sum(v, m);
      for (std::int64_t i = 0; i < c.n; ++i) {
        y[static_cast<std::size_t>(o + i)] = fmath::exp(v[i] - m) / l;
      }
    });
    const Bytes logs = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const float* v = x.wide.data() + o;
      const float m = row_maximum(v, c.n);
      const float l = fmath::log(exp_sum(v, m));
      for (std::int64_t i = 0; i < c.n; ++i) {
        y[static_cast<std::size_t>(o + i)] = (v[i] - m) - l;
      }
    });
    const Bytes grad = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const float* v = x.wide.data() + o;  // any numbers do for y here
      const float* d = dy.wide.data() + o;
      const float s = reference_sum(c.n, [&](std::int64_t i) { return d[i] * v[i]; });
      for (std::int64_t i = 0; i < c.n; ++i) {
        y[static_cast<std::size_t>(o + i)] = v[i] * (d[i] - s);
      }
    });
    expect_everywhere(joined({soft, logs, grad}), "softmax " + c.name, [&] {
      Bytes a(soft.size());
      Bytes b(soft.size());
      Bytes d(soft.size());
      softmax(c.t, a.data(), x.get(), c.rows, c.n);
      log_softmax(c.t, b.data(), x.get(), c.rows, c.n);
      softmax_grad(c.t, d.data(), x.get(), dy.get(), c.rows, c.n);
      return joined({a, b, d});
    });
  }
}

TEST(CrossEntropy, LossAndGradientInPlace) {
  for (const Case& c : cases()) {
    const Data x = make_data(c.t, c.rows * c.n, 9, 4.0F);
    std::vector<std::int32_t> target;
    std::vector<float> dloss;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      target.push_back(r == 1 ? -1 : static_cast<std::int32_t>((r * 7919) % c.n));
      dloss.push_back(0.25F * static_cast<float>(r + 1));
    }
    std::vector<float> loss(target.size());
    std::vector<float> lse(target.size());
    const Bytes grad = by_rows(c, [&](std::int64_t o, std::vector<float>& y) {
      const auto r = static_cast<std::size_t>(o / c.n);
      const float* v = x.wide.data() + o;
      const float m = row_maximum(v, c.n);
      const float l = fmath::log(reference_sum(c.n, [&](std::int64_t i) { return fmath::exp(v[i] - m); }));
      lse[r] = m + l;
      loss[r] = target[r] < 0 ? 0.0F : l - (v[target[r]] - m);
      for (std::int64_t i = 0; i < c.n; ++i) {
        y[static_cast<std::size_t>(o + i)] =
            target[r] < 0 ? 0.0F : (fmath::exp(v[i] - lse[r]) - (i == target[r] ? 1.0F : 0.0F)) * dloss[r];
      }
    });
    expect_everywhere(
        joined({store_all(DType::f32, loss), store_all(DType::f32, lse), grad}), "cross_entropy " + c.name, [&] {
          Bytes logits = x.stored;
          Bytes a(target.size() * 4);
          Bytes b(target.size() * 4);
          auto* l = reinterpret_cast<float*>(b.data());
          cross_entropy(c.t, reinterpret_cast<float*>(a.data()), l, logits.data(), target.data(), c.rows, c.n);
          cross_entropy_grad(c.t, logits.data(), logits.data(), l, target.data(), dloss.data(), c.rows, c.n);
          return joined({a, b, logits});
        });
  }
}

TEST(Softmax, InfinitiesAndNan) {
  const float inf = INFINITY;
  const std::vector<float> rows = {-inf, -inf, -inf, 1.0F, -inf, 2.0F, NAN, 1.0F, 2.0F};
  expect_everywhere(store_all(DType::f32, {-inf, 2.0F + fmath::log(fmath::exp(-1.0F) + 1.0F), NAN}), "lse", [&] {
    Bytes lse(12);
    cross_entropy(DType::f32, nullptr, reinterpret_cast<float*>(lse.data()), rows.data(), nullptr, 3, 3);
    return lse;
  });
}

TEST(Fused, Rope) {
  for (const DType t : kFloats) {
    for (const std::int64_t d : {2, 64, 80, 128}) {
      const std::int64_t rows = 9, heads = 3, stride = heads * d + 5;
      const Data x = make_data(t, rows * stride, 10);
      const Data cos = make_data(DType::f32, rows * d / 2, 11);
      const Data sin = make_data(DType::f32, rows * d / 2, 12);
      for (const bool negate : {false, true}) {
        std::vector<float> y(static_cast<std::size_t>(rows * heads * d));
        for (std::int64_t r = 0; r < rows; ++r) {
          for (std::int64_t h = 0; h < heads; ++h) {
            for (std::int64_t i = 0; i < d / 2; ++i) {
              const float* v = x.wide.data() + r * stride + h * d;
              const float c = cos.wide[static_cast<std::size_t>(r * d / 2 + i)];
              const float s = (negate ? -1.0F : 1.0F) * sin.wide[static_cast<std::size_t>(r * d / 2 + i)];
              float* out = y.data() + (r * heads + h) * d;
              out[i] = v[i] * c - v[i + d / 2] * s;
              out[i + d / 2] = v[i + d / 2] * c + v[i] * s;
            }
          }
        }
        expect_everywhere(store_all(t, y), "rope", [&] {
          Bytes out(y.size() * unit_bytes(t));
          rope(t, out.data(), x.get(), cos.wide.data(), sin.wide.data(), rows, heads, d, stride, heads * d, negate);
          return out;
        });
      }
    }
  }
}

TEST(Fused, Swiglu) {
  for (const Case& c : cases()) {
    const std::int64_t stride = 2 * c.n;  // gate and up side by side in one buffer
    const Data x = make_data(c.t, c.rows * stride, 13);
    const Data dy = make_data(c.t, c.rows * c.n, 14);
    std::vector<float> dgate(static_cast<std::size_t>(c.rows * c.n));
    std::vector<float> dup(dgate.size());
    const Bytes y = by_rows(c, [&](std::int64_t o, std::vector<float>& out) {
      for (std::int64_t i = o; i < o + c.n; ++i) {
        const auto k = static_cast<std::size_t>(i);
        const float g = x.wide[static_cast<std::size_t>(i + o)];
        const float u = x.wide[static_cast<std::size_t>(i + o + c.n)];
        out[k] = (g / (1.0F + fmath::exp(-g))) * u;
        const float e = 1.0F / (1.0F + fmath::exp(-g));
        const float h = g * e;
        dup[k] = dy.wide[k] * h;
        dgate[k] = (dy.wide[k] * u) * (e * (1.0F + g * (1.0F - e)));
      }
    });
    expect_everywhere(joined({y, store_all(c.t, dgate), store_all(c.t, dup)}), "swiglu " + c.name, [&] {
      Bytes a(y.size());
      Bytes b(y.size());
      Bytes d(y.size());
      const void* up = x.stored.data() + static_cast<std::size_t>(c.n) * unit_bytes(c.t);
      swiglu(c.t, a.data(), x.get(), up, c.rows, c.n, c.n, stride, stride);
      swiglu_grad(c.t, b.data(), d.data(), x.get(), up, dy.get(), c.rows, c.n, c.n, stride, stride, c.n);
      return joined({a, b, d});
    });
  }
}

TEST(Fused, Adamw) {
  constexpr std::int64_t kCount = 100003;
  const AdamwStep s{3e-4F, 0.9F, 0.95F, 1e-8F, 0.1F, 1.7F, 3.1F, 0.7F};
  const Data p0 = make_data(DType::f32, kCount, 15);
  const Data m0 = make_data(DType::f32, kCount, 16);
  Data v0 = make_data(DType::f32, kCount, 17);
  const Data g0 = make_data(DType::f32, kCount, 18);
  std::vector<float> p, m, v;
  for (std::size_t i = 0; i < kCount; ++i) {
    v0.wide[i] = std::fabs(v0.wide[i]);
    const float g = g0.wide[i] * s.clip;
    m.push_back(s.b1 * m0.wide[i] + (1.0F - s.b1) * g);
    v.push_back(s.b2 * v0.wide[i] + ((1.0F - s.b2) * g) * g);
    const float u = (m[i] * s.c1) / (std::sqrt(v[i] * s.c2) + s.eps);
    p.push_back(p0.wide[i] - s.lr * (u + s.wd * p0.wide[i]));
  }
  const auto f32 = [](const std::vector<float>& x) { return store_all(DType::f32, x); };
  expect_everywhere(joined({f32(p), f32(m), f32(v), store_all(DType::bf16, p)}), "adamw", [&] {
    std::vector<float> a = p0.wide, b = m0.wide, c = v0.wide;
    std::vector<bf16> copy(kCount);
    adamw(a.data(), b.data(), c.data(), g0.wide.data(), s, kCount, copy.data());
    Bytes half(kCount * 2);
    std::memcpy(half.data(), copy.data(), half.size());
    return joined({f32(a), f32(b), f32(c), half});
  });
}

}  // namespace
}  // namespace isotone::cpu::test
