// Elementwise functions: scalar references, every instruction set and one or two threads, every kind of stride.
#include "backends/cpu/kernels/elementwise.h"

#include <cmath>
#include <limits>

#include "backends/cpu/kernels/vec_test_support.h"
#include "base/error.h"
#include "base/fmath.h"

namespace isotone::cpu::test {
namespace {

// By magnitude, which holds in either mode of the thread.
float flushed(float x) {
  return std::fabs(x) < 0x1p-126F ? std::copysign(0.0F, x) : x;
}

float reference(UnaryOp op, float x) {
  switch (op) {
    case UnaryOp::neg:
      return -x;
    case UnaryOp::abs:
      return std::fabs(x);
    case UnaryOp::exp:
      return fmath::exp(x);
    case UnaryOp::log:
      return fmath::log(x);
    case UnaryOp::sin:
      return fmath::sin(x);
    case UnaryOp::cos:
      return fmath::cos(x);
    case UnaryOp::tanh:
      return fmath::tanh(x);
    case UnaryOp::erf:
      return fmath::erf(x);
    case UnaryOp::sigmoid:
      return 1.0F / (1.0F + fmath::exp(-x));
    case UnaryOp::silu:
      return x / (1.0F + fmath::exp(-x));
    case UnaryOp::gelu_erf:
      return (0.5F * x) * (1.0F + fmath::erf(x * 0.70710678F));
    case UnaryOp::gelu_tanh:
      return (0.5F * x) * (1.0F + fmath::tanh(0.79788456F * (x + 0.044715F * ((x * x) * x))));
    case UnaryOp::relu:
      return x != x ? x : x < 0.0F ? 0.0F : flushed(x);
    case UnaryOp::sqrt:
      return std::sqrt(x);
    case UnaryOp::rsqrt:
      return 1.0F / std::sqrt(x);
  }
  return 0;
}

float reference(BinaryOp op, float a, float b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::pow:
      return fmath::pow(a, b);
    case BinaryOp::max:
      return a != a || b != b ? NAN : a < b ? b : a;
    case BinaryOp::min:
      return a != a || b != b ? NAN : b < a ? b : a;
  }
  return 0;
}

/// Values of every exponent, with the special ones in front.
Data wide_data(DType t, std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  const float special[] = {0.0F, -0.0F,  INFINITY, -INFINITY, NAN,       1.0F, -1.0F,          2.0F,
                           0.5F, 1e-40F, 88.8F,    -87.4F,    123456.7F, 3e7F, 1.17549435e-38F};
  Data d;
  for (std::int64_t i = 0; i < n; ++i) {
    const float any = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    const float usual = static_cast<float>(static_cast<double>(random()) / 2e8 - 10.0);
    d.wide.push_back(round_to(t, i < 15 ? special[i] : i % 3 == 0 ? any : usual));
  }
  d.stored = store_all(t, d.wide);
  return d;
}

TEST(Elementwise, Unary) {
  for (const DType t : kFloats) {
    const std::int64_t n = 40009;
    const Data x = wide_data(t, n, 1);
    for (int op = 0; op < kUnaryOps; ++op) {
      std::vector<float> y;
      {
        const FlushSubnormals flush;
        for (const float v : x.wide) {
          y.push_back(reference(static_cast<UnaryOp>(op), v));
        }
      }
      expect_everywhere(store_all(t, y), "unary " + std::to_string(op) + " " + std::string(dtype_name(t)), [&] {
        Bytes out(x.stored.size());
        const std::int64_t shape[] = {n};
        unary(static_cast<UnaryOp>(op), t, out.data(), {x.get()}, shape);
        return out;
      });
    }
  }
}

TEST(Elementwise, Binary) {
  for (const DType t : kFloats) {
    const std::int64_t n = 20011;
    const Data a = wide_data(t, n, 2);
    Data b = wide_data(t, n, 3);
    std::rotate(b.wide.begin(), b.wide.begin() + 4, b.wide.end());
    b.stored = store_all(t, b.wide);
    for (int op = 0; op < kBinaryOps; ++op) {
      std::vector<float> y;
      {
        const FlushSubnormals flush;
        for (std::size_t i = 0; i < a.wide.size(); ++i) {
          y.push_back(reference(static_cast<BinaryOp>(op), a.wide[i], b.wide[i]));
        }
      }
      expect_everywhere(store_all(t, y), "binary " + std::to_string(op) + " " + std::string(dtype_name(t)), [&] {
        Bytes out(a.stored.size());
        const std::int64_t shape[] = {n};
        binary(static_cast<BinaryOp>(op), t, out.data(), {a.get()}, {b.get()}, shape);
        return out;
      });
    }
  }
}

TEST(Elementwise, StridesOfEveryKind) {
  const std::vector<std::int64_t> shape = {3, 1, 4, 5, 67};
  struct Strides {
    std::vector<std::int64_t> a, b;
  };
  const std::vector<Strides> kinds = {
      {{1340, 1340, 335, 67, 1}, {0, 0, 0, 0, 1}},       // a row
      {{1340, 1340, 335, 67, 1}, {0, 0, 0, 0, 0}},       // a scalar
      {{1340, 1340, 335, 67, 1}, {20, 20, 5, 1, 0}},     // a column
      {{1, 3, 3, 12, 60}, {1340, 1340, 335, 67, 1}},     // transposed
      {{2680, 0, 670, 134, 2}, {-1340, 0, 335, 67, 1}},  // every second; backwards along the first
  };
  for (const DType t : {DType::f32, DType::bf16}) {
    const Data a = make_data(t, 9000, 4);
    const Data b = make_data(t, 9000, 5);
    const std::int64_t b_start = 2680;
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const auto& s = kinds[k];
      std::vector<float> y;
      for (std::int64_t i = 0; i < 3 * 4 * 5 * 67; ++i) {
        const std::int64_t index[] = {i / 1340, 0, i / 335 % 4, i / 67 % 5, i % 67};
        std::int64_t ia = 0, ib = b_start;
        for (std::size_t d = 0; d < 5; ++d) {
          ia += index[d] * s.a[d];
          ib += index[d] * s.b[d];
        }
        y.push_back(a.wide[static_cast<std::size_t>(ia)] - b.wide[static_cast<std::size_t>(ib)]);
      }
      expect_everywhere(store_all(t, y), "strides " + std::to_string(k), [&] {
        Bytes out(y.size() * unit_bytes(t));
        binary(BinaryOp::sub, t, out.data(), {a.get(), s.a},
               {b.stored.data() + static_cast<std::size_t>(b_start) * unit_bytes(t), s.b}, shape);
        return out;
      });
    }
  }
  const std::int64_t many[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  float x = 0;
  EXPECT_THROW(unary(UnaryOp::neg, DType::f32, &x, {&x}, many), Error);
  EXPECT_THROW(unary(UnaryOp::neg, DType::i32, &x, {&x}, std::span(many).first(1)), Error);
}

TEST(Elementwise, LongBroadcastRows) {
  const std::vector<std::int64_t> shape = {3, 20000};
  const Data a = make_data(DType::f32, 60000, 6);
  const Data b = make_data(DType::f32, 3, 7);
  const std::vector<std::int64_t> sa = {20000, 1}, sb = {1, 0};
  std::vector<float> y;
  for (std::size_t i = 0; i < 60000; ++i) {
    y.push_back(a.wide[i] * b.wide[i / 20000]);
  }
  expect_everywhere(store_all(DType::f32, y), "long rows", [&] {
    Bytes out(y.size() * 4);
    binary(BinaryOp::mul, DType::f32, out.data(), {a.get(), sa}, {b.get(), sb}, shape);
    return out;
  });
}

TEST(Elementwise, CompareLogicalWhereClampFanIn) {
  const std::int64_t n = 1003;
  const std::int64_t shape[] = {n};
  for (const DType t : kFloats) {
    const Data a = wide_data(t, n, 8);
    const Data b = wide_data(t, n, 9);
    const Data c = make_data(t, n, 10);
    Bytes equal, less, less_equal, either, both, flipped;
    std::vector<float> chosen, clamped, sum;
    {
      const FlushSubnormals flush;
      for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
        const float x = a.wide[i], y = b.wide[i];
        equal.push_back(x == y);
        less.push_back(x < y);
        less_equal.push_back(x <= y);
        both.push_back(less_equal[i] && equal[i]);
        either.push_back(less[i] || equal[i]);
        flipped.push_back(less[i] == 0);
        clamped.push_back(x != x ? x : x < -0.7F ? -0.7F : x > 1.1F ? 1.1F : flushed(x));
        sum.push_back((x + y) + c.wide[i]);
      }
    }
    Bytes where_bytes;
    const std::size_t unit = unit_bytes(t);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const std::uint8_t* p = (less[i] != 0 ? a : b).stored.data() + i * unit;
      where_bytes.insert(where_bytes.end(), p, p + unit);
    }
    const Bytes want =
        joined({equal, less, less_equal, both, either, flipped, where_bytes, store_all(t, clamped), store_all(t, sum)});
    expect_everywhere(want, "compare " + std::string(dtype_name(t)), [&] {
      Bytes e(equal.size()), l(e), le(e), an(e), o(e), f(e), w(where_bytes.size()), cl(w), s(w);
      compare(CompareOp::equal, t, e.data(), {a.get()}, {b.get()}, shape);
      compare(CompareOp::less, t, l.data(), {a.get()}, {b.get()}, shape);
      compare(CompareOp::less_equal, t, le.data(), {a.get()}, {b.get()}, shape);
      logical(LogicalOp::logical_and, an.data(), {le.data()}, {e.data()}, shape);
      logical(LogicalOp::logical_or, o.data(), {l.data()}, {e.data()}, shape);
      logical_not(f.data(), {l.data()}, shape);
      where(t, w.data(), {l.data()}, {a.get()}, {b.get()}, shape);
      clamp(t, cl.data(), {a.get()}, -0.7F, 1.1F, shape);
      const void* inputs[] = {a.get(), b.get(), c.get()};
      fan_in(t, s.data(), inputs, n);
      return joined({e, l, le, an, o, f, w, cl, s});
    });
  }
}

template <class T>
std::vector<T> cast_from_f32(DType to, const std::vector<float>& x) {
  std::vector<T> y(x.size());
  const std::int64_t shape[] = {static_cast<std::int64_t>(x.size())};
  cast(to, y.data(), DType::f32, {x.data()}, shape);
  return y;
}

TEST(Elementwise, Cast) {
  const std::vector<float> x = {0.0F, -0.9F, 1.5F,  -1.5F,  127.9F, 128.0F,   -129.0F,      300.0F,
                                3e9F, -3e9F, 1e20F, -1e20F, NAN,    INFINITY, 2147483648.0F};
  constexpr std::int32_t kMax32 = std::numeric_limits<std::int32_t>::max(),
                         kMin32 = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t kMax64 = std::numeric_limits<std::int64_t>::max(),
                         kMin64 = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(cast_from_f32<std::int8_t>(DType::i8, x),
            (std::vector<std::int8_t>{0, 0, 1, -1, 127, 127, -128, 127, 127, -128, 127, -128, 0, 127, 127}));
  EXPECT_EQ(cast_from_f32<std::uint8_t>(DType::u8, x),
            (std::vector<std::uint8_t>{0, 0, 1, 0, 127, 128, 0, 255, 255, 0, 255, 0, 0, 255, 255}));
  EXPECT_EQ(
      cast_from_f32<std::int32_t>(DType::i32, x),
      (std::vector<std::int32_t>{0, 0, 1, -1, 127, 128, -129, 300, kMax32, kMin32, kMax32, kMin32, 0, kMax32, kMax32}));
  EXPECT_EQ(cast_from_f32<std::int64_t>(DType::i64, x),
            (std::vector<std::int64_t>{0, 0, 1, -1, 127, 128, -129, 300, 3000000000, -3000000000, kMax64, kMin64, 0,
                                       kMax64, 2147483648}));
  EXPECT_EQ(cast_from_f32<std::uint8_t>(DType::boolean, x),
            (std::vector<std::uint8_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  const std::int64_t wide[] = {16777217, -5, std::int64_t{1} << 40, 0};
  const std::int64_t shape[] = {4};
  float f[4];
  cast(DType::f32, f, DType::i64, {wide}, shape);
  EXPECT_EQ(f[0], 16777216.0F);
  EXPECT_EQ(f[2], 0x1p40F);
  std::uint8_t flags[4];
  cast(DType::boolean, flags, DType::i64, {wide}, shape);
  EXPECT_EQ(flags[2], 1);
  EXPECT_EQ(flags[3], 0);
  for (const DType from : kFloats) {
    const Data d = wide_data(from, 10007, 12);
    const std::int64_t n[] = {10007};
    for (const DType to : kFloats) {
      if (to != from) {
        // Casting moves bits in integer code: subnormal numbers pass, whatever the mode.
        expect_everywhere(store_all(to, d.wide), std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)),
                          [&] {
                            Bytes out(d.wide.size() * unit_bytes(to));
                            cast(to, out.data(), from, {d.get()}, n);
                            return out;
                          });
      }
    }
  }
}

}  // namespace
}  // namespace isotone::cpu::test
