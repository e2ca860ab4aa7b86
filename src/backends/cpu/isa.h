// Instruction sets that kernels are written for, and which one this process uses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace isotone::cpu {

/// `scalar` is plain C++ with hardware fma, one element at a time. `avx512` is AVX-512 F, BW, DQ, VL and VNNI.
enum class Isa { scalar, avx2, avx512, avx512_bf16, neon };

std::string_view isa_name(Isa isa);

/// Whether this processor and operating system can run it.
bool isa_supported(Isa isa);

/// The supported ones, from scalar upward.
std::vector<Isa> supported_isas();

/// What kernels use now: the fastest supported one (all give the same bits), or what ISOTONE_ISA names. Throws Error
/// where that is unknown or cannot run here.
Isa current_isa();

/// Why current_isa() is what it is, in a few words for people.
std::string isa_reason();

/// For tests and audits: use `isa` from now on (it must be supported), without tile units. Not to be called while a
/// kernel runs.
void set_isa(Isa isa);

/// Whether processor and operating system offer bf16 tile units (AMX). The first call asks the system for them, once
/// for all threads of the process.
bool amx_supported();

/// Whether bf16 contractions under the profile amx-1 run on tile units: where supported, unless ISOTONE_ISA names a
/// set.
bool amx_in_use();

/// For tests and audits: use tile units, or not, beside the current set, which must be an avx512 where they are used.
void set_amx(bool use);

}  // namespace isotone::cpu
