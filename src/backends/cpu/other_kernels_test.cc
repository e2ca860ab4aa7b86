#include "backends/cpu/other_kernels.h"

#include <gtest/gtest.h>

#include "backends/cpu/isa.h"
#include "base/error.h"

namespace isotone::cpu {
namespace {

TEST(OtherKernels, AreThoseOfAnotherSetAndGoneAfterwards) {
  const Isa first = current_isa();
  const bool tiles = amx_in_use();
  for (const Isa isa : supported_isas()) {
    set_isa(isa);
    Isa inside = isa;
    with_other_kernels([&] {
      inside = current_isa();
      EXPECT_FALSE(amx_in_use());
    });
    EXPECT_EQ(inside == isa, isa == Isa::scalar) << isa_name(isa) << " and " << isa_name(inside);
    EXPECT_EQ(current_isa(), isa);
    EXPECT_THROW(with_other_kernels([] { fail("in the middle"); }), Error);
    EXPECT_EQ(current_isa(), isa) << "also after an error";
  }
  set_isa(first);
  set_amx(tiles);
  with_other_kernels([] {});
  EXPECT_EQ(amx_in_use(), tiles);
}

}  // namespace
}  // namespace isotone::cpu
