#pragma once
#include "backends/cpu/kernels/attention.h"
namespace isotone::ops {
using namespace isotone::cpu;
}
