// The mathematical functions of the numerics contract for scalar code: the same bits on every platform and in the
// vector kernels (fmath_impl.h holds the one definition of each). Errors in ulp stand in docs/numerics.md, section 13.
#pragma once

namespace isotone::fmath {

/// f32 functions. NaN results are the canonical NaN (0x7fc00000), subnormal arguments count as zero, subnormal results
/// become zero, whatever the thread's mode. `pow` has IEEE 754's special cases.
float exp(float x);
float log(float x);
float sin(float x);
float cos(float x);
float tanh(float x);
float erf(float x);
float pow(float x, float y);

}  // namespace isotone::fmath

/// f64 functions for schedules, betas to a power and rotary tables: fixed sequences of double fma, about 1 ulp.
/// Subnormal results become zero.
namespace isotone::fmath64 {

double exp(double x);
double log(double x);
double sin(double x);
double cos(double x);
double pow(double x, double y);

}  // namespace isotone::fmath64
