// Softmax, its logarithm and its gradient stand with the norms: see norm.h.
#pragma once

#include "backends/cpu/kernels/norm.h"
