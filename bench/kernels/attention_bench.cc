// Times the attention kernels: forward, gradient, and decoding over a paged cache. Prints the time, GFLOP/s (visible
// scores only) or the rate at which the cache is read. Usage: attention_bench [seconds a case]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/attention.h"
#include "base/half.h"
#include "base/parallel.h"

namespace {

using namespace isotone;
using namespace isotone::cpu;

double seconds_a_case = 0.5;

template <class F>
double best_seconds(const F& f) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double best = 1e9;
  for (int i = 0; i < 3 || std::chrono::duration<double>(Clock::now() - start).count() < seconds_a_case; ++i) {
    const auto t = Clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - t).count());
  }
  return best;
}

std::vector<std::byte> random_tensor(DType t, std::int64_t n) {
  std::vector<std::byte> x(static_cast<std::size_t>(n) * unit_bytes(t));
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.5F, 1.5F);
  for (std::int64_t i = 0; i < n; ++i) {
    const float e = uniform(random);
    if (t == DType::f32) {
      reinterpret_cast<float*>(x.data())[i] = e;
    } else {
      reinterpret_cast<bf16*>(x.data())[i] = bf16(e);
    }
  }
  return x;
}

void sequence(DType t, std::int64_t tokens, std::int64_t heads, std::int64_t kv, std::int64_t d) {
  const auto q = random_tensor(t, tokens * heads * d), k = random_tensor(t, tokens * kv * d);
  const auto v = random_tensor(t, tokens * kv * d), d_o = random_tensor(t, tokens * heads * d);
  auto o = q, dq = q, dk = k, dv = v;
  std::vector<float> lse(static_cast<std::size_t>(tokens * heads));
  AttentionShape s;
  s.t = tokens;
  s.heads = heads;
  s.kv_heads = kv;
  s.d = d;
  s.dtype = t;
  s.scale = 0.125F;
  const auto in = [&](const std::vector<std::byte>& x, std::int64_t h) {
    return AttentionInput{x.data(), tokens * h * d, h * d, d};
  };
  const auto out = [&](std::vector<std::byte>& x, std::int64_t h) {
    return AttentionOutput{x.data(), tokens * h * d, h * d, d};
  };
  const AttentionForward f{s, in(q, heads), in(k, kv), in(v, kv), out(o, heads), lse.data()};
  const AttentionBackward b{s,          in(q, heads),   in(k, kv),   in(v, kv),  in(o, heads), in(d_o, heads),
                            lse.data(), out(dq, heads), out(dk, kv), out(dv, kv)};
  const double flop =
      2.0 * static_cast<double>(tokens) * static_cast<double>(tokens + 1) * static_cast<double>(heads * d);
  const double forward = best_seconds([&] { attention_forward(f); });
  const double backward = best_seconds([&] { attention_backward(b); });
  std::printf("%-5s %5ld tokens %2ld/%ld heads of %3ld  forward %8.3f ms %7.1f GFLOP/s   gradient %8.3f ms (%.2f x)\n",
              dtype_name(t).data(), tokens, heads, kv, d, forward * 1e3, flop / forward * 1e-9, backward * 1e3,
              backward / forward);
}

void decode(DType t, std::int64_t requests, std::int64_t length, std::int64_t heads, std::int64_t kv, std::int64_t d) {
  constexpr std::int64_t kPage = 64;
  const std::int64_t pages = (length + kPage - 1) / kPage;
  const auto k = random_tensor(t, requests * pages * kPage * kv * d), v = k;
  const auto q = random_tensor(t, requests * heads * d);
  auto o = q;
  std::vector<std::int32_t> table(static_cast<std::size_t>(requests * pages));
  std::iota(table.begin(), table.end(), 0);
  const std::vector<std::int32_t> positions(static_cast<std::size_t>(requests), static_cast<std::int32_t>(length - 1));
  PagedAttention a;
  a.b = requests;
  a.heads = heads;
  a.kv_heads = kv;
  a.d = d;
  a.dtype = t;
  a.scale = 0.125F;
  a.q = {q.data(), heads * d, heads * d, d};
  a.k_pages = k.data();
  a.v_pages = v.data();
  a.pages = requests * pages;
  a.page = kPage;
  a.page_stride = kPage * kv * d;
  a.page_head_stride = kPage * d;
  a.page_slot_stride = d;
  a.table = table.data();
  a.table_stride = pages;
  a.positions = positions.data();
  a.o = {o.data(), heads * d, heads * d, d};
  const double time = best_seconds([&] { paged_attention(a); });
  const double bytes = 2.0 * static_cast<double>(requests * length * kv * d) * static_cast<double>(unit_bytes(t));
  std::printf("%-5s decode %2ld x %5ld keys %2ld/%ld heads of %3ld  %8.3f ms %7.1f GB/s\n", dtype_name(t).data(),
              requests, length, heads, kv, d, time * 1e3, bytes / time * 1e-9);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    seconds_a_case = std::atof(argv[1]);
  }
  std::printf("%s, %d threads\n", isa_name(current_isa()).data(), thread_count());
  for (const DType t : {DType::f32, DType::bf16}) {
    for (const std::int64_t tokens : {128, 512, 2048}) {
      sequence(t, tokens, 9, 9, 64);
      sequence(t, tokens, 9, 3, 64);
    }
    sequence(t, 512, 8, 2, 128);
    decode(t, 1, 512, 9, 3, 64);
    decode(t, 1, 8192, 9, 3, 64);
    decode(t, 16, 2048, 32, 8, 128);
  }
}
