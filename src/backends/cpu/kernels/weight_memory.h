// Memory for packed weights: carved one after another from large blocks of huge pages, because a model's weights are
// streamed once a token and most of them alone are smaller than a huge page.
#pragma once

#include <cstddef>
#include <memory>

namespace isotone::cpu {

/// `bytes` bytes, aligned to 64. A block goes back to the system when the last weight in it is gone.
std::shared_ptr<std::byte> weight_memory(std::size_t bytes);

}  // namespace isotone::cpu
