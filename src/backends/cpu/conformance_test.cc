// The CPU backend passes the suite of the seam, on every instruction set and with one thread and two.
#include "device/conformance.h"

#include <gtest/gtest.h>

#include "backends/cpu/device.h"
#include "backends/cpu/isa.h"
#include "base/parallel.h"

namespace isotone::cpu {
namespace {

TEST(Conformance, EverySampleOnEveryInstructionSet) {
  const auto device = make_cpu_device();
  const Isa saved = current_isa();
  const bool amx = amx_in_use();
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    std::size_t run = 0;
    for (const device::ConformanceResult& r : device::check_conformance(*device)) {
      EXPECT_EQ(r.failure, "") << isa_name(isa) << ": " << r.op << ", sample " << r.sample;
      ++run;
    }
    EXPECT_GT(run, 200U);
  }
  set_isa(saved);
  set_amx(amx);
}

TEST(Conformance, OneThreadLikeTwo) {
  const auto device = make_cpu_device();
  const int saved = thread_count();
  for (const int threads : {1, 2, 3}) {
    set_thread_count(threads);
    for (const device::ConformanceResult& r : device::check_conformance(*device)) {
      EXPECT_EQ(r.failure, "") << threads << " threads: " << r.op << ", sample " << r.sample;
    }
  }
  set_thread_count(saved);
}

}  // namespace
}  // namespace isotone::cpu
