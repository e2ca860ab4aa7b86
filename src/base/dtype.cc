#include "base/dtype.h"

#include "base/error.h"

namespace isotone {

DType parse_dtype(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i) {
    if (dtype_name(static_cast<DType>(i)) == name) {
      return static_cast<DType>(i);
    }
  }
  fail("dtype '{}' is unknown; choose one of f32, bf16, f16, i8, u8, i32, i64, bool, q4_0, q4_1, q8_0", name);
}

}  // namespace isotone
