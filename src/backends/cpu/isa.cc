#include "backends/cpu/isa.h"

#include <atomic>
#include <cstdlib>
#include <string>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/error.h"

namespace isotone::cpu {
namespace {

constexpr Isa kAll[] = {Isa::scalar, Isa::neon, Isa::avx2, Isa::avx512, Isa::avx512_bf16};

Isa choose() {
  const char* text = std::getenv("ISOTONE_ISA");
  if (text == nullptr || *text == 0) {
    const Isa best = supported_isas().back();
#if defined(__x86_64__)
    // Outside AMD's cores the pair-dot takes longer than the two fmas whose bits it equals (measured: half the rate on
    // Sapphire Rapids), so it is used there by request only.
    if (best == Isa::avx512_bf16 && !__builtin_cpu_is("amd")) {
      return Isa::avx512;
    }
#endif
    return best;
  }
  std::string list;
  for (const Isa isa : supported_isas()) {
    list += (list.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  for (const Isa isa : kAll) {
    if (isa_name(isa) == text) {
      require(isa_supported(isa), "ISOTONE_ISA={} was asked for, but this processor cannot run it; it runs {}", text,
              list);
      return isa;
    }
  }
  fail("ISOTONE_ISA={} is unknown; this processor runs {}", text, list);
}

std::atomic<Isa>& chosen() {
  static std::atomic<Isa> isa{choose()};
  return isa;
}

bool find_amx() {
#if defined(__x86_64__) && defined(__linux__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTile = 1U << 24, kBf16 = 1U << 22;
  if (!isa_supported(Isa::avx512_bf16) || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d & kTile) == 0 ||
      (d & kBf16) == 0) {
    return false;
  }
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

std::atomic<bool>& amx_chosen() {
  static std::atomic<bool> use{[] {
    const char* text = std::getenv("ISOTONE_ISA");
    return (text == nullptr || *text == 0) && amx_supported();
  }()};
  return use;
}

}  // namespace

bool amx_supported() {
  static const bool supported = find_amx();
  return supported;
}

bool amx_in_use() {
  return amx_chosen().load(std::memory_order_relaxed);
}

void set_amx(bool use) {
  require(!use || (amx_supported() && current_isa() >= Isa::avx512 && current_isa() <= Isa::avx512_bf16),
          "tile units were asked for beside {}; they need a processor with AMX and an avx512 set",
          isa_name(current_isa()));
  amx_chosen().store(use);
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::scalar:
      return "scalar";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
    case Isa::neon:
      return "neon";
  }
  return "?";
}

bool isa_supported(Isa isa) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vnni");
  switch (isa) {
    case Isa::scalar:
      return true;
    case Isa::avx2:
      return avx2;
    case Isa::avx512:
      return avx512;
    case Isa::avx512_bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16");
    case Isa::neon:
      return false;
  }
  return false;
#else
  return isa == Isa::scalar || isa == Isa::neon;
#endif
}

std::vector<Isa> supported_isas() {
  std::vector<Isa> result;
  for (const Isa isa : kAll) {
    if (isa_supported(isa)) {
      result.push_back(isa);
    }
  }
  return result;
}

Isa current_isa() {
  return chosen().load(std::memory_order_relaxed);
}

std::string isa_reason() {
  const char* asked = std::getenv("ISOTONE_ISA");
  if (asked != nullptr && *asked != 0) {
    return "ISOTONE_ISA asks for it";
  }
  const Isa best = supported_isas().back();
  return current_isa() == best
             ? "the widest that this processor runs"
             : std::string(isa_name(best)) + " has the same bits, but half the rate of products on this processor";
}

void set_isa(Isa isa) {
  require(isa_supported(isa), "instruction set {} cannot run on this processor", isa_name(isa));
  chosen().store(isa);
  amx_chosen().store(false);
}

}  // namespace isotone::cpu
