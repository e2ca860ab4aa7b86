// Cross-entropy and softmax share their row statistics, and so their files: see norm.h.
#pragma once

#include "backends/cpu/kernels/norm.h"
