#include "cli/common_other_kernels.h"

#include "backends/cpu/isa.h"

namespace isotone::cli {
namespace {

cpu::Isa another(cpu::Isa isa) {
  const bool wide = isa == cpu::Isa::avx512 || isa == cpu::Isa::avx512_bf16;
  return wide && cpu::isa_supported(cpu::Isa::avx2) ? cpu::Isa::avx2 : cpu::Isa::scalar;
}

/// Goes back to what was in use, also where an error comes.
class Restore {
 public:
  Restore() = default;
  ~Restore() {
    cpu::set_isa(isa_);
    cpu::set_amx(tiles_);
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  [[nodiscard]] cpu::Isa isa() const { return isa_; }

 private:
  cpu::Isa isa_ = cpu::current_isa();
  bool tiles_ = cpu::amx_in_use();
};

}  // namespace

void with_other_kernels(const std::function<void()>& body) {
  const Restore before;
  cpu::set_isa(another(before.isa()));
  body();
}

}  // namespace isotone::cli
