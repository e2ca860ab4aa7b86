# Kernels are compiled once per instruction set; which one runs is chosen at run time (isa.h).
set(kernels ${CMAKE_CURRENT_SOURCE_DIR}/src/backends/cpu/kernels)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  # g++ 12 warns of uninitialised values inside its own avx512 headers.
  set(avx512 "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-O3;-Wno-maybe-uninitialized;-Wno-uninitialized")
  file(GLOB avx512_files ${kernels}/*_avx512.cc)
  file(GLOB avx512_bf16_files ${kernels}/*_avx512_bf16.cc)
  file(GLOB amx_files ${kernels}/*_amx.cc)
  set_source_files_properties(${amx_files} PROPERTIES COMPILE_OPTIONS "${avx512};-mavx512bf16;-mamx-tile;-mamx-bf16")
  set_source_files_properties(${avx512_files} PROPERTIES COMPILE_OPTIONS "${avx512}")
  set_source_files_properties(${avx512_bf16_files} PROPERTIES COMPILE_OPTIONS "${avx512};-mavx512bf16")
endif()
file(GLOB o3_files ${kernels}/*_avx2.cc ${kernels}/*_neon.cc ${kernels}/*_scalar.cc)
set_source_files_properties(${o3_files} PROPERTIES COMPILE_OPTIONS "-O3")
