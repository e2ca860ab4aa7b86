#include "backends/cpu/other_kernels.h"

#include "backends/cpu/isa.h"

namespace isotone::cpu {
namespace {

Isa another(Isa isa) {
  const bool wide = isa == Isa::avx512 || isa == Isa::avx512_bf16;
  return wide && isa_supported(Isa::avx2) ? Isa::avx2 : Isa::scalar;
}

/// Goes back to what was in use, also where an error comes.
class Restore {
 public:
  Restore() = default;
  ~Restore() {
    set_isa(isa_);
    set_amx(tiles_);
  }
  Restore(const Restore&) = delete;
  Restore& operator=(const Restore&) = delete;
  [[nodiscard]] Isa isa() const { return isa_; }

 private:
  Isa isa_ = current_isa();
  bool tiles_ = amx_in_use();
};

}  // namespace

void with_other_kernels(const std::function<void()>& body) {
  const Restore before;
  set_isa(another(before.isa()));
  body();
}

}  // namespace isotone::cpu
