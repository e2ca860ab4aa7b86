// Which kernels ran, and how often: lets a test prove that the production kernels were the ones compared.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace isotone {

/// Starts (true) or stops (false) counting; starting clears the counts. Off by default.
void set_kernel_log(bool on);

/// Adds one call of kernel `name` ("contract.bf16.avx512_bf16"). One atomic load where the log is off.
void log_kernel(std::string_view name);

/// Names and counts since the log was started, sorted by name.
std::vector<std::pair<std::string, std::int64_t>> kernel_log();

/// Count of one kernel, 0 where it never ran.
std::int64_t kernel_calls(std::string_view name);

}  // namespace isotone
