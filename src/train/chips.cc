// Data sheets: nvidia.com (A100, H100, H200, HGX B200; TFLOPS without sparsity, NVLink halved to one direction),
// amd.com (MI300X; seven links of 64 GB/s a direction), docs.cloud.google.com/tpu/docs/v5p-training. What products
// reach: the tables of github.com/stas00/ml-engineering, compute/accelerator (A100, MI300X: MAMF; H200 and B200: MSMF,
// sustained at the power limit). An H100 is the H200's die at the same 700 W, so it has its figure; in fp8 its MAMF of
// 1402.6, lowered as much as bf16 is from 828.0 to 702.9. B200 in fp8 as in bf16. Of the TPU no figure is known to us:
// the H200's share.
#include "train/chips.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/timeline.h"
#include "dist/silent_rank.h"
#include "train/step_flops.h"

namespace isotone::train {
namespace {

constexpr double kTera = 1e12, kGiga = 1e9;
constexpr double kHopper = 702.9 * kTera, kHopperFp8 = 1402.6 * 702.9 / 828.0 * kTera;

/// Speed at 500 W of a chip made for 700: a clock's power grows with its third power where voltage follows it.
double at_500_watts() {
  return std::cbrt(500.0 / 700.0);
}

const std::vector<Chip>& chips() {
  static const std::vector<Chip> all{
      {"A100", 312 * kTera, 0, 271.2 * kTera, 0, 0.6 * 312 * kTera, 80 * kGiga, 2039 * kGiga, 300 * kGiga, 8},
      {"H100", 989 * kTera, 1979 * kTera, kHopper, kHopperFp8, 0.35 * 989 * kTera, 80 * kGiga, 3350 * kGiga,
       450 * kGiga, 8},
      // The one of TorchTitan's figures: HBM2e, 500 W.
      {"H100-96GB", 989 * kTera, 1979 * kTera, kHopper * at_500_watts(), kHopperFp8 * at_500_watts(),
       0.35 * 989 * kTera * at_500_watts(), 96 * kGiga, 2400 * kGiga, 450 * kGiga, 8},
      {"H200", 989 * kTera, 1979 * kTera, kHopper, kHopperFp8, 0.35 * 989 * kTera, 141 * kGiga, 4800 * kGiga,
       450 * kGiga, 8},
      {"B200", 2250 * kTera, 4500 * kTera, 1455.7 * kTera, 2 * 1455.7 * kTera, 0.35 * 2250 * kTera, 192 * kGiga,
       8000 * kGiga, 900 * kGiga, 8},
      {"MI300X", 1307.4 * kTera, 2614.9 * kTera, 668.4 * kTera, 2 * 668.4 * kTera, 0.35 * 1307.4 * kTera, 192 * kGiga,
       5300 * kGiga, 448 * kGiga, 8},
      // Linked all over the pod.
      {"TPU-v5p", 459 * kTera, 459 * kTera, 459 * kTera * 702.9 / 989, 459 * kTera * 702.9 / 989, 0.35 * 459 * kTera,
       95 * 1.073741824 * kGiga, 2765 * kGiga, 600 * kGiga, 6144},
  };
  return all;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

/// Bytes a second that all threads read and write together, in blocks too large for a cache.
double copy_bandwidth() {
  constexpr std::int64_t kBytes = std::int64_t{256} << 20, kBlock = 1 << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const auto copy = [&] {
    parallel_for(kBytes / kBlock, 1, [&](std::int64_t begin, std::int64_t end, int) {
      std::memcpy(to.data() + begin * kBlock, from.data() + begin * kBlock,
                  static_cast<std::size_t>((end - begin) * kBlock));
    });
  };
  copy();
  double best = 0.0;
  for (int i = 0; i < 4; ++i) {
    const std::int64_t begin = clock_ns();
    copy();
    best = std::max(best, 2.0 * static_cast<double>(kBytes) / (static_cast<double>(clock_ns() - begin) / 1e9));
  }
  return best;
}

double machine_memory() {
  // "MemTotal:  24576 kB" (proc(5))
  const std::string text = read_text_file("/proc/meminfo", 1 << 16);
  const std::size_t at = text.find("MemTotal:");
  return at == std::string::npos ? 0.0 : std::strtod(text.c_str() + at + 9, nullptr) * 1024.0;
}

}  // namespace

const Chip& chip_of(const std::string& name) {
  for (const Chip& c : chips()) {
    if (lower(c.name) == lower(name)) {
      return c;
    }
  }
  fail("the chip '{}' is not known; there are {}, and here (this machine)", name, fmt::join(chip_names(), ", "));
}

std::vector<std::string> chip_names() {
  std::vector<std::string> out;
  for (const Chip& c : chips()) {
    out.push_back(c.name);
  }
  return out;
}

Chip measure_machine() {
  dist::SilentRank alone;
  Chip c;
  c.name = "here";
  for (int i = 0; i < 3; ++i) {
    c.matmul = std::max(c.matmul, matmul_flops_a_second(alone, DType::f32));
  }
  c.bf16 = c.attention = c.matmul;
  c.memory = machine_memory();
  c.memory_bandwidth = c.link = copy_bandwidth();
  return c;
}

void share_machine(Chip& c, int ranks) {
  for (double* each : {&c.bf16, &c.matmul, &c.attention, &c.memory, &c.memory_bandwidth, &c.link}) {
    *each /= ranks;
  }
  c.chips_a_node = ranks;
}

}  // namespace isotone::train
