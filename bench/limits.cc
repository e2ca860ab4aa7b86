// Measures what this machine can do at most on two threads, for the benches' "limit" column: f32 fused multiply-add,
// bf16 pair-dot, u8 x s8 integer dot, AMX tiles (the profile amx-1) and memory
// reads over working sets of given sizes. Prints one JSON object. argv: sizes in MB (default 100 145 270 1024).
#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr int kThreads = 2;
constexpr int kRounds = 15;  // short ones, so that some are undisturbed on a busy machine

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Cpu {
  bool fma = false, avx512 = false, vnni512 = false, bf16 = false, avxvnni = false, amx_bf16 = false, amx_int8 = false;
  Cpu() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    __builtin_cpu_init();
    fma = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
    avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      vnni512 = avx512 && (c >> 11 & 1);
      amx_bf16 = d >> 22 & 1;
      amx_int8 = d >> 25 & 1;
    }
    if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) {
      bf16 = avx512 && (a >> 5 & 1);
      avxvnni = a >> 4 & 1;
    }
    // The kernel hands out the tile registers on request only (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
    if ((amx_bf16 || amx_int8) && syscall(SYS_arch_prctl, 0x1023, 18) != 0)
      amx_bf16 = amx_int8 = false;
  }
};

// Runs `work(thread)` on every thread at once; the best of some rounds, in seconds from the common start to the last
// end.
double timed(const std::function<void(int)>& work) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    std::atomic<int> waiting{0};
    std::vector<double> begin(kThreads), end(kThreads);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        ++waiting;
        while (waiting.load() < kThreads) {
        }
        begin[t] = now();
        work(t);
        end[t] = now();
      });
    for (auto& thread : threads)
      thread.join();
    best = std::min(best, *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end()));
  }
  return best;
}

// Twelve independent chains hide the latency of the widest units. One block of assembly: nothing spills, and the file
// needs no target flags. The operands are zeros, which no unit here treats faster.
#define ISOTONE_LOOP(name, step)                                                                                      \
  void name(long n) {                                                                                                 \
    asm volatile("vzeroall\n\t1:\n\t" step(0) step(1) step(2) step(3) step(4) step(5) step(6) step(7) step(8) step(9) \
                     step(10) step(11) "dec %0\n\tjnz 1b\n\tvzeroupper"                                               \
                 : "+r"(n)                                                                                            \
                 :                                                                                                    \
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",  \
                   "xmm14", "xmm15", "cc");                                                                           \
  }
#define STEP_F32_512(j) "vfmadd231ps %%zmm15, %%zmm15, %%zmm" #j "\n\t"
#define STEP_F32_256(j) "vfmadd231ps %%ymm15, %%ymm15, %%ymm" #j "\n\t"
#define STEP_BF16_512(j) "vdpbf16ps %%zmm15, %%zmm15, %%zmm" #j "\n\t"
#define STEP_U8S8_512(j) "vpdpbusd %%zmm15, %%zmm15, %%zmm" #j "\n\t"
#define STEP_U8S8_VNNI(j) "%{vex%} vpdpbusd %%ymm15, %%ymm15, %%ymm" #j "\n\t"
#define STEP_U8S8_256(j)                     \
  "vpmaddubsw %%ymm15, %%ymm15, %%ymm14\n\t" \
  "vpmaddwd %%ymm15, %%ymm14, %%ymm14\n\t"   \
  "vpaddd %%ymm14, %%ymm" #j ", %%ymm" #j "\n\t"
ISOTONE_LOOP(f32_512, STEP_F32_512)
ISOTONE_LOOP(f32_256, STEP_F32_256)
ISOTONE_LOOP(bf16_512, STEP_BF16_512)
ISOTONE_LOOP(u8s8_512, STEP_U8S8_512)
ISOTONE_LOOP(u8s8_256_vnni, STEP_U8S8_VNNI)
ISOTONE_LOOP(u8s8_256, STEP_U8S8_256)

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
template <bool kInt8>
__attribute__((target("amx-tile,amx-bf16,amx-int8"))) void amx(long n) {
  TileConfig config;
  asm volatile("" : : "r"(&config) : "memory");  // GCC 12 would drop the stores
  _tile_loadconfig(&config);
  // Accumulators 0 to 3; what the operand tiles hold (zeros after the configuration) does not change the time.
  for (long i = 0; i < n; ++i) {
    if constexpr (kInt8) {
      _tile_dpbusd(0, 4, 5);
      _tile_dpbusd(1, 4, 6);
      _tile_dpbusd(2, 5, 6);
      _tile_dpbusd(3, 5, 7);
    } else {
      _tile_dpbf16ps(0, 4, 5);
      _tile_dpbf16ps(1, 4, 6);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_release();
}

// Giga-operations a second of `work`, which does `ops` operations an iteration.
double peak(void (*work)(long), double ops, long n) {
  return kThreads * ops * n / timed([=](int) { work(n); }) / 1e9;
}

__attribute__((target("avx2"))) void read_all(const uint8_t* at, size_t bytes) {
  __m256i sum[4] = {};
  for (size_t i = 0; i + 256 <= bytes; i += 256) {
    for (int j = 0; j < 8; ++j)
      sum[j & 3] = _mm256_xor_si256(sum[j & 3], _mm256_load_si256(reinterpret_cast<const __m256i*>(at + i + 32 * j)));
  }
  for (auto& s : sum)
    asm volatile("" : : "x"(s));
}

double read_bandwidth(size_t megabytes) {
  const size_t share = megabytes * 1000000 / kThreads / 4096 * 4096;
  std::vector<uint8_t*> part(kThreads);
  for (auto& p : part) {
    p = static_cast<uint8_t*>(std::aligned_alloc(4096, share));
    if (!p)
      return 0;
    std::fill(p, p + share, uint8_t{1});
  }
  const double seconds = timed([&](int t) { read_all(part[t], share); });
  for (auto* p : part)
    std::free(p);
  return kThreads * static_cast<double>(share) / seconds / 1e9;
}

}  // namespace

int main(int argc, char** argv) {
  const Cpu cpu;
  if (!cpu.fma) {
    std::fprintf(stderr, "limits: this processor has no AVX2 with FMA\n");
    return 1;
  }
  const long n = 1000000;
  const double f32 = cpu.avx512 ? peak(f32_512, 12 * 16 * 2, n) : peak(f32_256, 12 * 8 * 2, n);
  // Pair-dot of bf16 is two fused f32 steps; where the instruction is slower than those (Sapphire Rapids), they count.
  const double pairdot = cpu.bf16 ? peak(bf16_512, 12 * 32 * 2, n) : 0;
  const double bf16 = std::max(pairdot, f32);
  const double u8s8 = cpu.vnni512   ? peak(u8s8_512, 12 * 64 * 2, n)
                      : cpu.avxvnni ? peak(u8s8_256_vnni, 12 * 32 * 2, n)
                                    : peak(u8s8_256, 12 * 32 * 2, n / 2);
  std::printf(
      "{\"threads\": %d, \"f32_gflops\": %.1f, \"bf16_gflops\": %.1f, \"bf16_instruction_gflops\": %.1f, "
      "\"u8s8_gops\": %.1f",
      kThreads, f32, bf16, pairdot, u8s8);
  if (cpu.amx_bf16)
    std::printf(", \"amx_bf16_gflops\": %.1f", peak(amx<false>, 4 * 16 * 16 * 32 * 2.0, n / 16));
  if (cpu.amx_int8)
    std::printf(", \"amx_int8_gops\": %.1f", peak(amx<true>, 4 * 16 * 16 * 64 * 2.0, n / 16));
  std::printf(", \"read_gbs\": {");
  std::vector<size_t> sizes;
  for (int i = 1; i < argc; ++i)
    sizes.push_back(std::strtoul(argv[i], nullptr, 10));
  if (sizes.empty())
    sizes = {100, 145, 270, 1024};
  for (size_t i = 0; i < sizes.size(); ++i)
    std::printf("%s\"%zu\": %.1f", i ? ", " : "", sizes[i], read_bandwidth(std::max<size_t>(1, sizes[i])));
  std::printf("}}\n");
  return 0;
}
