// Picks a kernel family's table for the instruction set in use: for `norm` of type NormTable there are functions
// norm_scalar(), norm_avx2(), norm_avx512(), norm_neon(), each in the file of that name.
#pragma once

#include "backends/cpu/isa.h"

#if defined(__x86_64__)
#define ISOTONE_CPU_TABLE(Table, family) \
  const Table& family##_scalar();        \
  const Table& family##_avx2();          \
  const Table& family##_avx512();        \
  inline const Table& family##_table() { \
    switch (current_isa()) {             \
      case Isa::avx512_bf16:             \
      case Isa::avx512:                  \
        return family##_avx512();        \
      case Isa::avx2:                    \
        return family##_avx2();          \
      default:                           \
        return family##_scalar();        \
    }                                    \
  }
#elif defined(__aarch64__)
#define ISOTONE_CPU_TABLE(Table, family)                                     \
  const Table& family##_scalar();                                            \
  const Table& family##_neon();                                              \
  inline const Table& family##_table() {                                     \
    return current_isa() == Isa::neon ? family##_neon() : family##_scalar(); \
  }
#else
#define ISOTONE_CPU_TABLE(Table, family) \
  const Table& family##_scalar();        \
  inline const Table& family##_table() { \
    return family##_scalar();            \
  }
#endif
